/** Two processes of a site over a real NATS, here in one process, over one store; donors are scripted. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { arrayOf, invariant, type Result } from '../../swarm/base.ts';
import { decodeEnvelope, encodeEnvelope } from '../../swarm/messages/relay.ts';
import { UnusedRunFile } from '../commands/serveSite.ts';
import { JOURNAL_GONE } from '../files/storageProblem.ts';
import type { Access } from '../http/access.ts';
import type { Log } from '../monitoring/log.ts';
import { createServer, type Server } from '../server.ts';
import { addRun } from '../store/dataDirectory.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';
import { SiteMember } from './member.ts';
import { hasNatsServer, type NatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { openSite, type Site } from './site.ts';

let folder: string;
let nats: NatsServer;
let tiny: TinyServers;
let members = 0;
const toClose: (() => unknown)[] = [];

beforeEach(async () => {
  if (!hasNatsServer()) return;
  folder = mkdtempSync(join(tmpdir(), 'shoal-nats-'));
  nats = contentOf(await startNatsServer(folder));
  tiny = new TinyServers({ steps: 1_000 }, false);
});

afterEach(async () => {
  if (!hasNatsServer()) return;
  for (const close of toClose.splice(0).reverse()) await close();
  await tiny.close();
  await nats.stop();
  rmSync(folder, { recursive: true, force: true });
});

function contentOf<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

interface MemberOptions {
  readonly access?: Access;
  readonly log?: Log;
  /** Its run is by invitation. */
  readonly invite?: string;
}

/** A process of the site; `kill`: as far as others see, it is gone from one moment to the next. */
async function openMember({ access = {}, log = () => {}, ...own }: MemberOptions = {}, onFollow = (_: Site) => {}) {
  const directory = join(folder, `member-${members++}`);
  const site = contentOf(await openSite({ urls: [nats.url], site: 'test', directory, log }));
  let told: () => void = () => {};
  const tokens: string[] = [];
  const led: { server: Server | null } = { server: null };
  const member = contentOf(
    await SiteMember.open({
      ...{ site, access, host: 'localhost', port: 0, pages: undefined, log },
      onFollow: () => onFollow(site),
      onOperatorToken: (token) => tokens.push(token),
      open: async (url, { data, runs }) => {
        const runName = contentOf(await addRun(site.data, tiny.runPath));
        return createServer({ access, data, runName, log: () => {}, knownAs: url, site: runs, ...own });
      },
      onRole: (server) => {
        led.server = server;
        told();
      },
    }),
  );
  const leads = new Promise<void>((resolve) => {
    told = () => led.server !== null && resolve();
    told();
  });
  let isGone = false;
  toClose.push(async () => {
    if (!isGone) await member.close();
    await site.close();
  });
  const kill = async (): Promise<void> => {
    isGone = true;
    await Promise.all([site.nats.close(), site.exchange.close()]);
    await led.server?.close();
  };
  const end = async (): Promise<void> => {
    isGone = true;
    await member.close();
  };
  return { site, member, leads, kill, end, led, tokens };
}

const TIMEOUT_MS = 60_000;

describe.skipIf(!hasNatsServer())(hasNatsServer() ? 'a site' : `skipped: ${NO_NATS_SERVER}`, () => {
  test('[NA2] donors of two processes train one run; the one that leads dies, and the other’s donors stay connected', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    const second = await openMember();
    const [one, other] = [await ScriptedDonor.joined(second.member.url), await ScriptedDonor.joined(second.member.url)];
    await one.until(() => (first.led.server?.run.committedSteps ?? 0) > 3);
    let closed = 0;
    for (const donor of [one, other]) void donor.closed.then(() => closed++);
    await first.kill();
    await second.leads;
    const run = second.led.server?.run;
    invariant(run, 'it leads');
    const before = run.committedSteps;
    expect(before).toBeGreaterThan(3);
    await run.until(({ committedSteps }) => committedSteps > before + 3);
    expect(closed).toBe(0);
    expect(run.snapshot().generation).toBe(0);
    for (const donor of [one, other]) donor.leave();
  });

  test('[NA2] the one that leads is fenced while it lives: its own donors stay connected as others’ do, for the next one, and no step is given up', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    const others = [await openMember(), await openMember()] as const;
    const donors = await Promise.all([first, ...others].map(({ member }) => ScriptedDonor.joined(member.url)));
    await donors[0]?.until(() => (first.led.server?.run.committedSteps ?? 0) > 3);
    let closed = 0;
    for (const donor of donors) void donor.closed.then(() => closed++);
    expect(await others[0].site.lead()).toMatchObject({ ok: true });
    await Promise.all(donors.map((donor) => donor.hears('helloAgain')));
    const led = (): Server | null => [first, ...others].map((one) => one.led.server).find((server) => server) ?? null;
    await expect.poll(() => led()?.run.committedSteps ?? 0, { timeout: 40_000 }).toBeGreaterThan(3);
    const run = led()?.run;
    invariant(run, 'one leads');
    const before = run.committedSteps;
    await run.until(({ committedSteps }) => committedSteps > before);
    expect(run.snapshot().generation).toBe(0);
    expect(closed).toBe(0);
    for (const donor of donors) donor.leave();
  });

  test.each([false, true])(
    'a process dies while nothing is computed, NATS away: %s: its donors count no more',
    {
      timeout: TIMEOUT_MS,
    },
    async (isNatsAway) => {
      const first = await openMember();
      await first.leads;
      const second = await openMember();
      const [own, other] = await Promise.all([first, second].map(({ member }) => ScriptedDonor.joined(member.url)));
      const run = first.led.server?.run;
      invariant(run && own && other, 'it leads');
      await run.until(({ committedSteps }) => committedSteps > 3);
      run.command('pause');
      await run.until(({ phase }) => phase === 'paused');
      const present = (): string[] => run.snapshot().donors.map(({ peer }) => peer);
      expect(present().toSorted()).toEqual([own.welcome.peer, other.welcome.peer].toSorted());
      if (isNatsAway) await nats.kill();
      await second.kill();
      if (isNatsAway) contentOf(await nats.start());
      await expect.poll(present, { timeout: 20_000 }).toEqual([own.welcome.peer]);
      for (const donor of [own, other]) donor.vanish();
    },
  );

  test('wrong invitations at one process and at the next one that leads are counted together', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember({ invite: 'fish' });
    await first.leads;
    const second = await openMember({ invite: 'fish' });
    const asked = async (word: string): Promise<number> =>
      (await fetch(`${second.member.url}/api/status?invite=${word}`)).status;
    const wrong = async (from: number, to: number): Promise<number[]> => {
      const statuses: number[] = [];
      for (let word = from; word < to; word++) statuses.push(await asked(`word${word}`));
      return statuses;
    };
    await expect.poll(() => asked('fish'), { timeout: 20_000, interval: 500 }).toBe(200);
    expect(await wrong(0, 25)).toEqual(Array(25).fill(403));
    await first.kill();
    await second.leads;
    await expect.poll(() => asked('fish'), { timeout: 20_000, interval: 500 }).toBe(200);
    expect(await wrong(25, 42)).toEqual([...Array(15).fill(403), 429, 429]);
    expect(await asked('fish')).toBe(429);
  });

  test('what donors of two gateways have relayed goes on between these while nobody leads, and is counted while somebody does', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    const gateways = [await openMember(), await openMember()] as const;
    const [one, other] = [
      await ScriptedDonor.joined(gateways[0].member.url, { stepMs: 50 }),
      await ScriptedDonor.joined(gateways[1].member.url, { stepMs: 50 }),
    ];
    const heard = (from: ScriptedDonor, kind: string): number[] =>
      from.relayed.flatMap((bytes) => {
        const envelope = decodeEnvelope(new Uint8Array(bytes));
        return envelope.ok && envelope.value.kind === kind ? [...envelope.value.content] : [];
      });
    const frame = (number: number): void =>
      one.sayRaw(encodeEnvelope('frame', other.welcome.peer, new Uint8Array([number])));
    const run = first.led.server?.run;
    invariant(run, 'it leads');
    await one.until(() => run.committedSteps > 1);
    const { relay } = run.network;
    // The first one goes by the one that leads, which tells the gateways that the next ones need not.
    for (const number of [1, 2, 3]) {
      frame(number);
      await other.until(() => heard(other, 'frame').length === number);
      await one.until(() => heard(one, 'credit').length === 4 * number);
    }
    await expect.poll(() => relay.counts, { timeout: 20_000 }).toEqual({ frames: 3, bytes: 3, droppedFrames: 0 });
    expect([one, other].map(({ welcome }) => relay.isUsedBy(welcome.peer))).toEqual([true, true]);
    const killed = first.kill();
    await first.site.exchange.closed();
    frame(4);
    await other.until(() => heard(other, 'frame').length === 4);
    await one.until(() => heard(one, 'credit').length === 16);
    expect(heard(other, 'frame')).toEqual([1, 2, 3, 4]);
    await killed;
    for (const donor of [one, other]) donor.leave();
  });

  test('the one that leads dies under a crowd at another’s door: whose state the run needs comes first, and no step is given up', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const access = { trustProxy: ['127.0.0.1', '::1'] };
    const first = await openMember({ access });
    await first.leads;
    const second = await openMember({ access });
    const { url } = second.member;
    // They only say hello: each has a place of those that are not admitted yet.
    const strangers = arrayOf(
      200,
      (number) => new ScriptedDonor(url, { address: `10.0.0.${number}`, measures: false }),
    );
    await Promise.all(strangers.map((stranger) => stranger.hears('welcome')));
    const addresses = ['192.0.2.1', '192.0.2.2'];
    const donors = await Promise.all(addresses.map((address) => ScriptedDonor.joined(url, { address })));
    await donors[0]?.until(() => (first.led.server?.run.committedSteps ?? 0) > 3);
    await first.kill();
    await second.leads;
    const run = second.led.server?.run;
    invariant(run, 'it leads');
    const before = run.committedSteps;
    await run.until(({ committedSteps }) => committedSteps > before);
    expect(run.snapshot().generation).toBe(0);
    for (const donor of [...donors, ...strangers]) donor.vanish();
  });

  test('the one that leads ends in order: the other goes on without a step given up, its donors come to it', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    const second = await openMember();
    const [one, other] = [await ScriptedDonor.joined(first.member.url), await ScriptedDonor.joined(second.member.url)];
    await other.until(() => (first.led.server?.run.committedSteps ?? 0) > 3);
    await first.end();
    await one.closed;
    await second.leads;
    const run = second.led.server?.run;
    invariant(run, 'it leads');
    const before = run.committedSteps;
    expect(before).toBeGreaterThan(3);
    const back = await one.comeBack(second.member.url);
    await run.until(({ committedSteps }) => committedSteps > before);
    expect(run.snapshot().generation).toBe(0);
    for (const donor of [back, other]) donor.leave();
  });

  test('who leaves knows at once whether others go on: one that died a moment ago does not, nor one that leaves', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    const [second, third] = [await openMember(), await openMember()];
    await expect.poll(() => first.member.isAlone, { timeout: 20_000 }).toBe(false);
    expect(await third.member.leave()).toBe('others');
    await second.kill();
    expect(await first.member.leave()).toBe('alone');
  });

  test('calls at one that does not lead are answered by the one that does: what is kept, tokens, uploads, sessions and their feed', {
    timeout: TIMEOUT_MS,
  }, async () => {
    tiny.writeRun(tinyRunFile({ steps: 1_000, checkpointEverySteps: 2 }));
    const first = await openMember();
    await first.leads;
    const second = await openMember();
    const { url } = second.member;
    const donor = await ScriptedDonor.joined(url);
    const run = first.led.server?.run;
    invariant(run, 'it leads');
    // Its shards were uploaded through the gateway.
    await donor.until(() => run.checkpoint(2) !== null || run.committedSteps > 20);
    expect(run.checkpoint(2)).not.toBeNull();
    const [hash = ''] = run.document.data.shards;
    const tokens = await donor.fetch(`/api/tokens/${hash}`);
    expect(tokens.status).toBe(200);
    const bytes = Buffer.from(await tokens.arrayBuffer());
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(hash);
    expect((await fetch(`${url}/api/tokens/${hash}`)).status).toBe(401);
    const status = await fetch(`${url}/api/status`);
    expect(await status.json()).toMatchObject({ run: 'tiny' });
    expect((await fetch(`${url}/api/nothing`)).status).toBe(404);
    donor.leave();
  });

  test('readiness, metrics and the operator’s token of one that does not lead are its own', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    const second = await openMember();
    const { url } = second.member;
    const donor = await ScriptedDonor.joined(url);
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ ok: true, role: 'gateway' });
    expect(await (await fetch(`${url}/metrics`)).text()).toMatch(/^shoal_gateway_donors 1$/m);
    const login = (token: string): Promise<Response> =>
      fetch(`${url}/api/operator/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', origin: url },
        body: JSON.stringify({ token }),
      });
    const token = second.member.operatorToken;
    expect((await login('x'.repeat(24))).status).toBe(401);
    expect((await login(token)).status).toBe(200);
    expect((await login(token)).status).toBe(401);
    expect(second.tokens).toHaveLength(1);
    expect((await login(second.member.operatorToken)).status).toBe(200);
    donor.leave();
    await first.kill();
    // For how long nobody leads, and whether a look falls into that time, is chance: only /healthz is asked.
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    await second.leads;
    await expect.poll(async () => (await fetch(`${url}/readyz`)).status, { timeout: 20_000, interval: 100 }).toBe(200);
  });

  test('NATS comes back without its streams: the run stands and says what to do, no gateway is ready, and the one that leads still ends', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const said: string[] = [];
    const first = await openMember({ log: (_level, text) => said.push(text) });
    await first.leads;
    const { url } = (await openMember()).member;
    const ready = async (): Promise<number> => (await fetch(`${url}/readyz`)).status;
    await expect.poll(ready, { timeout: 20_000 }).toBe(200);
    const donor = await ScriptedDonor.joined(first.member.url);
    const run = first.led.server?.run;
    invariant(run, 'it leads');
    await donor.until(() => run.committedSteps > 3);
    await nats.kill();
    await expect.poll(ready, { timeout: 20_000 }).toBe(503);
    rmSync(join(folder, 'jetstream'), { recursive: true });
    contentOf(await nats.start());
    await expect
      .poll(() => run.snapshot().sentence, { timeout: 20_000 })
      .toBe(`Nothing can be committed: ${JOURNAL_GONE}.`);
    await expect.poll(ready, { timeout: 20_000 }).toBe(503);
    const { store } = first.site.data;
    const heard = donor.heardCount('committed');
    await first.end();
    expect(donor.heardCount('committed')).toBe(heard);
    expect(store.committedSteps('tiny')).toBeGreaterThan(3);
    expect(said.filter((text) => text.includes('given up')).join()).toMatch(
      /^What this server wrote last is not kept, and given up \(\d+ transactions\): the journal of this site is gone/,
    );
    donor.vanish();
  });

  test('a run file that another server’s choice leaves unused is named, once', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await openMember();
    await first.leads;
    tiny.writeRun({ ...tinyRunFile({ steps: 1_000 }), name: 'other' });
    const said: string[] = [];
    let looks = 0;
    let unused: UnusedRunFile | null = null;
    const follow = (site: Site): void => {
      unused ??= new UnusedRunFile(tiny.runPath, site.data.store, (_level, text) => said.push(text));
      unused.look();
      looks++;
    };
    await openMember({}, follow);
    await expect.poll(() => said.length > 0 && looks > 2, { timeout: 20_000 }).toBe(true);
    expect(said).toEqual([
      `${tiny.runPath} is not used: the site trains tiny; to train other, add it on the dashboard (New run) or take another --site`,
    ]);
  });
});
