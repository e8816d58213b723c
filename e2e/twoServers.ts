/**
 * What the specs start, over several servers: in the lane `servers` (`npm test -- servers`) each `shoal swarm` gets `--servers`,
 * and each `shoal serve` is two processes of a site over a NATS of their own. To the test these are one server: donors and
 * operators come to the one that did not lead at first, a kill is of the one that leads. What they keep is in the data
 * directory when they have stopped in order.
 */
import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type NatsServer, startNatsServer } from '../signaling-server/site/natsServer.ts';
import { at, got, invariant } from '../swarm/base.ts';

const SERVERS = process.env.SHOAL_SERVERS;
const LOOK_MS = 200;
/** A page that everybody may ask twice a second; who asks one that is gone is not answered. */
const [ASK_MS, ANSWER_MS] = [600, 2_000];

export const isOverServers = SERVERS !== undefined;

/** What stays in a data directory is one server's. */
export const overServers = (words: readonly string[]): readonly string[] =>
  SERVERS === undefined || words[0] !== 'swarm' || words.some((word) => /^--(servers|data-dir|help)$/.test(word))
    ? words
    : [...words, '--servers', SERVERS];

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Served {
  readonly url: string;
  readonly port: number;
  readonly operatorUrl: string;
  stop(): Promise<Ended>;
  kill(): Promise<void>;
  signal(name: NodeJS.Signals): void;
  logged(pattern: RegExp): Promise<string>;
}

/** What a test has of the product. */
interface Means {
  start(options: { readonly nats: string; readonly dataDirectory: string; readonly port: number }): Promise<Served>;
  shoal(...words: string[]): Promise<Ended>;
  temporaryFolder(): string;
  atTestEnd(release: () => unknown): void;
}

interface Place {
  readonly nats: NatsServer;
  readonly folders: readonly [string, string];
  readonly ports: Map<number, number>;
  readonly living: Map<number, Served>;
}

/** By data directory: who starts one again that was killed finds the other one there. */
const places = new Map<string, Place>();

export async function startTwoServers(
  dataDirectory: string,
  means: Means,
): Promise<Served & { readonly dataDirectory: string }> {
  const place = places.get(dataDirectory) ?? (await openPlace(dataDirectory, means));
  const { nats, folders, ports, living } = place;
  for (const number of [0, 1]) {
    if (living.has(number)) continue;
    const server = await means.start({
      port: ports.get(number) ?? 0,
      nats: nats.url,
      dataDirectory: at(folders, number),
    });
    living.set(number, server);
    ports.set(number, server.port);
    // The first one to be there leads.
    if (living.size === 1) await untilReady(server);
  }
  await untilAnswered(got(living, 1));
  const { url, port, operatorUrl } = got(living, 1);
  return {
    ...{ url, port, operatorUrl, dataDirectory },
    logged: (pattern) => got(living, 1).logged(pattern),
    signal: (name) => got(living, 0).signal(name),
    kill: async () => {
      const number = await leading(living);
      await got(living, number).kill();
      living.delete(number);
    },
    stop: async () => {
      const last = await leading(living);
      const order = [...living].toSorted(([one], [other]) => Number(one === last) - Number(other === last));
      let ended = null as Ended | null;
      for (const [, server] of order) ended = await server.stop();
      places.delete(dataDirectory);
      await copy(nats.url, dataDirectory, means);
      await nats.stop();
      invariant(ended, 'a server lived');
      return ended;
    },
  };
}

async function openPlace(dataDirectory: string, means: Means): Promise<Place> {
  const nats = await startNatsServer(means.temporaryFolder());
  if (!nats.ok) throw new Error(nats.reason);
  means.atTestEnd(async () => {
    places.delete(dataDirectory);
    await nats.value.stop();
  });
  if (existsSync(dataDirectory) && readdirSync(dataDirectory).length > 0)
    await copy(dataDirectory, nats.value.url, means);
  const folders = [means.temporaryFolder(), means.temporaryFolder()] as const;
  const place = {
    nats: nats.value,
    folders,
    ports: new Map<number, number>(),
    living: new Map<number, Served>(),
  };
  places.set(dataDirectory, place);
  return place;
}

async function copy(from: string, to: string, { shoal }: Means): Promise<void> {
  const { code, stderr } = await shoal('store', 'copy', '--from', from, '--to', to);
  if (code !== 0) throw new Error(`store copy: ${stderr}`);
}

async function readiness({ url }: Served): Promise<{ readonly ok: boolean; readonly role?: string }> {
  return (await (await fetch(`${url}/readyz`)).json()) as { ok: boolean; role?: string };
}

async function untilReady(server: Served): Promise<void> {
  while (!(await readiness(server)).ok) await sleep(LOOK_MS);
}

/** By the one that leads: for some seconds the other processes do not know that one is gone which was killed. */
async function untilAnswered({ url }: Served): Promise<void> {
  for (;;) {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const status = await fetch(`${url}/api/status`, { signal }).then(
      (answer) => answer.status,
      () => null,
    );
    if (status !== null && status < 500) return;
    await sleep(ASK_MS);
  }
}

/** The one that answers for itself. */
async function leading(living: Place['living']): Promise<number> {
  for (;;) {
    for (const [number, server] of living) if ((await readiness(server)).role !== 'gateway') return number;
    await sleep(LOOK_MS);
  }
}
