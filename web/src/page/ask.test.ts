import { afterEach, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { ask, invitedLink } from './ask.ts';

afterEach(() => vi.unstubAllGlobals());

it.each(['come in', 'come in.'])('a refusal ends with one full stop: %j', async (error) => {
  vi.stubGlobal('fetch', async () => Response.json({ error }, { status: 403 }));
  expect(await ask('/api/status', z.unknown())).toMatchObject({ ok: false, reason: 'Refused: come in.' });
});

it('a page’s link carries the invitation, however it is spelled, where the server does not see it', () => {
  const invite = 'a b&c=d#e+f%20é';
  const link = new URL(invitedLink('/status', invite), 'http://localhost');
  expect([link.pathname, link.search]).toEqual(['/status', '']);
  expect(new URLSearchParams(link.hash.slice(1)).get('invite')).toBe(invite);
  expect(invitedLink('/status', null)).toBe('/status');
});
