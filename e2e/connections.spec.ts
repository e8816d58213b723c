/**
 * Ways from tab to tab, for real. Through the server: in a network namespace where only the loopback interface is up a browser
 * has no address that it would offer to another one, so everything must be relayed; the reverse is in hidden.spec.ts. Through a
 * TURN server, which is a direct way all the same: no frame passes Shoal's server. And by several connections at once.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { type Donor, openDonor, openOperator } from './browser.ts';
import { go } from './dashboardControls.ts';
import { curveFaults } from './fidelity.ts';
import {
  atTestEnd,
  copyOfRun,
  goldenFile,
  IS_LONG,
  isSeldomDue,
  jsonLines,
  RunningCommand,
  runSwarm,
  startServer,
  temporaryFolder,
  withSteps,
} from './product.ts';
import { isOverServers } from './twoServers.ts';

const TINY = goldenFile('gpt2-tiny/run.json');
const RELAYED_STEPS = 4;
const LOOPBACK_ONLY = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];

const mayUnshare = spawnSync('unshare', ['-n', 'true']).status === 0 && spawnSync('ip', ['-V']).status === 0;
// Skipped without root or without unshare and ip: there is no other network to be had without any address.
test.runIf(isSeldomDue && mayUnshare)(
  '[WP9] without any direct way every frame is relayed, and the curve is the oracle’s',
  async () => {
    const metricsFile = join(temporaryFolder(), 'metrics.jsonl');
    const options = ['--donors', '2', '--steps', String(RELAYED_STEPS), '--metrics', metricsFile];
    const { code, stderr } = await new RunningCommand(['swarm', TINY, ...options], LOOPBACK_ONLY).ended;
    expect(code, stderr).toBe(0);
    const metrics = jsonLines(metricsFile) as CommitRecord[];
    expect(curveFaults('gpt2-tiny', RELAYED_STEPS, metrics)).toEqual([]);
    expect(metrics.filter(({ bytesRelayed }) => !(bytesRelayed > 0))).toEqual([]);
    expect(new Set(metrics.map(({ bytesDirect }) => bytesDirect))).toEqual(new Set([0]));
  },
);

test.runIf(isSeldomDue)(
  '[WP14] a tab whose browser makes no more connections trains all the same, by the server',
  async () => {
    const server = await startServer(copyOfRun('gpt2-tiny'), { schedule: 'gpipe' });
    const operator = await openOperator(server);
    await operator.press('Pause');
    await operator.until(({ phase }) => phase === 'paused');
    // All that Chromium gives one page.
    const all = () => {
      const held: RTCPeerConnection[] = [];
      Object.assign(window, { held });
      try {
        for (;;) held.push(new RTCPeerConnection());
      } catch (error) {
        Object.assign(window, { why: String(error) });
      }
    };
    const donor = await openDonor(server.url, { prepare: (page) => page.addInitScript(all) });
    await openDonor(server.url);
    await operator.until(({ donors }) => donors.length === 2);
    await operator.press('Resume');
    const { links } = await operator.until((snapshot) => snapshot.links?.length === 2);
    const { committedSteps, donors } = await operator.until(({ phase }) => phase === 'finished');
    expect([committedSteps, donors.length]).toEqual([20, 2]);
    expect(await donor.page.evaluate(() => Reflect.get(window, 'why'))).toContain('Cannot create so many');
    expect(links?.map(({ route }) => route)).toEqual(['relayed', 'relayed']);
    expect(links?.map(({ why }) => why).toSorted()).toEqual(['noConnection', 'otherEnd']);
  },
);

/** Of a TURN server: coturn on this machine's own address, for browsers that may use nothing but its relay. */
const SECRET = { username: 'shoal', credential: 'herring' };
const hasCoturn = spawnSync('turnserver', ['--help']).error === undefined;
// A browser makes no candidates for the loopback interface.
const address = Object.values(networkInterfaces())
  .flatMap((interfaces) => interfaces ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

async function freePort(host: string): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  const bound = server.address();
  server.close();
  await once(server, 'close');
  return typeof bound === 'object' && bound !== null ? bound.port : 0;
}

/** Its log, while it runs. */
async function startTurnServer(
  host: string,
  told = SECRET,
): Promise<{ readonly iceServers: string; readonly log: () => string }> {
  const port = await freePort(host);
  const folder = temporaryFolder();
  const identity = [`--user=${SECRET.username}:${SECRET.credential}`, '--realm=shoal', '--lt-cred-mech'];
  const place = [`--listening-ip=${host}`, `--relay-ip=${host}`, `--listening-port=${port}`];
  const quiet = ['--no-tls', '--no-dtls', '--no-cli', '--no-multicast-peers', '--log-file=stdout', '--verbose'];
  const files = [`--pidfile=${join(folder, 'pid')}`, `--userdb=${join(folder, 'users')}`];
  const child = spawn('turnserver', ['-n', ...identity, ...place, ...quiet, ...files]);
  let log = '';
  const ready = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        log += text;
        if (/UDP listener opened on/.test(log)) resolve();
      });
    }
  });
  atTestEnd(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'close');
  });
  const died = once(child, 'close').then(() => Promise.reject(new Error(`turnserver ended: ${log}`)));
  await Promise.race([ready, died]);
  died.catch(() => undefined); // at the test's end it does
  const file = join(folder, 'ice.json');
  writeFileSync(file, JSON.stringify([{ urls: `turn:${host}:${port}`, ...told }]));
  return { iceServers: file, log: () => log };
}

/** Of its candidates the page uses none but those of a TURN server. */
function relayOnly(page: Page): void {
  void page.addInitScript(() => {
    const Direct = globalThis.RTCPeerConnection;
    globalThis.RTCPeerConnection = class extends Direct {
      constructor(configuration?: RTCConfiguration) {
        super({ ...configuration, iceTransportPolicy: 'relay' });
      }
    };
  });
}

/** Where there is no coturn, or no address but the loopback one; over several servers it is the same. */
const noTurn = !hasCoturn || address === undefined || isOverServers;

test.skipIf(noTurn)('[WP9] frames go through the TURN server of --ice-servers', async () => {
  const turn = await startTurnServer(address ?? '');
  const server = await startServer(copyOfRun('gpt2-long', withSteps(400)), {
    schedule: 'gpipe',
    iceServers: turn.iceServers,
  });
  const operator = await openOperator(server);
  for (let i = 0; i < 2; i++) await openDonor(server.url, { prepare: relayOnly });
  const { links } = await operator.until((now) => now.links?.length === 2);
  await operator.untilFurther(4);
  expect(links?.map(({ route }) => route)).toEqual(['direct', 'direct']);
  expect(turn.log()).toMatch(/ALLOCATE processed, success/);
});

test.skipIf(noTurn || !IS_LONG)(
  'a TURN server that refuses its credentials is told of: donors read it, and the operator how many say so',
  async () => {
    const turn = await startTurnServer(address ?? '', { ...SECRET, credential: 'cod' });
    const server = await startServer(copyOfRun('gpt2-long', withSteps(400)), {
      schedule: 'gpipe',
      iceServers: turn.iceServers,
    });
    const operator = await openOperator(server);
    const donors: Donor[] = [];
    for (let i = 0; i < 2; i++) donors.push(await openDonor(server.url, { prepare: relayOnly }));
    const { turnErrors } = await operator.until((now) => now.turnErrors?.[0]?.donors === 2);
    const [{ urls }] = JSON.parse(readFileSync(turn.iceServers, 'utf8')) as [{ urls: string }];
    expect(turnErrors).toEqual([{ url: urls, code: 401, donors: 2 }]);
    await go(operator.page, 'Peers');
    await operator.page.getByText(`${urls} refuses the user name or password (error 401)`).waitFor();
    for (const { page } of donors) await page.getByText(`${urls} refuses the user name or password`).waitFor();
    // It costs nobody anything: they train, by the server.
    const { links } = await operator.untilFurther(4);
    expect(links?.map(({ route }) => route) ?? []).not.toContain('direct');
    expect(turn.log()).toMatch(/error 401|wrong credentials|Unauthorized/i);
  },
);

/** Of two donors, as a plan file counts on them. */
const STREAMS = 4;

test.runIf(isSeldomDue)(
  '[WP51] the plan of a cluster with windows: as many connections as it counts on, the golden curve',
  async () => {
    const folder = temporaryFolder();
    const [cluster, plan, record] = ['cluster.json', 'plan.json', 'record.jsonl'].map((name) => join(folder, name));
    // 100 kB every 80 ms are 1.25 MB/s, a quarter of the line. Slow peers, so that both are used.
    const peers = ['a', 'b'].map((id) => ({ id, memoryBytes: 4e9, flopsPerSecond: 1e7 }));
    const link = { latencySeconds: 0.04, bytesPerSecond: 5e6, windowBytes: 1e5 };
    writeFileSync(cluster ?? '', JSON.stringify({ peers, links: { default: link } }));
    const planned = execFileSync(process.execPath, ['setup.mjs', 'plan', TINY, '--cluster', cluster ?? '', '--json']);
    writeFileSync(plan ?? '', planned);
    expect(JSON.parse(String(planned)).links).toEqual([
      { from: 'a', to: 'b', streams: STREAMS, wire: 'f32' },
      { from: 'b', to: 'a', streams: STREAMS, wire: 'f32' },
    ]);
    const { metrics } = await runSwarm(
      TINY,
      ...['--donors', '2', '--plan', plan ?? '', '--steps', '6', '--record', record ?? ''],
    );
    expect(curveFaults('gpt2-tiny', 6, metrics)).toEqual([]);
    for (const { bytesDirect, bytesRelayed } of metrics) expect([bytesDirect > 0, bytesRelayed]).toEqual([true, 0]);
    // What each donor reported of its link with each step.
    const streams = [...readFileSync(record ?? '', 'utf8').matchAll(/"streams":(\d+)/g)].map(([, count]) =>
      Number(count),
    );
    const plans = streams.filter((count) => count === STREAMS);
    expect(plans.length).toBeGreaterThanOrEqual(2 * 6);
    expect(streams.every((count) => count === STREAMS)).toBe(true);
  },
);
