/**
 * Fail-overs of the production code over a NATS in memory. Servers lead and are overtaken at any point: between two
 * requests, while answers are on their way, cut off from NATS and believing that they lead, killed with words unsaid.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { at, below, invariant, peerId, type Random, seededRandom } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { VirtualLink, VirtualNats } from '../testing/virtualNats.ts';
import { openSiteData, type SiteData } from './site.ts';
import { MESSAGES_BETWEEN, SNAPSHOTS_KEPT } from './snapshots.ts';

const RUN = 'r';
const DOCUMENT = JSON.stringify({ data: { shards: [] }, evaluation: null, tokenizer: [] });
const MANIFEST = JSON.stringify({ step: 0, shards: [] });
const SERVERS = 3;
const FAIL_OVERS = 100;
const TICK_MS = 10;

const commit = (step: number, loss: number): CommitRecord => ({
  ...{ step, loss, gradientNorm: 1.5, learningRate: 0.001, tokens: 256, seconds: 0.25 },
  ...{ donors: 2, stages: 2, microBatches: 8, plan: 1, bytesDirect: 1_000, bytesRelayed: 0 },
});

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-fail-overs-'));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true, force: true });
});

/** What donors and people were told of a step, by whom. */
interface Told {
  readonly step: number;
  readonly loss: number;
}

/** One server, with a coordinator that commits one step after the other for as long as it leads. */
class Server {
  readonly link: VirtualLink;
  site: SiteData | null = null;
  fences = 0;
  /** Lead and believes that it still does. */
  coordinates = false;
  readonly #directory: string;
  readonly #random: Random;
  readonly #tell: (told: Told) => void;
  /** Makes each word of this server one that no other server and no other time says. */
  #words = 0;
  readonly #number: number;

  constructor(nats: VirtualNats, number: number, random: Random, tell: (told: Told) => void) {
    this.#directory = join(folder, `work-${number}`);
    this.#number = number;
    this.#random = random;
    this.#tell = tell;
    this.link = new VirtualLink(nats, { random, delayMs: 40, loss: 0.02 }, () => performance.now());
  }

  async open(): Promise<void> {
    this.link.isCut = false;
    for (;;) {
      const opened = await openSiteData(this.link.shared, this.#directory, () => {});
      if (!opened.ok) continue; // requests were lost
      this.site = opened.value;
      opened.value.onFenced(() => {
        this.fences += 1;
        this.coordinates = false;
      });
      return;
    }
  }

  /** As SIGKILL: what waited is neither kept nor said. */
  kill(): void {
    this.coordinates = false;
    this.site?.data.close();
    this.site = null;
  }

  async lead(): Promise<boolean> {
    const { site } = this;
    if (site === null) return false;
    const led = await site.lead();
    if (this.site !== site || !led.ok) return false;
    this.coordinates = true;
    return true;
  }

  /** A step, or another word; it goes ahead of what is kept. */
  act(): void {
    if (!this.coordinates || this.site === null) return;
    const { store } = this.site.data;
    try {
      if (store.run(RUN) === null) store.addRun(RUN, 'hash', DOCUMENT, MANIFEST, 0);
      const step = store.committedSteps(RUN);
      this.#words += 1;
      const loss = this.#number + this.#words / 2 ** 20;
      store.commitStep(RUN, commit(step, loss), [{ peer: peerId(`p${below(this.#random, 3)}`), tokens: 2 }]);
      store.whenKept(() => this.#tell({ step, loss }));
      if (this.#random() < 0.1) void store.copy();
      // More than one message.
      if (this.#random() < 0.1) store.addEvent(RUN, 'planned', 'x'.repeat(5_000), 0, step);
    } catch (error) {
      if (storageProblem(error) === null) throw error;
    }
  }
}

async function passes(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += TICK_MS) {
    await vi.advanceTimersByTimeAsync(TICK_MS);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** With time passing meanwhile. */
async function awaited<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  const done = () => {
    isDone = true;
  };
  work.then(done, done);
  while (!isDone) await passes(TICK_MS);
  return work;
}

/** Who wrote each message, and whether it says that it leads. */
function writers(nats: VirtualNats): { by: string; leads: boolean }[] {
  return nats.messages.map(({ bytes }) => {
    const text = Buffer.from(bytes).toString();
    const { by } = JSON.parse(text.slice(0, text.indexOf('\n')));
    return { by, leads: text.includes('{"leads":') };
  });
}

/** What all messages carry, one after the other: a commit may begin in one and end in the next. */
const bodies = (nats: VirtualNats): string =>
  nats.messages
    .map(({ bytes }) => {
      const text = Buffer.from(bytes).toString('latin1');
      return text.slice(text.indexOf('\n') + 1);
    })
    .join('');

describe('[NA51] [NA52] [NA53] [NA55] fail-overs at any point', () => {
  it.each([1])('%i: 100 of them: no commit twice, none lost that was told, one writer at a time', async (seed) => {
    const random = seededRandom(seed);
    const nats = new VirtualNats();
    const told: Told[] = [];
    const unkept: Told[] = [];
    const isKept = ({ step, loss }: Told): boolean => bodies(nats).includes(`"${RUN}",${step},${loss},`);
    const tell = (one: Told): void => {
      told.push(one);
      if (!isKept(one)) unkept.push(one);
    };
    const servers = Array.from({ length: SERVERS }, (_, number) => new Server(nats, number, random, tell));
    for (const server of servers) await awaited(server.open());
    invariant(await awaited(at(servers, 0).lead()), 'the first one leads');

    let failOvers = 0;
    while (failOvers < FAIL_OVERS) {
      for (let acts = below(random, 12); acts > 0; acts--) {
        for (const server of servers) server.act();
        await passes(below(random, 4) * TICK_MS);
      }
      // The lease of whoever leads ends, for one reason or none.
      const leader = servers.find(({ coordinates }) => coordinates);
      const fate = random();
      if (leader && fate < 0.3) leader.kill();
      else if (leader && fate < 0.6) leader.link.isCut = true;
      const next = at(servers, below(random, SERVERS));
      if (next.link.isCut || next.site === null) {
        next.link.isCut = false;
        if (next.site === null) await awaited(next.open());
      }
      const wasLeading = next.coordinates;
      if ((await awaited(next.lead())) && !wasLeading) failOvers += 1;
      // Who was cut off wakes, sooner or later, and goes on as if nothing was.
      for (const server of servers) {
        server.act();
        if (random() < 0.5) server.link.isCut = false;
        if (server.site === null && random() < 0.5) await awaited(server.open());
      }
    }
    // At the end all are there and hear of everything.
    for (const server of servers) {
      server.link.isCut = false;
      if (server.site === null) await awaited(server.open());
    }
    await passes(10_000);
    const believing = servers.filter(({ coordinates }) => coordinates);
    expect(believing).toHaveLength(1);
    const leader = at(believing, 0);
    leader.act();
    const { store } = leader.site?.data ?? { store: null };
    invariant(store, 'it leads');
    await awaited(store.kept());
    await passes(5_000);

    expect(unkept).toEqual([]);
    const steps = store.steps(RUN);
    expect(steps.map(({ step }) => step)).toEqual(steps.map((_, index) => index));
    expect(steps.length).toBeGreaterThan(FAIL_OVERS);
    // Each step that was told is the one that stands, and was told once.
    for (const { step, loss } of told) expect(at(steps, step).loss, `step ${step}`).toBe(loss);
    expect(new Set(told.map(({ step }) => step)).size).toBe(told.length);
    const credit = store.ledger(RUN).reduce((sum, { tokens }) => sum + tokens, 0);
    expect(credit).toBe(2 * steps.length);
    // The journal has each commit once, in entries of whoever led.
    let leads = '';
    let changes = 0;
    for (const { by, leads: isLead } of writers(nats)) {
      if (isLead) {
        leads = by;
        changes += 1;
      }
      expect(by).toBe(leads);
    }
    expect(changes).toBeGreaterThan(FAIL_OVERS);
    // Every server comes to have the same, and began from snapshots. It reads its files in the machine's own time.
    for (const { site } of servers) {
      while (site?.data.store.committedSteps(RUN) !== steps.length) await passes(1_000);
      expect(site?.data.store.steps(RUN)).toEqual(steps);
      expect(site?.data.store.ledger(RUN)).toEqual(store.ledger(RUN));
    }
    // Snapshots take the machine's own time, after which they rest by the clock of the test: on a slow one few were made.
    while (nats.first === 1) {
      for (let messages = 0; messages <= MESSAGES_BETWEEN; messages++) {
        leader.act();
        await awaited(store.kept());
      }
      await passes(60_000);
      await awaited(store.copy());
    }
    expect(nats.folder('snapshots').size).toBeGreaterThanOrEqual(SNAPSHOTS_KEPT);
    for (const server of servers) server.kill();
  });
});

/** Two servers of a site, the first of which leads and has a run. */
async function pair() {
  const random = seededRandom(7);
  const nats = new VirtualNats();
  const tell = vi.fn();
  const [one, other] = [new Server(nats, 0, random, tell), new Server(nats, 1, random, tell)];
  await awaited(one.open());
  await awaited(other.open());
  invariant(await awaited(one.lead()), 'it leads');
  one.act();
  await passes(5_000);
  invariant(one.site && other.site, 'both are open');
  return { one, other, store: one.site.data.store, otherStore: other.site.data.store };
}

it('[NA51] [NA52] of two who believe that they lead the first one keeps nothing, says nothing, and has what the other has', async () => {
  const { one, other, store, otherStore } = await pair();
  one.link.isCut = true;
  const [said, refused] = [vi.fn(), vi.fn()];
  store.saveNote(RUN, 'of the first');
  store.whenKept(said);
  store.kept().catch(refused);
  expect(await awaited(other.lead())).toBe(true);
  otherStore.saveNote(RUN, 'of the other');
  expect([store.note(RUN), one.coordinates]).toEqual(['of the first', true]);
  one.link.isCut = false;
  await passes(10_000);
  expect([said.mock.calls.length, refused.mock.calls.length, one.fences]).toEqual([0, 1, 1]);
  expect(storageProblem(refused.mock.calls[0]?.[0])).not.toBeNull();
  expect([store.note(RUN), otherStore.note(RUN)]).toEqual(['of the other', 'of the other']);
  for (const server of [one, other]) server.kill();
});

it('[NA53] half a minute without NATS: what is written waits, is kept once, and is said in order', async () => {
  const { one, other, store, otherStore } = await pair();
  const stalls = vi.fn();
  store.onStall(stalls);
  one.link.isCut = true;
  const said: number[] = [];
  const first = store.committedSteps(RUN);
  const steps = [first, first + 1, first + 2];
  for (const step of steps) {
    store.commitStep(RUN, commit(step, step), [{ peer: peerId('p'), tokens: 2 }]);
    store.whenKept(() => said.push(step));
  }
  await passes(30_000);
  expect(stalls.mock.calls).toEqual([['NATS does not answer']]);
  expect([said, otherStore.committedSteps(RUN)]).toEqual([[], first]);
  one.link.isCut = false;
  await passes(10_000);
  expect(said).toEqual(steps);
  expect(otherStore.steps(RUN)).toEqual(store.steps(RUN));
  expect(otherStore.committedSteps(RUN)).toBe(first + 3);
  expect([one.fences, one.coordinates]).toEqual([0, true]);
  for (const server of [one, other]) server.kill();
});
