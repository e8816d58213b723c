import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MESSAGE_BYTES_LIMIT, PROTOCOL_VERSION } from '../swarm/messages/messages.ts';
import { parseManifest } from './run/checkpointState.ts';
import { createServer, type Server, type ServerOptions } from './server.ts';
import { addRun, openDataDirectory } from './store/dataDirectory.ts';
import { counted } from './testing/counted.ts';
import { SCRIPTED_ADAPTER, ScriptedDonor, scriptedEvaluation, scriptedLoss } from './testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from './testing/tinyServers.ts';
import { exportRun } from './weights/exportRun.ts';

const STEPS = 6;
const RUN = { steps: STEPS, checkpointEverySteps: 2, evaluationEverySteps: 3 };

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers(RUN);
});
afterEach(() => servers.close());
const serve = (options: Partial<ServerOptions> = {}): Promise<Server> => servers.serve(options);

async function joined(server: Server): Promise<ScriptedDonor> {
  const donor = new ScriptedDonor(server.url);
  await donor.hears('welcome');
  return donor;
}

const metrics = (path: string) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe('a run', () => {
  it('is trained to its end by one donor, every step once in the metrics', async () => {
    const metricsPath = join(servers.folder, 'metrics.jsonl');
    const server = await serve({ metricsPath });
    const donor = await joined(server);
    expect(await donor.hears('standby')).toEqual({ type: 'standby', state: 'finished' });
    const lines = metrics(metricsPath);
    expect(lines.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5]);
    for (const line of lines) expect(line.loss).toBeCloseTo(scriptedLoss(line.step), 12);
    const evaluated = lines.filter((line) => 'evaluationLoss' in line);
    expect(evaluated.map(({ step }) => step)).toEqual([2, 5]);
    for (const line of evaluated) expect(line.evaluationLoss).toBeCloseTo(scriptedEvaluation(line.step + 1), 12);
    expect(lines[0]).toMatchObject({ tokens: 32, donors: 1, stages: 1, microBatches: 4, bytesDirect: 100 });
    expect(server.run.snapshot()).toMatchObject({ phase: 'finished', committedSteps: STEPS });
  });

  it('waits for every expected donor, then splits the model between them', async () => {
    const server = await serve({ expectedDonors: 2 });
    const first = await joined(server);
    expect(server.run.snapshot().phase).toBe('waiting');
    const second = await joined(server);
    const { plan } = await first.hears('prepare');
    expect(plan.stages.map(({ members }) => members.map(({ peer }) => peer))).toEqual([
      [first.welcome.peer],
      [second.welcome.peer],
    ]);
    await second.hears('standby');
    expect(server.run.committedSteps).toBe(STEPS);
  });

  it('goes back to the newest checkpoint when a donor is lost, and still has every step once', async () => {
    const metricsPath = join(servers.folder, 'metrics.jsonl');
    const server = await serve({ expectedDonors: 2, metricsPath });
    const first = new ScriptedDonor(server.url);
    const second = await joined(server);
    await second.hears('committed', ({ step }) => step === 2);
    second.vanish();
    await first.hears('standby');
    expect(metrics(metricsPath).map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(metrics(metricsPath).at(-1)).toMatchObject({ donors: 1, stages: 1 });
  });

  it('goes on from its store with another number of donors', async () => {
    const earlier = await serve({ steps: 3, expectedDonors: 2, metricsPath: join(servers.folder, 'a.jsonl') });
    const donors = [await joined(earlier), await joined(earlier)];
    await Promise.all(donors.map((donor) => donor.hears('standby')));
    await earlier.close();

    const metricsPath = join(servers.folder, 'b.jsonl');
    const later = await serve({ metricsPath });
    expect(metrics(metricsPath).map(({ step }) => step)).toEqual([0, 1, 2]);
    const donor = await joined(later);
    expect(await donor.hears('prepare')).toMatchObject({ step: 3, source: { from: 'checkpoint', step: 3 } });
    await donor.hears('standby');
    expect(metrics(metricsPath).map(({ step, donors: count }) => [step, count])).toEqual([
      [0, 2],
      [1, 2],
      [2, 2],
      [3, 1],
      [4, 1],
      [5, 1],
    ]);
  });

  it('stops at a step boundary with everything saved', async () => {
    const data = await servers.data();
    const server = await serve();
    const donor = await joined(server);
    await donor.hears('committed', ({ step }) => step === 0);
    await server.stop();
    const steps = data.store.committedSteps('tiny');
    expect(steps).toBeGreaterThan(0);
    expect(data.store.newestCheckpoint('tiny')?.committedSteps).toBe(steps);
    expect(data.store.run('tiny')?.operatorPaused).toBe(false);
  });
});

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

  it('hands out the run’s tokens and state to its donors alone', async () => {
    const server = await serve({ expectedDonors: 9 });
    const donor = await joined(server);
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
    for (const path of [
      '0/head?kind=value&from=0&to=17',
      '0/tail?kind=value&from=0&to=1',
      '1/head?kind=v&from=0&to=1',
    ]) {
      expect((await donor.fetch(`/api/state/${path}`)).status).toBe(404);
    }
    expect((await donor.fetch('/api/state/0/head?kind=w&from=0&to=1')).status).toBe(400);
  });

  it('[SV6] bounds uploads by the model and by what was asked for', async () => {
    servers.writeRun(tinyRunFile({ steps: STEPS, evaluationEverySteps: 3 }));
    const server = await serve();
    const unmeasured = new ScriptedDonor(server.url, { greets: false });
    await unmeasured.opened;
    unmeasured.say({ type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER });
    await unmeasured.hears('welcome');
    const donor = await joined(server);
    await donor.hears('committed', ({ checkpoint }) => checkpoint);
    const headers = { 'content-type': 'application/octet-stream' };
    const put = (bytes: number, from = donor) =>
      from.fetch('/api/state', { method: 'PUT', body: new Uint8Array(bytes), headers }).then(({ status }) => status);
    const embedding = (256 + 16) * 8 * 12;
    expect(await put(embedding)).toBe(200);
    expect(await put(embedding + 1)).toBe(413);
    expect(await put(0)).toBe(400);
    // Nobody fills the disk with what was not asked for, or with the same again and again.
    expect(await put(4, unmeasured)).toBe(403);
    const answers: number[] = [];
    while (answers.at(-1) !== 403) answers.push(await put(embedding));
    expect(answers.length).toBeLessThan(9);
  });

  it('relays signals between donors of the run', async () => {
    const server = await serve({ expectedDonors: 9 });
    const [a, b] = [await joined(server), await joined(server)];
    a.say({ type: 'signal', to: b.welcome.peer, epoch: 0, data: 'offer' });
    expect(await b.hears('signal')).toEqual({ type: 'signal', from: a.welcome.peer, epoch: 0, data: 'offer' });
  });
});

describe('[WP] what no page says', () => {
  /** Two donors train to the end while a third one misbehaves; the reason it is refused with. */
  async function refusalOf(misbehave: (donor: ScriptedDonor) => void | Promise<void>, greets = true) {
    const server = await serve({ expectedDonors: 2 });
    const hostile = new ScriptedDonor(server.url, { greets });
    hostile.obedient = false;
    await hostile.opened;
    if (greets) await hostile.hears('welcome');
    await misbehave(hostile);
    const { reason } = await hostile.hears('refused');
    await hostile.closed;
    expect(await counted(server, `shoal_refused_total{reason="${reason}"}`)).toBe(1);
    const others = [await joined(server), await joined(server)];
    await Promise.all(others.map((donor) => donor.hears('standby', ({ state }) => state === 'finished')));
    expect(server.run.committedSteps).toBe(STEPS);
    return reason;
  }
  const adapter = { vendor: '', architecture: '', description: '', software: false, browser: '' };

  it('no JSON', async () => expect(await refusalOf((donor) => donor.sayRaw('{'), false)).toBe('malformed'));
  it('a tensor', async () => expect(await refusalOf((donor) => donor.sayRaw(new Uint8Array(99)))).toBe('malformed'));
  it('an unknown word', async () =>
    expect(await refusalOf((donor) => donor.sayRaw('{"type":"mine"}'))).toBe('malformed'));
  it('another version', async () =>
    expect(await refusalOf((donor) => donor.sayRaw('{"type":"hello","protocol":99}'), false)).toBe('wrongProtocol'));
  it('a message that is too long', async () =>
    expect(await refusalOf((donor) => donor.sayRaw(' '.repeat(MESSAGE_BYTES_LIMIT + 1)))).toBe('tooLarge'));
  it('something before hello', async () =>
    expect(await refusalOf((donor) => donor.say({ type: 'heartbeat' }), false)).toBe('outOfOrder'));
  it('hello twice', async () =>
    expect(await refusalOf((donor) => donor.say({ type: 'hello', protocol: 1, adapter }))).toBe('outOfOrder'));
  it('ready for a plan that never was', async () =>
    expect(await refusalOf((donor) => donor.say({ type: 'ready', epoch: 7, memoryBytes: 0 }))).toBe('outOfOrder'));
  it('an upload that is not there', async () => {
    const shards = [{ block: 'head', range: [0, 16] as const, hash: 'a'.repeat(64) }];
    expect(await refusalOf((donor) => donor.say({ type: 'uploaded', epoch: 0, step: 0, shards }))).toBe('malformed');
  });
  it('more than anyone has to say', async () =>
    expect(
      await refusalOf((donor) => {
        for (let i = 0; i < 1_500; i++) donor.say({ type: 'heartbeat' });
      }),
    ).toBe('tooManyMessages'));

  it('cuts off what is far too long', async () => {
    const server = await serve();
    const donor = await joined(server);
    donor.sayRaw(' '.repeat(8 * MESSAGE_BYTES_LIMIT));
    await donor.closed;
    expect(await counted(server, 'shoal_refused_total{reason="tooLarge"}')).toBe(1);
  });
});

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
    const donor = await joined(server);
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
    await (await joined(second)).hears('standby');
    expect(second.run.committedSteps).toBe(STEPS);
  });

  it('neither goes on from a damaged checkpoint nor exports it', async () => {
    const data = await servers.data();
    const first = await serve();
    await (await joined(first)).hears('standby');
    await first.close();
    const newest = data.store.newestCheckpoint(first.run.name);
    const [shard] = parseManifest(newest?.manifest ?? '').shards;
    writeFileSync(data.blobs.path(shard?.hash ?? ''), 'other bytes');
    const reason = expect.stringMatching(/the checkpoint after step \d+ cannot be used: .* is damaged/);
    const runName = first.run.name;
    expect(await createServer({ data, runName, port: 0, log: () => {} })).toEqual({ ok: false, reason });
    expect(await exportRun(data, runName, join(servers.folder, 'export'))).toEqual({ ok: false, reason });
    expect(existsSync(join(servers.folder, 'export'))).toBe(false);
  });

  it('can start again after a stop', async () => {
    const server = await serve();
    const donor = await joined(server);
    await donor.hears('committed', ({ step }) => step === 1);
    server.run.command('stop');
    await server.run.until(({ phase }) => phase === 'stopped');
    server.run.command('start');
    await donor.hears('standby', ({ state }) => state === 'finished');
    expect(server.run.committedSteps).toBe(STEPS);
  });
});
