/**
 * A TURN server between two donors, for real: coturn on this machine's own address, and browsers that may use nothing but
 * its relay. It is a direct way all the same: no frame passes Shoal's server.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { type Donor, openDonor, openOperator } from './browser.ts';
import { go } from './dashboardControls.ts';
import { atTestEnd, copyOfRun, startServer, temporaryFolder, withSteps } from './product.ts';

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

// Skipped where there is no coturn, or no address but the loopback one.
test.skipIf(!hasCoturn || address === undefined)(
  '[WP9] frames go through the TURN server of --ice-servers',
  async () => {
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
  },
);

test.skipIf(!hasCoturn || address === undefined)(
  '[WP56] a TURN server that refuses its credentials is told of: donors read it, and the operator how many say so',
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
