/**
 * Strangers against the built server, each with one trick: whatever it is, the honest donors' commits go on, and none of
 * them loses its place. Counted in commits; time only says when something hangs.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { PeerMessage } from '../swarm/messages/messages.ts';
import { peers } from '../swarm/plan/plan.ts';
import { STATE_KINDS } from '../swarm/plan/stateKinds.ts';
import { Besieged, measuredProfile, strangersAddress } from './strangers.ts';
import { isOverServers } from './twoServers.ts';

/** Less than any deadline that a server would wait for one donor in vain, twice; more where each word goes through NATS. */
const HANG_MS = isOverServers ? 180_000 : 90_000;
const options = { timeout: HANG_MS };
/** `npm test -- --long`: every trick. */
const IS_LONG = process.env.SHOAL_LONG === '1';

test.runIf(IS_LONG)(
  'who claims to be a thousand times as fast is not given the run, and is left when it is slow',
  options,
  async () => {
    const besieged = await Besieged.training({ honest: 2, stepMs: 60 });
    const hostile = besieged.donor({ address: strangersAddress(1), stepMs: 1_500, profile: measuredProfile(1e-7) });
    await hostile.hears('welcome');
    await besieged.commits(100);
    const honest = new Set(besieged.honest.map(({ welcome }) => welcome.peer));
    const plans = hostile.received.flatMap((message) => (message.type === 'prepare' ? message.plan : []));
    for (const plan of plans) expect(peers(plan).some((peer) => honest.has(peer))).toBe(true);
  },
);

test('[CO70] who never gets ready holds up nobody', options, async () => {
  const besieged = await Besieged.training({ honest: 2, stages: 1 });
  const never = (message: PeerMessage): PeerMessage | null =>
    message.type === 'hello' || message.type === 'measured' || message.type === 'heartbeat' ? message : null;
  for (const number of [1, 2, 3]) {
    const hostile = besieged.donor({ address: strangersAddress(number), lie: never });
    await hostile.hears('welcome');
    await besieged.commits(50);
  }
});

test('[SV50] uploads of NaN are in no checkpoint that a server goes on from', { timeout: 2 * HANG_MS }, async () => {
  const besieged = await Besieged.training({ honest: 2, stages: 1, run: { checkpointEverySteps: 20 } });
  const hostile = besieged.donor({ address: strangersAddress(1), forge: (floats) => floats.fill(Number.NaN) });
  await hostile.hears('start');
  await besieged.commits(100);
  await besieged.kill();
  await besieged.serve();
  // Before its first step it reads what its part needs: alone it needs all.
  const lie = (message: PeerMessage): PeerMessage | null => (message.type === 'ready' ? null : message);
  const reader = besieged.donor({ address: strangersAddress(2), lie });
  await expectFiniteState(reader);
  reader.leave();
  await besieged.join();
});

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

test.each(IS_LONG ? (['deviceLost', 'outOfMemory'] as const) : (['deviceLost'] as const))(
  'who gets a part, says %s, and comes again, waits for its next one',
  { timeout: 2 * HANG_MS },
  async (reason) => {
    const besieged = await Besieged.training({ honest: 2, stages: 1, stepMs: 100 });
    const word = (epoch: number): PeerMessage => ({ type: 'fault', epoch, reason, detail: 'it says so' });
    const share = await besieged.shareBeside(`who says ${reason}`, comesAndSays(besieged, word));
    expect(share).toBeGreaterThan(0.75);
  },
);

test.runIf(IS_LONG)(
  'tabs at work do not mind who gets a part, says deviceLost, and comes again',
  {
    timeout: 3 * HANG_MS,
  },
  async () => {
    const besieged = new Besieged({ honest: 2, stages: 1 });
    await besieged.serve();
    await besieged.joinByTabs();
    const word = (epoch: number): PeerMessage => ({ type: 'fault', epoch, reason: 'deviceLost', detail: 'it says so' });
    const share = await besieged.shareBeside('tabs beside who says deviceLost', comesAndSays(besieged, word));
    expect(share).toBeGreaterThan(0.75);
    const { donors } = await besieged.status();
    expect(donors).toBeGreaterThanOrEqual(2);
  },
);

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

test('beside newcomers who stay for seconds the donors at work do at least half of what they do alone', {
  timeout: 2 * HANG_MS,
}, async () => {
  const besieged = await Besieged.training({ honest: 2, stages: 1, stepMs: 60 });
  const share = await besieged.shareBeside('two newcomers a second who stay up to 3 s', crowd(besieged));
  expect(share).toBeGreaterThan(0.5);
});

/** Calls of strangers that wait for their answers. */
const CALLS_AT_ONCE = 100;

/** What this donor was told to begin with. */
async function expectFiniteState(donor: Besieged['honest'][number]): Promise<void> {
  const { plan, source } = await donor.hears('prepare');
  if (source.from !== 'checkpoint') return;
  expect(source.step).toBeGreaterThan(0);
  const own = plan.state.flatMap(({ block, shards }) =>
    shards.flatMap(({ peer, range }) => (peer === donor.welcome.peer ? { block, range } : [])),
  );
  for (const { block, range } of own)
    for (const kind of STATE_KINDS) {
      const path = `/api/state/${source.step}/${block}?kind=${kind}&from=${range[0]}&to=${range[1]}`;
      const floats = new Float32Array(await (await donor.fetch(path)).arrayBuffer());
      expect(floats.length, path).toBe(range[1] - range[0]);
      expect(floats.every(Number.isFinite), path).toBe(true);
    }
}

test.runIf(IS_LONG)(
  'names that many addresses choose, each within its limit, beside all that strangers have',
  options,
  async () => {
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
  },
);
