import { afterEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { ask, invitedLink, look, UNREACHABLE } from './ask.ts';
import { ofRun } from './ofRun.ts';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

it.each(['come in', 'come in.'])('a refusal ends with one full stop: %j', async (error) => {
  vi.stubGlobal('fetch', async () => Response.json({ error }, { status: 403 }));
  expect(await ask('/api/status', z.unknown())).toMatchObject({ ok: false, reason: 'Refused: come in.' });
});

it('a server that takes too long to answer, or to say all of it, does not answer', async () => {
  const limit = vi.spyOn(AbortSignal, 'timeout');
  for (const isAnswering of [false, true]) {
    const controller = new AbortController();
    limit.mockReturnValueOnce(controller.signal);
    const ends = (_resolve: unknown, reject: (why: unknown) => void): void =>
      controller.signal.addEventListener('abort', () => reject(controller.signal.reason));
    const answering = { ok: true, status: 200, headers: new Headers(), json: () => new Promise(ends) };
    vi.stubGlobal('fetch', () => (isAnswering ? Promise.resolve(answering) : new Promise(ends)));
    const answer = look('/api/status', z.unknown());
    await vi.waitFor(() => expect(limit).toHaveBeenLastCalledWith(12_000));
    await new Promise(setImmediate);
    controller.abort();
    expect(await answer).toEqual({ ok: false, reason: UNREACHABLE });
  }
});

it('calls and links name the run of the page, but where they name one themselves', async () => {
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

describe('while another process of a site takes over', () => {
  const error = 'no process of this site leads at the moment: try again in some seconds';
  const away = (headers: Record<string, string>): Response => Response.json({ error }, { status: 503, headers });
  async function asked(answer: (tries: number) => Response): Promise<[number, unknown]> {
    vi.useFakeTimers();
    let tries = 0;
    vi.stubGlobal('fetch', async () => answer(++tries));
    const answers = ask('/api/operator/login', z.unknown(), { method: 'POST' });
    await vi.advanceTimersByTimeAsync(60_000);
    vi.useRealTimers();
    return [tries, await answers];
  }

  it('a call is made again, until somebody leads', async () => {
    const answers = await asked((tries) => (tries < 4 ? away({ 'retry-after': '2' }) : Response.json('in')));
    expect(answers).toEqual([4, { ok: true, value: 'in' }]);
  });

  it('it ends with the refusal where nobody does', async () => {
    const [tries, answer] = await asked(() => away({ 'retry-after': '2' }));
    expect(tries).toBe(7);
    expect(answer).toMatchObject({ ok: false, reason: expect.stringContaining('no process of this site') });
  });

  it.each([{}, { 'retry-after': '3600' }, { 'retry-after': 'Fri, 27 Nov 2026 09:00:00 GMT' }])(
    'it is made once where it may have been done, or is for later: %j',
    async (headers) => {
      expect((await asked(() => away(headers)))[0]).toBe(1);
    },
  );
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
