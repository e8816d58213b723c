/**
 * Strangers against the built server, each with one trick, and honest tabs beside one whose executor a test has changed: it
 * sends other tensors than it computed, or says of links what is not so. Whatever they do, the honest donors stay, commits go
 * on, and none is given up. What coordinator and server decide about such words is in the lanes without browsers.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page, Worker } from 'playwright';
import { expect, test } from 'vitest';
import type { PeerId } from '../swarm/base.ts';
import type { PeerMessage } from '../swarm/messages/messages.ts';
import type { Snapshot } from '../swarm/messages/snapshot.ts';
import { type Donor, type Operator, openDonor, openOperator } from './browser.ts';
import { type ProductServer, startServer } from './product.ts';
import { Besieged, commitsPerSecond, measuredProfile, type Siege, strangersAddress } from './strangers.ts';
import { isOverServers } from './twoServers.ts';

/** Less than any deadline that a server would wait for one donor in vain, twice; more where each word goes through NATS. */
const HANG_MS = isOverServers ? 180_000 : 90_000;

/** Comes, gets a part, says that one word, is gone, and comes again: for as long as it may. */
const comesAndSays =
  (besieged: Besieged, word: (epoch: number) => PeerMessage) =>
  async (signal: AbortSignal): Promise<void> => {
    const ended = once(signal, 'abort');
    while (!signal.aborted) {
      const hostile = besieged.donor({ address: strangersAddress(1), profile: measuredProfile(0.001) });
      const hasPart = hostile.hears('prepare');
      await Promise.race([hasPart, hostile.closed, ended]);
      if (!signal.aborted) hostile.say(word((await hasPart).epoch));
      await Promise.race([hostile.settled(), ended]);
      hostile.vanish();
    }
  };

test('[SV9] tabs at work do not mind who gets a part, says deviceLost, and comes again', {
  timeout: 3 * HANG_MS,
}, async () => {
  const besieged = new Besieged({ honest: 2, stages: 1 });
  await besieged.serve();
  await besieged.joinByTabs();
  const word = (epoch: number): PeerMessage => ({ type: 'fault', epoch, reason: 'deviceLost', detail: 'it says so' });
  const share = await besieged.shareBeside('tabs beside who says deviceLost', comesAndSays(besieged, word));
  expect(share).toBeGreaterThan(0.75);
  const { donors } = await besieged.status();
  expect(donors).toBeGreaterThanOrEqual(2);
});

const CROWD = { everyMs: 500, stayMs: 3_000, addresses: 60 };

/** Two a second, who do all that they are asked for, and vanish within three seconds. */
const crowd =
  (besieged: Besieged) =>
  async (signal: AbortSignal): Promise<void> => {
    const visits: Promise<unknown>[] = [];
    for (let number = 0; !signal.aborted; number++) {
      const donor = besieged.donor({ address: strangersAddress(1 + (number % CROWD.addresses)), stepMs: 60 });
      const stays = sleep((CROWD.stayMs * ((number * 7) % 10)) / 9, null, { signal }).catch(() => {});
      visits.push(stays.then(() => donor.vanish()));
      await sleep(CROWD.everyMs, null, { signal }).catch(() => {});
    }
    await Promise.all(visits);
  };

test('[CO101] beside newcomers who stay for seconds the donors at work do at least half of what they do alone', {
  timeout: 2 * HANG_MS,
}, async () => {
  const besieged = await Besieged.training({ honest: 2, stages: 1, stepMs: 60 });
  const share = await besieged.shareBeside('two newcomers a second who stay up to 3 s', crowd(besieged));
  expect(share).toBeGreaterThan(0.5);
});

/** Calls of strangers that wait for their answers. */
const CALLS_AT_ONCE = 100;

test('[OP35] names that many addresses choose, each within its limit, beside all that strangers have', {
  timeout: HANG_MS,
}, async () => {
  const besieged = new Besieged({ honest: 2, stages: 1 });
  await besieged.folder.nameStrangers(6_000);
  await besieged.serve();
  await besieged.join();
  let asked = 0;
  const choose = async (): Promise<void> => {
    const number = asked++;
    await fetch(`${besieged.url}/api/name`, {
      method: 'PUT',
      body: JSON.stringify({ name: `Nobody ${number}`, team: '' }),
      headers: {
        ...{ origin: besieged.url, 'content-type': 'application/json' },
        authorization: `Bearer a-stranger-by-the-number-${number}`,
        'x-forwarded-for': strangersAddress(number % 400),
      },
    });
  };
  const share = await besieged.shareBeside('400 addresses that choose names', async (signal) => {
    const calls = new Set<Promise<unknown>>();
    while (!signal.aborted) {
      const made = choose().finally(() => calls.delete(made));
      if (calls.add(made).size >= CALLS_AT_ONCE) await Promise.race(calls);
      await sleep(60_000 / (400 * 20), null, { signal }).catch(() => {});
    }
    await Promise.allSettled(calls);
  });
  expect(share).toBeGreaterThan(0.75);
});

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

/** Of several servers another one than a test looks at may log it. */
const byOneServer = test.skipIf(isOverServers);

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

byOneServer('[CO54] gradients a thousand times too large cost nobody its place', async () => {
  const honest = await honestTabs();
  const hostile = await openDonor(honest.server.url, { prepare: changedBy('1_000', 'unseen') });
  await honest.operator.until((now) => computing(now).length > HONEST);
  const now = await expectKept(honest);
  expect(computing(now).length).toBeGreaterThan(HONEST);
  expect(await changes(hostile.page.workers()[0])).toBeGreaterThanOrEqual(FURTHER);
});

byOneServer.each([
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

byOneServer(
  '[CO32] links that are not lost go through the server: nobody loses its place but who says so on and on',
  async () => {
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
  },
);

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

byOneServer(
  '[CO98] in an evaluation who says on and on that it waits for the first stage goes, nobody else',
  {
    timeout: 600_000,
  },
  async () => {
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
  },
);
