import { createServer as createHttpServer, get } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createServer, type Server, type ServerOptions } from './server.ts';
import { addRun, openDataDirectory } from './store/dataDirectory.ts';
import { ScriptedDonor } from './testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from './testing/tinyServers.ts';

const STEPS = 6;
const RUN = { steps: STEPS, checkpointEverySteps: 2, evaluationEverySteps: 3 };

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers(RUN);
});
afterEach(() => servers.close());
const serve = (options: Partial<ServerOptions> = {}): Promise<Server> => servers.serve(options);

describe('data directory', () => {
  it('refuses the same name with another content', async () => {
    const data = await servers.data();
    expect(await addRun(data, servers.runPath)).toEqual({ ok: true, value: 'tiny' });
    expect(await addRun(data, servers.runPath)).toEqual({ ok: true, value: 'tiny' });
    servers.writeRun(tinyRunFile({ ...RUN, steps: 7 }));
    expect(await addRun(data, servers.runPath)).toEqual({
      ok: false,
      reason: expect.stringContaining('another content'),
    });
    servers.writeRun(tinyRunFile(RUN));
    expect(await addRun(data, servers.runPath, { seed: 2 })).toEqual({
      ok: false,
      reason: expect.stringMatching(/name "tiny"/),
    });
    expect(await addRun(data, servers.runPath, { seed: 2, name: 'tiny-2' })).toEqual({ ok: true, value: 'tiny-2' });
    expect(data.store.runNames()).toEqual(['tiny', 'tiny-2']);
  });

  it('serves one server at a time', async () => {
    await servers.data();
    const second = await openDataDirectory(servers.dataFolder);
    expect(second).toEqual({ ok: false, reason: expect.stringContaining('in use by another server') });
  });

  it('sweeps uploads that no checkpoint names', async () => {
    const data = await servers.data();
    await addRun(data, servers.runPath);
    const needed = await data.blobs.list();
    await data.blobs.put(new Uint8Array([1, 2, 3]));
    servers.closeData();
    expect(await (await servers.data()).blobs.list()).toEqual(needed);
  });
});

describe('server', () => {
  it('says in one sentence that a port is taken', async () => {
    const other = createHttpServer();
    const port = await new Promise<number>((resolve) => {
      other.listen(0, 'localhost', () => {
        const address = other.address();
        resolve(typeof address === 'object' && address ? address.port : 0);
      });
    });
    servers.closing(other);
    const data = await servers.data();
    await addRun(data, servers.runPath);
    const server = await createServer({ data, runName: 'tiny', port, log: () => {} });
    expect(server).toEqual({ ok: false, reason: `port ${port} of localhost is taken: choose another one with --port` });
  });

  it('[WP44] hands out the run’s tokens to its donors alone, and of the state what a plan has them read', async () => {
    const server = await serve();
    const donor = new ScriptedDonor(server.url);
    donor.obedient = false;
    await donor.hears('prepare');
    const [hash] = donor.welcome.run.data.shards;
    expect((await fetch(`${server.url}/api/tokens/${hash}`)).status).toBe(401);
    const tokens = await donor.fetch(`/api/tokens/${hash}`);
    expect(tokens.headers.get('cache-control')).toContain('immutable');
    expect(new Uint8Array(await tokens.arrayBuffer())[0]).toBe('C'.charCodeAt(0));
    expect((await donor.fetch(`/api/tokens/${'0'.repeat(64)}`)).status).toBe(404);

    const values = await donor.fetch('/api/state/0/head?kind=value&from=0&to=16');
    expect([...new Float32Array(await values.arrayBuffer())]).toEqual([...Array(8).fill(1), ...Array(8).fill(0)]);
    const moments = await donor.fetch('/api/state/0/head?kind=m&from=4&to=6');
    expect([...new Float32Array(await moments.arrayBuffer())]).toEqual([0, 0]);
    for (const path of ['0/head?kind=value&from=0&to=17', '0/tail?kind=value&from=0&to=1'])
      expect((await donor.fetch(`/api/state/${path}`)).status).toBe(404);
    expect((await donor.fetch('/api/state/1/head?kind=v&from=0&to=1')).status).toBe(403);
    expect((await donor.fetch('/api/state/0/head?kind=w&from=0&to=1')).status).toBe(400);
  });

  it('[OE1][OE2] with own ends tokens and plans are for donors with the operator’s key; without one of them the run waits', async () => {
    servers.writeRun({ ...tinyRunFile(RUN), trust: { audit: 0, ends: 'own' } });
    const ownKey = 'a-key-of-the-operator';
    const server = await serve({ ownKey });
    const stranger = await ScriptedDonor.joined(server.url, { own: 'a-key-of-somebody-else' });
    expect(stranger.welcome.run.ends).toBe('own');
    await server.run.until((run) => run.lacksPlan);
    expect(server.run.snapshot().sentence).toBe(
      'No plan for these donors: the first and last stage need a donor of the operator’s own',
    );
    const [hash] = stranger.welcome.run.data.shards;
    expect((await stranger.fetch(`/api/tokens/${hash}`)).status).toBe(403);
    const own = await ScriptedDonor.joined(server.url, { own: ownKey });
    const { plan } = await own.hears('prepare');
    expect(new Set(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer)))).toEqual(
      new Set([own.welcome.peer]),
    );
    expect((await own.fetch(`/api/tokens/${hash}`)).status).toBe(200);
  });

  it('answers nobody who asks for it by a name that it was not started with, sockets neither', async () => {
    const server = await serve({ expectedDonors: 9, access: { publicUrl: 'http://shoal.example.org' } });
    const { port } = new URL(server.url);
    const answered = (path: string, host: string, heads = '') =>
      new Promise<string>((resolve) => {
        const socket = connect(Number(port), 'localhost');
        socket.once('data', (bytes) => {
          resolve(String(bytes));
          socket.destroy();
        });
        socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${heads}\r\n`);
      });
    const status = async (...request: Parameters<typeof answered>) => (await answered(...request)).split(' ')[1];
    const upgrade =
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvYWwgaXMgYSBmaXNoLg==\r\n';
    for (const path of ['/healthz', '/api/status', '/nowhere'])
      expect(await status(path, 'evil.example.org')).toBe('421');
    expect(await status('/api/donor', 'evil.example.org', upgrade)).toBe('421');
    // To a person it is a page.
    expect(await answered('/', 'evil.example.org', 'Accept: text/html\r\n')).toMatch(/<p>This server is not known by/);
    expect(await status('/api/donor', 'shoal.example.org', upgrade)).toBe('101');
    for (const host of ['localhost', `127.0.0.1:${port}`, 'shoal.example.org'])
      expect(await status('/healthz', host)).toBe('200');
  });

  it('tells a trusted proxy of its health by whatever name it asks, and nothing else', async () => {
    const server = await serve({ expectedDonors: 9, access: { trustProxy: ['127.0.0.0/8', '::1'] } });
    const { port } = new URL(server.url);
    const status = (path: string) =>
      new Promise<number | undefined>((resolve) => {
        get({ host: 'localhost', port, path, headers: { host: 'shoal-1:8080' } }, ({ statusCode }) =>
          resolve(statusCode),
        );
      });
    expect([await status('/healthz'), await status('/readyz')]).toEqual([200, 200]);
    expect([await status('/api/status'), await status('/metrics'), await status('/')]).toEqual([421, 421, 421]);
  });
});
