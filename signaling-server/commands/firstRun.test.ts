import { expect, test } from 'vitest';
import { firstRun } from './firstRun.ts';

const site = (active: string | null, ...beside: string[]) => ({
  activeRun: () => (active === null ? null : { name: active, document: '' }) as never,
  besideRuns: () => beside,
});

test('[NA80] a run that trains beside is not the first one too, though it was chosen or is a file’s', () => {
  expect(firstRun(site('tiny'), 'other')).toEqual({ ok: true, value: 'other' });
  expect(firstRun(site('tiny', 'third'), 'other')).toEqual({ ok: true, value: 'other' });
  expect(firstRun(site('tiny', 'other'), 'other')).toEqual({ ok: true, value: 'tiny' });
  expect(firstRun(site(null, 'other'), 'other').ok).toBe(false);
  expect(firstRun(site('other', 'other'), 'other').ok).toBe(false);
});
