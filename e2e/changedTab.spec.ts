/**
 * Honest tabs beside one whose executor a test has changed: it sends other tensors than it computed, or says of links what is
 * not so. Whatever it does, the honest ones stay, commits go on, and none is given up.
 */
import type { Page, Worker } from 'playwright';
import { expect, test } from 'vitest';
import type { PeerId } from '../swarm/base.ts';
import type { PeerMessage } from '../swarm/messages/messages.ts';
import type { Snapshot } from '../swarm/messages/snapshot.ts';
import { type Donor, type Operator, openDonor, openOperator } from './browser.ts';
import { type ProductServer, startServer } from './product.ts';
import { Besieged, commitsPerSecond, type Siege } from './strangers.ts';

const HONEST = 2;
/** Commits that show that a run goes on. */
const FURTHER = 20;
/** That one has to be shown twice to wait in vain before it goes. */
const COUNTED_MS = { alone: 20_000, beside: 120_000 };

interface Honest {
  readonly server: ProductServer;
  readonly operator: Operator;
  readonly tabs: readonly Donor[];
  /** Once each had its part in some commits. */
  readonly before: Snapshot;
}

async function honestTabs(run: Siege['run'] = {}): Promise<Honest> {
  const { folder } = new Besieged({ honest: HONEST, run }); // its run, whose only checkpoint is the last step's
  const server = await startServer(folder.runPath, { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const tabs: Donor[] = [];
  while (tabs.length < HONEST) tabs.push(await openDonor(server.url));
  await operator.until((now) => computing(now).length === HONEST);
  return { server, operator, tabs, before: await operator.untilFurther(FURTHER) };
}

const computing = ({ donors }: Snapshot) => donors.flatMap(({ peer, state }) => (state === 'computing' ? peer : []));

/** Each under the name that it had; nothing that was committed was given up (CO4). `isRefused`: the changed one was, else nobody. */
async function expectKept({ server, operator, tabs, before }: Honest, isRefused = false): Promise<Snapshot> {
  const now = await operator.untilFurther(FURTHER);
  expect(computing(now)).toEqual(expect.arrayContaining(computing(before)));
  expect(now.generation).toBe(before.generation);
  for (const { until } of tabs) await until('computing');
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  const counted = [...metrics.matchAll(/^shoal_refused_total\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
  expect(counted.some((count) => count > 0)).toBe(isRefused);
  return now;
}

/** As the server's log has it. */
const THROWN_OUT = /(\S+) is thrown out/;

/** Where the built worker sends a tensor: it looks at it first, in an epoch that is checked. */
const SENDS = /return (this\.#\w+\?\.look\((\w+),(\w+)\),)/;
/** Changed before it looks, so that it says itself that it made it; or after that. */
const CHANGED = { seen: 'return $3=changed($2,$3),$1', unseen: 'return $1$3=changed($2,$3),' } as const;

/** What its worker sends back to the stage before is so many times what it computed. */
const changedBy =
  (factor: string, place: keyof typeof CHANGED) =>
  (page: Page): void =>
    void page.route('**/assets/worker-*.js', async (route) => {
      const response = await route.fetch();
      const text = await response.text();
      expect(text.match(new RegExp(SENDS, 'g'))?.length).toBe(1);
      const changed = `globalThis.changes = 0; const changed = ({ kind }, values) =>
        kind === 'gradient' ? (globalThis.changes++, values.map((value) => value * ${factor})) : values;\n`;
      await route.fulfill({ response, body: changed + text.replace(SENDS, CHANGED[place]) });
    });

const changes = (worker: Worker | undefined): Promise<unknown> | undefined =>
  worker?.evaluate(() => Reflect.get(globalThis, 'changes'));

test('gradients a thousand times too large cost nobody its place', async () => {
  const honest = await honestTabs();
  const hostile = await openDonor(honest.server.url, { prepare: changedBy('1_000', 'unseen') });
  await honest.operator.until((now) => computing(now).length > HONEST);
  const now = await expectKept(honest);
  expect(computing(now).length).toBeGreaterThan(HONEST);
  expect(await changes(hostile.page.workers()[0])).toBeGreaterThanOrEqual(FURTHER);
});

test.each([
  ['[CO53] says that it made them: it rests', 'seen', /without (\S+), which rests/, false],
  ['[CO51] says that all was in order: it goes', 'unseen', THROWN_OUT, true],
] as const)('gradients that are not finite, of who %s, and the others go on', async (_, place, said, isRefused) => {
  const honest = await honestTabs();
  await openDonor(honest.server.url, { prepare: changedBy('Number.NaN', place) });
  expect(computing(honest.before)).not.toContain(await honest.server.logged(said));
  await expectKept(honest, isRefused);
});

type Report = Extract<PeerMessage, { type: 'report' }>;

/** In place of each of its next reports it says that its link to one of these is lost, until none is left. */
const saysLost =
  (links: PeerId[]) =>
  (page: Page): void =>
    void page.routeWebSocket(/api\/donor/, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((message) => {
        const word = typeof message === 'string' ? (JSON.parse(message) as Report) : null;
        const about = word?.type === 'report' ? links.shift() : undefined;
        if (word === null || about === undefined) return server.send(message);
        server.send(JSON.stringify({ type: 'fault', epoch: word.epoch, reason: 'linkLost', about, detail: 'no word' }));
      });
    });

test('[CO32] links that are not lost go through the server: nobody loses its place but who says so on and on', async () => {
  const honest = await honestTabs();
  const victims = computing(honest.before);
  const lies = [...victims];
  await openDonor(honest.server.url, { prepare: saysLost(lies) });
  /** Each one's way to the one that is not honest. */
  const isRelayed = ({ links = [] }: Snapshot): boolean =>
    victims.every((victim) =>
      links.some(({ from, peer, route }) => from === victim && !victims.includes(peer) && route === 'relayed'),
    );
  await honest.operator.until((now) => computing(now).length > HONEST && isRelayed(now));
  expect(computing(await expectKept(honest)).length).toBeGreaterThan(HONEST);
  lies.push(...victims, ...victims);
  expect(victims).not.toContain(await honest.server.logged(THROWN_OUT));
  await expectKept(honest, true);
});

/** Of an evaluation's stages the first one has nothing to say: of it another one says that it waits for it, and answers nothing. */
const saysItWaits =
  (first: PeerId | undefined) =>
  (page: Page): void =>
    void page.routeWebSocket(/api\/donor/, (socket) => {
      const server = socket.connectToServer();
      let at: object | null = null;
      socket.onMessage((message) => {
        const word = typeof message === 'string' ? (JSON.parse(message) as PeerMessage) : null;
        if (word?.type === 'report') at = null;
        if (word?.type !== 'evaluated' && (word?.type !== 'heartbeat' || at === null)) return server.send(message);
        if (word.type === 'evaluated') at = { epoch: word.epoch, step: word.step, done: 0, hasReported: true };
        else server.send(JSON.stringify({ ...word, at: { ...at, waitsFor: [first] } }));
      });
    });

test('[CO94] in an evaluation who says on and on that it waits for the first stage goes, nobody else', {
  timeout: 600_000,
}, async () => {
  const honest = await honestTabs({ evaluationEverySteps: 40 });
  const { url } = honest.server;
  const victims = computing(honest.before);
  const alone = await commitsPerSecond(url, COUNTED_MS.alone);
  const [beside] = await Promise.all([
    commitsPerSecond(url, COUNTED_MS.beside),
    openDonor(url, { prepare: saysItWaits(victims[0]) }),
  ]);
  process.stdout.write(
    `tabs beside who says that it waits: ${alone.toFixed(1)} a second became ${beside.toFixed(1)}\n`,
  );
  expect(victims).not.toContain(await honest.server.logged(THROWN_OUT));
  await expectKept(honest, true);
});
