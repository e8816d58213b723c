import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Server } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 6;

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
    const token = server.operatorToken();
    expect((await login(server, 'wrong')).status).toBe(401);
    const response = await login(server, token);
    expect(response.headers.get('set-cookie')).toMatch(/HttpOnly; SameSite=Strict/);
    expect((await login(server, token)).status).toBe(401);
    const cookie = cookieOf(response);
    expect((await command(server, cookie, 'pause')).status).toBe(200);
    expect(server.run.snapshot().phase).toBe('paused');
    const view = await fetch(`${server.url}/api/snapshot`, { headers: { cookie } });
    expect(await view.json()).toMatchObject({ snapshot: { phase: 'paused', run: 'tiny' }, recent: [] });
    expect((await command(server, cookie, 'start')).status).toBe(200);
    const donor = await ScriptedDonor.joined(server.url);
    await donor.hears('standby');
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
});
