/**
 * Fail-overs of the production code over a NATS in memory. Servers lead and are overtaken at any point: between two
 * requests, while answers are on their way, cut off from NATS and believing that they lead, killed with words unsaid.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { arrayOf, at, below, invariant, peerId, type Random, seededRandom, totalOf } from '../../swarm/base.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { VirtualNats } from '../testing/virtualNats.ts';
import { bodies, commit, RUN, type Told, VirtualServer } from '../testing/virtualServer.ts';
import { MESSAGES_BETWEEN, SNAPSHOTS_KEPT } from './snapshots.ts';

const SERVERS = 3;
const TICK_MS = 10;
const FAIL_OVERS = 100;
/** Of both runs together. */
const FAIL_OVERS_OF_RUNS = 40;
/** Seconds of the test's clock for what takes the machine's own time. */
const PATIENCE = 600;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-fail-overs-'));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true, force: true });
});

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

const serverOf = (nats: VirtualNats, number: number, random: Random, tell: (told: Told) => void): VirtualServer =>
  new VirtualServer(nats, join(folder, `work-${number}`), number, random, tell);

/** Who wrote each message, and whether it says that it leads. */
function writers(nats: VirtualNats): { by: string; leads: boolean }[] {
  return nats.messages.map(({ bytes }) => {
    const text = Buffer.from(bytes).toString();
    const { by } = JSON.parse(text.slice(0, text.indexOf('\n')));
    return { by, leads: text.includes('{"leads":') };
  });
}

/** A try may fail: an answer came late, or the key of who led before still holds. */
async function takesLead(server: VirtualServer): Promise<void> {
  while (!server.coordinates && !(await awaited(server.lead()))) await passes(1_000);
}

describe('fail-overs at any point', () => {
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
    const servers = arrayOf(SERVERS, (number) => serverOf(nats, number, random, tell));
    for (const server of servers) await awaited(server.open());
    await takesLead(at(servers, 0));

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
    const believing = (): VirtualServer[] => servers.filter(({ coordinates }) => coordinates);
    // Who was cut off reads its files in the machine's own time before it hears that another leads.
    for (let tries = 0; tries < PATIENCE && believing().length > 1; tries++) await passes(1_000);
    expect(believing()).toHaveLength(1);
    const leader = at(believing(), 0);
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
    const credit = totalOf(store.ledger(RUN), ({ tokens }) => tokens);
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

it('two runs of the same processes, each led by whichever: one dies or is cut off with both, and of neither is a step lost or twice', async () => {
  const random = seededRandom(3);
  const told: Told[][] = [[], []];
  const runs = told.map((ofRun, run) => {
    const nats = new VirtualNats();
    const servers = arrayOf(SERVERS, (number) => {
      const directory = join(folder, `run-${run}-work-${number}`);
      return new VirtualServer(nats, directory, number, random, (one) => ofRun.push(one));
    });
    return { nats, servers };
  });
  for (const { servers } of runs) {
    for (const server of servers) await awaited(server.open());
    await takesLead(at(servers, 0));
  }
  /** What one process has of each run. */
  const process = (number: number): VirtualServer[] => runs.map(({ servers }) => at(servers, number));
  const isBack = async (server: VirtualServer): Promise<void> => {
    server.link.isCut = false;
    if (server.site === null) await awaited(server.open());
  };
  let failOvers = 0;
  while (failOvers < FAIL_OVERS_OF_RUNS) {
    for (let acts = below(random, 8); acts > 0; acts--) {
      for (const { servers } of runs) for (const server of servers) server.act();
      await passes(below(random, 4) * TICK_MS);
    }
    const fate = random();
    for (const server of process(below(random, SERVERS)))
      if (fate < 0.4) server.kill();
      else if (fate < 0.8) server.link.isCut = true;
    // Each run is taken by some process, of those that are there or come back.
    for (const { servers } of runs) {
      const next = at(servers, below(random, SERVERS));
      await isBack(next);
      const wasLeading = next.coordinates;
      if ((await awaited(next.lead())) && !wasLeading) failOvers += 1;
    }
    for (let number = 0; number < SERVERS; number++)
      if (random() < 0.5) for (const server of process(number)) await isBack(server);
  }
  for (const [run, { nats, servers }] of runs.entries()) {
    for (const server of servers) await isBack(server);
    await passes(10_000);
    // Where the last one to lead was lost while its key still held, nobody could take the run then.
    const leader = servers.find(({ coordinates }) => coordinates) ?? at(servers, 0);
    await takesLead(leader);
    leader.act();
    const { store } = leader.site?.data ?? { store: null };
    invariant(store, 'it leads');
    await awaited(store.kept());
    await passes(5_000);
    const steps = store.steps(RUN);
    expect(steps.map(({ step }) => step)).toEqual(steps.map((_, index) => index));
    expect(steps.length).toBeGreaterThan(0);
    const ofRun = at(told, run);
    for (const { step, loss } of ofRun) expect(at(steps, step).loss, `step ${step}`).toBe(loss);
    expect(new Set(ofRun.map(({ step }) => step)).size).toBe(ofRun.length);
    expect(totalOf(store.ledger(RUN), ({ tokens }) => tokens)).toBe(2 * steps.length);
    const changes = writers(nats).filter(({ leads: isLead }) => isLead);
    expect(changes.length).toBeGreaterThan(1);
  }
  for (const { servers } of runs) for (const server of servers) server.kill();
});

/** Two servers of a site, the first of which leads and has a run. */
async function pair() {
  const random = seededRandom(7);
  const nats = new VirtualNats();
  const tell = vi.fn();
  const [one, other] = [serverOf(nats, 0, random, tell), serverOf(nats, 1, random, tell)];
  await awaited(one.open());
  await awaited(other.open());
  await takesLead(one);
  one.act();
  await passes(5_000);
  invariant(one.site && other.site, 'both are open');
  return { one, other, store: one.site.data.store, otherStore: other.site.data.store };
}

it('of two who believe that they lead the first one keeps nothing, says nothing, and has what the other has', async () => {
  const { one, other, store, otherStore } = await pair();
  one.link.isCut = true;
  const [said, refused] = [vi.fn(), vi.fn()];
  store.saveSetting(`note ${RUN}`, 'of the first');
  store.whenKept(said);
  store.kept().catch(refused);
  expect(await awaited(other.lead())).toBe(true);
  otherStore.saveSetting(`note ${RUN}`, 'of the other');
  expect([store.note(RUN), one.coordinates]).toEqual(['of the first', true]);
  one.link.isCut = false;
  await passes(10_000);
  expect([said.mock.calls.length, refused.mock.calls.length, one.fences]).toEqual([0, 1, 1]);
  expect(storageProblem(refused.mock.calls[0]?.[0])).not.toBeNull();
  expect([store.note(RUN), otherStore.note(RUN)]).toEqual(['of the other', 'of the other']);
  for (const server of [one, other]) server.kill();
});

it('half a minute without NATS: what is written waits, is kept once, and is said in order', async () => {
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
