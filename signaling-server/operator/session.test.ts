import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Server } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { operatorSession } from './session.ts';
import { WHO } from './who.ts';

const STEPS = 6;
const DAY_MS = 86_400_000;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: STEPS, checkpointEverySteps: 2 });
});
afterEach(() => servers.close());
const serve = (): Promise<Server> => servers.serve();

describe('operator', () => {
  async function login(server: Server, token = server.operatorToken()): Promise<Response> {
    return fetch(`${server.url}/api/operator/login`, {
      method: 'POST',
      body: JSON.stringify({ token }),
      headers: { 'content-type': 'application/json', origin: server.url },
    });
  }
  const cookieOf = (response: Response) => response.headers.get('set-cookie')?.split(';')[0] ?? '';
  const command = (server: Server, cookie: string, name: string, origin = server.url) =>
    fetch(`${server.url}/api/operator/command`, {
      method: 'POST',
      body: JSON.stringify({ command: name }),
      headers: { 'content-type': 'application/json', cookie, origin },
    });

  it('logs in once with each token and steers with the cookie', async () => {
    const server = await serve();
    const data = await servers.data();
    const token = server.operatorToken();
    expect((await login(server, 'wrong')).status).toBe(401);
    const response = await login(server, token);
    expect(response.headers.get('set-cookie')).toMatch(/HttpOnly; SameSite=Strict/);
    expect((await login(server, token)).status).toBe(401);
    const cookie = cookieOf(response);
    expect(await data.store.setting('sessions')).not.toContain(cookie.split('=')[1]);
    expect((await command(server, cookie, 'pause')).status).toBe(200);
    expect(server.run.snapshot().phase).toBe('paused');
    const view = await fetch(`${server.url}/api/snapshot`, { headers: { cookie } });
    expect(await view.json()).toMatchObject({ snapshot: { phase: 'paused', run: 'tiny' }, recent: [] });
    expect((await command(server, cookie, 'start')).status).toBe(200);
    const donor = await ScriptedDonor.joined(server.url);
    await donor.hears('standby');
  });

  it('a login and a logout are events of the run', async () => {
    const server = await serve();
    const cookie = cookieOf(await login(server));
    await fetch(`${server.url}/api/operator/logout`, { method: 'POST', headers: { cookie, origin: server.url } });
    const again = cookieOf(await login(server));
    const view = await fetch(`${server.url}/api/snapshot`, { headers: { cookie: again } });
    const { events } = (await view.json()) as { events: { kind: string; what?: string }[] };
    expect(events.flatMap(({ what }) => what ?? [])).toEqual([
      'logged in as an operator',
      'logged out',
      'logged in as an operator',
    ]);
  });

  it('refuses who has no cookie, and every other site', async () => {
    const server = await serve();
    expect((await command(server, '', 'pause')).status).toBe(401);
    expect((await fetch(`${server.url}/api/snapshot`)).status).toBe(401);
    const cookie = cookieOf(await login(server));
    expect((await command(server, cookie, 'pause', 'https://elsewhere.example')).status).toBe(403);
    expect((await command(server, cookie, 'explode')).status).toBe(400);
  });

  it('keeps a session over a restart, and a stop until a start', async () => {
    const first = await serve();
    const cookie = cookieOf(await login(first));
    await command(first, cookie, 'stop');
    await first.close();
    const second = await serve();
    expect(second.run.snapshot().phase).toBe('paused');
    expect((await command(second, cookie, 'start')).status).toBe(200);
    await (await ScriptedDonor.joined(second.url)).hears('standby');
    expect(second.run.committedSteps).toBe(STEPS);
  });

  const call = (server: Server, cookie: string, method: string, path: string) =>
    fetch(`${server.url}${path}`, {
      ...{ method, headers: { cookie, origin: server.url, 'content-type': 'application/json' } },
      ...(method === 'GET' ? {} : { body: '{}' }),
    });

  it('a viewer logs in with a token that an operator made, once; sees what an operator sees, and changes nothing', async () => {
    const server = await serve();
    const operator = cookieOf(await login(server));
    const { token } = (await (await call(server, operator, 'POST', '/api/operator/viewer')).json()) as {
      token: string;
    };
    const response = await login(server, token);
    expect(response.status).toBe(200);
    expect((await login(server, token)).status).toBe(401);
    const viewer = cookieOf(response);
    for (const [path, who] of Object.entries(WHO)) {
      const [method = '', url = ''] = path.split(' ');
      if ((who !== 'viewer' && who !== 'operator') || url === '/api/operator/logout' || url === '/api/watch') continue;
      const answer = { viewer: await call(server, viewer, method, url), nobody: await call(server, '', method, url) };
      expect([path, answer.nobody.status]).toEqual([path, 401]);
      const isRefused = answer.viewer.status === 403;
      expect([path, isRefused]).toEqual([path, who === 'operator']);
    }
    expect(await (await call(server, viewer, 'GET', '/api/snapshot')).json()).toMatchObject({ role: 'viewer' });
    expect(await (await call(server, operator, 'GET', '/api/snapshot')).json()).toMatchObject({ role: 'operator' });
    expect(server.run.snapshot().phase).toBe('waiting');
  });

  it('a session that is logged out is over, for its cookie and for its open dashboard', async () => {
    const server = await serve();
    const cookie = cookieOf(await login(server));
    const socket = new WebSocket(`${server.url.replace(/^http/, 'ws')}/api/watch`, {
      headers: { cookie, origin: server.url },
    });
    await once(socket, 'message');
    const ended = once(socket, 'close');
    const answer = await call(server, cookie, 'POST', '/api/operator/logout');
    expect(answer.headers.get('set-cookie')).toMatch(/^shoal_operator=; .*Max-Age=0/);
    expect((await call(server, cookie, 'GET', '/api/snapshot')).status).toBe(401);
    server.run.tellWatchers();
    expect((await ended)[0]).toBe(4401);
  });

  it('an operator is told the invitation, for links to the other pages; a viewer is not', async () => {
    const server = await servers.serve({ invite: 'fish' });
    const operator = cookieOf(await login(server));
    const made = await call(server, operator, 'POST', '/api/operator/viewer');
    const viewer = cookieOf(await login(server, ((await made.json()) as { token: string }).token));
    const told = async (cookie: string) =>
      ((await (await call(server, cookie, 'GET', '/api/snapshot')).json()) as { invite?: string }).invite;
    expect([await told(operator), await told(viewer)]).toEqual(['fish', undefined]);
  });

  it('of an address ten logins a minute are looked at', async () => {
    const server = await serve();
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++)
      statuses.push((await login(server, i === 11 ? server.operatorToken() : 'wrong')).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    expect(await (await login(server)).json()).toEqual({ error: expect.stringMatching(/try again in a minute$/) });
  });
});

describe('sessions', () => {
  const cookieOf = (header: string | null): string => header?.split(';')[0] ?? '';
  const kept: { saved: string | null; save(text: string): void } = {
    saved: null,
    save(text) {
      kept.saved = text;
    },
  };
  beforeEach(() => {
    kept.saved = null;
    vi.useFakeTimers({ toFake: ['performance', 'Date'] });
  });
  afterEach(() => void vi.useRealTimers());

  it('last seven days of the server’s own time, over restarts too, whatever the wall clock says', () => {
    const first = operatorSession(kept, () => {});
    const cookie = cookieOf(first.login(first.token(), true));
    vi.setSystemTime(Date.now() + 400 * DAY_MS);
    expect(first.roleOf(cookie)).toBe('operator');
    vi.advanceTimersByTime(6 * DAY_MS);
    expect(first.roleOf(cookie)).toBe('operator');
    const second = operatorSession(kept, () => {});
    vi.setSystemTime(0);
    expect(second.roleOf(cookie)).toBe('operator');
    vi.advanceTimersByTime(DAY_MS + 1);
    expect(second.roleOf(cookie)).toBeNull();
    expect(first.roleOf(cookie)).toBeNull();
  });

  it('a viewer’s token that nobody used for a day opens nothing', () => {
    const session = operatorSession(kept, () => {});
    const [used, late] = [session.viewerToken(), session.viewerToken()];
    expect(session.roleOf(cookieOf(session.login(used, false)))).toBe('viewer');
    vi.advanceTimersByTime(DAY_MS);
    expect(session.login(late, false)).toBeNull();
  });
});
