import { expect, it } from 'vitest';
import { SiteInvite } from './siteInvite.ts';

/** What a site keeps, and processes of it. */
function siteOf() {
  let kept: string | null = null;
  const said: string[] = [];
  const process = (invite?: string, isOpening = false) =>
    new SiteInvite({
      store: {
        setting: () => kept,
        saveSetting: (_, invite) => {
          kept = invite;
        },
      },
      ...{ site: 'shoal', invite, isOpening },
      log: (_, text) => said.push(text),
    });
  return { process, said, kept: () => kept };
}
const CAN = { ok: true, value: null };
const CANNOT = (what: string) => ({ ok: false, reason: expect.stringContaining(what) });

it('no fail-over opens what is by invitation, nor shuts what is open', () => {
  const closed = siteOf();
  expect(closed.process('whale').lead(true)).toEqual(CAN);
  expect(closed.kept()).not.toContain('whale');
  // It began before the first one had said anything, and the first one is gone.
  const other = closed.process();
  other.followed();
  other.followed();
  expect(closed.said).toEqual([expect.stringMatching(/^this process can lead no run: .* are by invitation/)]);
  expect(other.lead(true)).toEqual(CANNOT('are by invitation'));
  expect(other.leadBeside()).toEqual(CANNOT('are by invitation'));
  // Nor does a restart.
  expect(closed.process().startProblem(false)).toContain('--open-to-all');
  expect(closed.process().lead(true)).toEqual(CANNOT('--open-to-all'));
  expect(closed.process('whale').lead(false)).toEqual(CAN);
  expect(closed.process('whale').leadBeside()).toEqual(CAN);

  const open = siteOf();
  expect(open.process().leadBeside()).toEqual(CANNOT('not known yet'));
  expect(open.process().lead(true)).toEqual(CAN);
  const invited = open.process('whale');
  invited.followed();
  expect(invited.lead(true)).toEqual(CANNOT('are open to everyone'));
});

it('the first process of a site that all have left may change it; one beside others may not', () => {
  const site = siteOf();
  expect(site.process('whale').lead(true)).toEqual(CAN);
  expect(site.process('shark').startProblem(true)).toContain('by another invitation');
  expect(site.process('shark').lead(false)).toEqual(CANNOT('by another invitation'));
  expect(site.process('shark').startProblem(false)).toBe(null);
  expect(site.process('shark').lead(true)).toEqual(CAN);
  expect(site.process('whale').startProblem(true)).toContain('by another invitation');
  expect(site.process(undefined, true).startProblem(true)).toContain('are by invitation');
  expect(site.process(undefined, true).lead(true)).toEqual(CAN);
  expect(site.said.at(-1)).toBe('the runs of this site are open to everyone from now on');
  expect(site.process().startProblem(true)).toBe(null);
});
