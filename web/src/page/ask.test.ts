import { afterEach, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { ask, invitedLink } from './ask.ts';
import { ofRun } from './ofRun.ts';

afterEach(() => vi.unstubAllGlobals());

it.each(['come in', 'come in.'])('a refusal ends with one full stop: %j', async (error) => {
  vi.stubGlobal('fetch', async () => Response.json({ error }, { status: 403 }));
  expect(await ask('/api/status', z.unknown())).toMatchObject({ ok: false, reason: 'Refused: come in.' });
});

it('[NA86] calls and links name the run of the page, but where they name one themselves', async () => {
  const asked: unknown[] = [];
  vi.stubGlobal('fetch', async (path: unknown) => Response.json(asked.push(path)));
  ofRun.value = 'a b&c';
  for (const path of ['/api/status', '/api/status?invite=x', '/api/operator/steps?run=other'])
    await ask(path, z.unknown());
  const links = [invitedLink('/status', null), invitedLink('/status', 'x')];
  ofRun.value = null;
  await ask('/api/status', z.unknown());
  expect(asked).toEqual([
    '/api/status?run=a+b%26c',
    '/api/status?invite=x&run=a+b%26c',
    '/api/operator/steps?run=other',
    '/api/status',
  ]);
  expect(links).toEqual(['/status?run=a+b%26c', '/status?run=a+b%26c#invite=x']);
});

it('a refusal that is a sentence of its own stands as it is', async () => {
  const error = 'This run is by invitation. Open the whole link that you were given.';
  vi.stubGlobal('fetch', async () => Response.json({ error }, { status: 403 }));
  expect(await ask('/api/status', z.unknown())).toMatchObject({ ok: false, reason: error });
});

it('a page’s link carries the invitation, however it is spelled, where the server does not see it', () => {
  const invite = 'a b&c=d#e+f%20é';
  const link = new URL(invitedLink('/status', invite), 'http://localhost');
  expect([link.pathname, link.search]).toEqual(['/status', '']);
  expect(new URLSearchParams(link.hash.slice(1)).get('invite')).toBe(invite);
  expect(invitedLink('/status', null)).toBe('/status');
});
