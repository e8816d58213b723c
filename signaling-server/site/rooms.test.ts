/** Two runs at once in a site of two processes over a real NATS, here in one process; donors are scripted. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { invariant, type Result, totalOf } from '../../swarm/base.ts';
import { leaderboardSchema } from '../../swarm/messages/leaderboard.ts';
import { runWantsSchema } from '../../swarm/messages/neededMost.ts';
import { peers } from '../../swarm/plan/plan.ts';
import { firstRun } from '../commands/serveSite.ts';
import { createServer, type Server } from '../server.ts';
import { addRun } from '../store/dataDirectory.ts';
import type { Store } from '../store/store.ts';
import { ScriptedDonor, scriptedLoss } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';
import { SiteMember } from './member.ts';
import { hasNatsServer, type NatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { openSite, type Site } from './site.ts';

/** More than any of these tests does. */
const STEPS = 100_000;
const TOKENS_A_STEP = 4 * 8;
const TIMEOUT_MS = 120_000;
const WAIT = { timeout: 40_000 };
/** Of a donor's step: slow enough that these tests have few. */
const STEP_MS = 20;
const RUNS = ['tiny', 'other'] as const;

let folder: string;
let nats: NatsServer;
let tiny: TinyServers;
const members: Member[] = [];

function contentOf<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

/** A process of the site. */
class Member {
  readonly #stores = new Map<string, Store>();
  readonly #servers = new Map<string, Server>();
  readonly site: Site;
  member: SiteMember | null = null;
  #isGone = false;

  constructor(site: Site) {
    this.site = site;
  }

  /** The run file in `tiny` is what it is started with. */
  static async opened(): Promise<Member> {
    const directory = join(folder, `member-${members.length}`);
    const one = new Member(contentOf(await openSite({ urls: [nats.url], site: 'test', directory, log: () => {} })));
    members.push(one);
    one.member = contentOf(
      await SiteMember.open({
        ...{ site: one.site, access: {}, host: 'localhost', port: 0, pages: undefined, log: () => {} },
        open: async (url, { name, data, runs }) => {
          const first = async () => firstRun(data.store, contentOf(await addRun(data, tiny.runPath)));
          const runName = name ?? contentOf(await first());
          const server = await createServer({ data, runName, log: () => {}, knownAs: url, site: runs });
          if (server.ok) one.#servers.set(runName, server.value);
          one.#stores.set(runName, data.store);
          return server;
        },
      }),
    );
    return one;
  }

  get url(): string {
    return this.member?.url ?? '';
  }

  get led(): readonly string[] {
    return this.member?.led.toSorted() ?? [];
  }

  server(run: string): Server {
    const server = this.#servers.get(run);
    invariant(server, `it has led ${run}`);
    return server;
  }

  steps(run: string) {
    return this.#stores.get(run)?.steps(run) ?? [];
  }

  credit(run: string) {
    return this.#stores.get(run)?.memberCredit(run) ?? [];
  }

  /** So many more steps are committed here. */
  async commits(run: string, more: number): Promise<void> {
    const server = this.server(run);
    const { committedSteps: before } = server.run;
    await server.run.until(({ committedSteps }) => committedSteps >= before + more);
  }

  /** As far as others see, it is gone from one moment to the next. */
  async kill(): Promise<void> {
    this.#isGone = true;
    await Promise.all([this.site.nats.close(), this.site.exchange.close()]);
    for (const server of this.#servers.values()) await server.close();
  }

  async end(): Promise<void> {
    if (!this.#isGone) await this.member?.close();
    await this.site.close();
  }
}

async function addOther({ data }: Site): Promise<void> {
  tiny.writeRun(tinyRunFile({ steps: STEPS, name: 'other' }));
  contentOf(await addRun(data, tiny.runPath));
  tiny.writeRun(tinyRunFile({ steps: STEPS }));
  await data.store.kept();
}

/** Calls of an operator's dashboard at this process. */
async function operatorOf({ url, member }: Member) {
  const headers = { origin: url, 'content-type': 'application/json' };
  const login = await fetch(`${url}/api/operator/login`, {
    ...{ method: 'POST', headers },
    body: JSON.stringify({ token: member?.operatorToken }),
  });
  const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
  return (path: string, body?: object): Promise<Response> =>
    fetch(`${url}${path}`, {
      headers: { ...headers, cookie },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
}

beforeEach(async () => {
  if (!hasNatsServer()) return;
  folder = mkdtempSync(join(tmpdir(), 'shoal-runs-'));
  nats = contentOf(await startNatsServer(folder));
  tiny = new TinyServers({ steps: STEPS }, false);
});

afterEach(async () => {
  if (!hasNatsServer()) return;
  for (const member of members.splice(0).reverse()) await member.end();
  await tiny.close();
  await nats.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The two processes, with both runs active and led; and an operator's calls at the second one. */
async function twoRuns() {
  const first = await Member.opened();
  await expect.poll(() => first.led, WAIT).toEqual(['tiny']);
  await addOther(first.site);
  const second = await Member.opened();
  await expect.poll(async () => (await fetch(`${second.url}/readyz`)).status, WAIT).toBe(200);
  const ask = await operatorOf(second);
  const begin = async (run: string): Promise<number> => (await ask('/api/operator/beside', { run })).status;
  expect([await begin('tiny'), await begin('none'), await begin('other')]).toEqual([409, 409, 200]);
  expect([await begin('other'), (await ask('/api/operator/activate', { run: 'other' })).status]).toEqual([409, 409]);
  const runs = async (): Promise<string[]> =>
    runWantsSchema.parse(await (await ask('/api/runs')).json()).runs.map(({ run }) => run);
  await expect.poll(runs, { ...WAIT, interval: 500 }).toEqual([...RUNS]);
  const leaderOf = (run: string): Member => {
    const leader = [first, second].find(({ led }) => led.includes(run));
    invariant(leader, `${run} is led`);
    return leader;
  };
  return { first, second, ask, leaderOf };
}

describe.skipIf(!hasNatsServer())(hasNatsServer() ? 'runs of a site' : `skipped: ${NO_NATS_SERVER}`, () => {
  test('donors of both runs at either process; one process dies, and both runs go on without a step given up', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { first, second, leaderOf } = await twoRuns();
    const at = async ({ url }: Member) =>
      Promise.all(RUNS.map((run) => ScriptedDonor.joined(url, { run, stepMs: STEP_MS })));
    const donors = { first: await at(first), second: await at(second) };
    for (const run of RUNS) await leaderOf(run).commits(run, 4);

    const killed = leaderOf('other');
    const [left, stay] = killed === first ? [second, donors.second] : [first, donors.first];
    const stood = RUNS.map((run) => ({ run, steps: leaderOf(run).server(run).run.committedSteps }));
    let closed = 0;
    for (const donor of stay) void donor.closed.then(() => closed++);
    await killed.kill();
    await expect.poll(() => left.led, WAIT).toEqual(['other', 'tiny']);
    for (const { run, steps } of stood) {
      expect(left.server(run).run.committedSteps).toBeGreaterThanOrEqual(steps);
      await left.commits(run, 4);
      expect(left.server(run).run.snapshot().generation).toBe(0);
      const curve = left.steps(run);
      expect(curve.length).toBeGreaterThanOrEqual(steps + 4);
      expect(curve.map(({ step, loss }) => ({ step, loss }))).toEqual(
        curve.map((_, step) => ({ step, loss: expect.closeTo(scriptedLoss(step), 12) })),
      );
    }
    expect(closed).toBe(0);
    for (const donor of [...donors.first, ...donors.second]) donor.leave();
  });

  test('[NA81] calls find their run by its name, a donor’s by its token; who gave to both is on one leaderboard with all of it', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { first, second, ask, leaderOf } = await twoRuns();
    const key = 'k'.repeat(20);
    const named = await fetch(`${second.url}/api/name`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${key}`, origin: second.url, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'Ada', team: '' }),
    });
    expect(named.status).toBe(200);
    // Each process hears of the name by itself.
    for (const { site } of [first, second])
      await expect.poll(() => site.data.store.memberNamed('Ada'), WAIT).not.toBeNull();
    const donors = await Promise.all(
      RUNS.map((run, at) => ScriptedDonor.joined([second, first][at]?.url ?? '', { run, key, stepMs: STEP_MS })),
    );
    expect(donors.map(({ welcome }) => welcome.run.name)).toEqual([...RUNS]);
    for (const run of RUNS) {
      await leaderOf(run).commits(run, 4);
      expect(await (await ask(`/api/status?run=${run}`)).json()).toMatchObject({ run });
      expect(await (await ask(`/api/snapshot?run=${run}`)).json()).toMatchObject({
        role: 'operator',
        snapshot: { run },
      });
    }
    expect((await fetch(`${second.url}/api/snapshot?run=other`)).status).toBe(401);
    const [hash = ''] = leaderOf('other').server('other').run.document.data.shards;
    for (const donor of donors) expect((await donor.fetch(`/api/tokens/${hash}`)).status).toBe(200);
    // One that names no run, or none that is active, is put somewhere.
    for (const run of ['', 'none']) {
      const anywhere = await ScriptedDonor.joined(second.url, { run, stepMs: STEP_MS });
      expect(RUNS).toContain(anywhere.welcome.run.name);
      anywhere.vanish();
      await anywhere.closed;
    }

    // What names a run that is not active reaches none: each trains on until its own operator pauses it.
    expect((await ask('/api/operator/command?run=none', { command: 'stop' })).status).toBe(404);
    expect((await ask('/api/snapshot?run=none')).status).toBe(404);
    for (const run of RUNS) await leaderOf(run).commits(run, 2);

    // An operator pauses each by its own dashboard.
    for (const run of RUNS) {
      expect((await ask(`/api/operator/command?run=${run}`, { command: 'pause' })).status).toBe(200);
      await leaderOf(run)
        .server(run)
        .run.until(({ phase }) => phase === 'paused');
    }
    const tokens = totalOf(RUNS, (run) => TOKENS_A_STEP * leaderOf(run).steps(run).length);
    expect(tokens).toBeGreaterThanOrEqual(8 * TOKENS_A_STEP);
    const board = async (run: string) =>
      leaderboardSchema.parse(await (await fetch(`${second.url}/api/leaderboard?run=${run}`)).json());
    for (const run of RUNS)
      await expect.poll(async () => (await board(run)).runTokens, { ...WAIT, interval: 500 }).toBe(tokens);
    const [ada] = (await board('other')).donors;
    expect(ada).toMatchObject({ rank: 1, name: 'Ada' });
    expect((await board('tiny')).donors).toEqual([ada]);
    const credits = RUNS.flatMap((run) => leaderOf(run).credit(run));
    expect(credits.map(({ id }) => id)).toEqual([ada, ada].map(() => credits[0]?.id));
    expect(ada?.tokens).toBeCloseTo(
      totalOf(credits, (each) => each.tokens),
      6,
    );
    for (const donor of donors) donor.leave();
  });

  test('after all were gone, a process alone whose file is of the run beside leads both, each as what it was', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { first, second, leaderOf } = await twoRuns();
    for (const run of RUNS) await ScriptedDonor.joined(first.url, { run, stepMs: STEP_MS });
    for (const run of RUNS) await leaderOf(run).commits(run, 4);
    const stood = RUNS.map((run) => leaderOf(run).server(run).run.committedSteps);
    await Promise.all([first.kill(), second.kill()]);
    tiny.writeRun(tinyRunFile({ steps: STEPS, name: 'other' }));
    const last = await Member.opened();
    await expect.poll(() => last.led, WAIT).toEqual(['other', 'tiny']);
    const { store } = last.site.data;
    expect([store.activeRun()?.name, store.besideRuns()]).toEqual(['tiny', ['other']]);
    expect((await (await fetch(`${last.url}/api/status`)).json()).run).toBe('tiny');
    for (const [at, run] of RUNS.entries())
      expect(last.server(run).run.committedSteps).toBeGreaterThanOrEqual(stood[at] ?? 0);
  });

  test('NATS is away while both runs train: no donor is let go, and both go on with every step once', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { first, second, leaderOf } = await twoRuns();
    const donors: ScriptedDonor[] = [];
    for (const { url } of [first, second])
      for (const run of RUNS) donors.push(await ScriptedDonor.joined(url, { run, stepMs: STEP_MS }));
    let closed = 0;
    for (const donor of donors) void donor.closed.then(() => closed++);
    for (const run of RUNS) await leaderOf(run).commits(run, 4);
    for (const donor of donors) await donor.hears('prepare', ({ plan }) => peers(plan).length === 2);
    const epochs = () => RUNS.map((run) => leaderOf(run).server(run).run.epoch);
    const before = epochs();
    await nats.kill();
    // Nobody is late by it: of what the other process's donors say nothing comes.
    const phase = (run: string) => leaderOf(run).server(run).run.snapshot().sentence;
    for (const run of RUNS) await expect.poll(() => phase(run), WAIT).toContain('NATS does not answer');
    expect(epochs()).toEqual(before);
    contentOf(await nats.start());
    for (const run of RUNS) {
      await expect.poll(() => [first, second].some(({ led }) => led.includes(run)), WAIT).toBe(true);
      await leaderOf(run).commits(run, 4);
      const curve = leaderOf(run).steps(run);
      expect(curve.map(({ step, loss }) => ({ step, loss }))).toEqual(
        curve.map((_, step) => ({ step, loss: expect.closeTo(scriptedLoss(step), 12) })),
      );
      expect(leaderOf(run).server(run).run.snapshot().generation).toBe(0);
    }
    expect([closed, epochs()]).toEqual([0, before]);
    for (const donor of donors) donor.leave();
  });
});
