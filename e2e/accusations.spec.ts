/**
 * Members of the plan that say what is not so, against the built server: the honest donors' commits go on, and none of
 * them loses its place.
 */

import { once } from 'node:events';
import { expect, test } from 'vitest';
import { arrayOf } from '../swarm/base.ts';
import type { PeerMessage } from '../swarm/messages/messages.ts';
import { Besieged, strangersAddress } from './strangers.ts';
import { isOverServers } from './twoServers.ts';

/** Less than any deadline that a server would wait for one donor in vain, twice; more where each word goes through NATS. */
const HANG_MS = isOverServers ? 180_000 : 90_000;
const options = { timeout: HANG_MS };

/** What a member of the plan says in place of its report. */
const inReports =
  <Said extends PeerMessage | null>(change: (report: Extract<PeerMessage, { type: 'report' }>) => Said) =>
  (message: PeerMessage): PeerMessage | Said =>
    message.type === 'report' ? change(message) : message;

/** So long a step takes: most of it computing, so that one donor more does not slow the two cores. */
const STEP_MS = 60;
/** It computes some steps as it should before it shows its face. */
const HONEST_STEPS = 20;

/** One with that trick among them, as long as it may be; `number` of them, of one address. */
const joins =
  (besieged: Besieged, options: Omit<Parameters<Besieged['donor']>[0], 'address'>, number = 1) =>
  async (signal: AbortSignal): Promise<void> => {
    const ended = once(signal, 'abort');
    const hostile = arrayOf(number, () => besieged.donor({ ...options, address: strangersAddress(1) }));
    await Promise.all(hostile.map((donor) => donor.hears('start')));
    await ended;
    for (const donor of hostile) donor.vanish();
  };

test.each([1, 2])(
  '[CO32] links that %i of one address tell to be lost, three times each, cost no honest donor its place',
  options,
  async (number) => {
    const besieged = await Besieged.training({ honest: 3, stages: 2, stepMs: STEP_MS });
    const victims = besieged.honest.map(({ welcome }) => welcome.peer);
    let said = 0;
    const lie = inReports(({ epoch }) => {
      const about = victims[Math.floor(said / (3 * number)) % victims.length];
      said += 1;
      return about === undefined ? null : { type: 'fault', epoch, reason: 'linkLost', about, detail: 'no word' };
    });
    const share = await besieged.shareBeside(
      `${number} who says that links are lost`,
      joins(besieged, { lie }, number),
    );
    expect(said).toBeGreaterThan(victims.length);
    expect(share).toBeGreaterThan(0.75);
  },
);

test('[RE85] what one uploads of its shards, and its copies’ keepers have not, costs these no place', {
  timeout: 2 * HANG_MS,
}, async () => {
  const besieged = await Besieged.training({
    ...{ honest: 2, stages: 1, stepMs: STEP_MS },
    run: { checkpointEverySteps: 20 },
  });
  let uploads = 0;
  const forge = (floats: Float32Array<ArrayBuffer>) => {
    uploads += 1;
    return floats.map((value) => value + 1);
  };
  const share = await besieged.shareBeside('who uploads what its copies have not', joins(besieged, { forge }), {
    rollBacks: 1,
  });
  expect(uploads).toBeGreaterThan(0);
  expect(share).toBeGreaterThan(0.75);
});

test('[CO51] losses that are no number end no run', options, async () => {
  const besieged = await Besieged.training({ honest: 2, stages: 1, stepMs: STEP_MS });
  const lie = inReports((report) => ({
    ...report,
    losses: report.losses.map(({ microBatch }) => ({ microBatch, lossSum: null })),
  }));
  const share = await besieged.shareBeside('who reports losses that are no number', joins(besieged, { lie }));
  expect(share).toBeGreaterThan(0.75);
  expect((await besieged.status()).phase).not.toMatch(/failed|paused/);
});

test(
  'gradients a thousand times too large, as all report them, are committed, and cost nobody its place',
  options,
  async () => {
    let isThere = false;
    const says = inReports((report) => ({
      ...report,
      shards: report.shards.map((shard) => ({
        ...shard,
        sumSquares: isThere ? 1e6 : shard.sumSquares,
      })),
    }));
    const besieged = await Besieged.training({ honest: 2, stages: 1, stepMs: STEP_MS, says });
    const lie = inReports((report) => {
      isThere = true;
      return says(report);
    });
    const share = await besieged.shareBeside(
      'whose gradients are a thousand times too large',
      joins(besieged, { lie }),
    );
    expect(isThere).toBe(true);
    expect(share).toBeGreaterThan(0.75);
  },
);

test.each([1e300, 1e308, 'NaN', 'Infinity'] as const)(
  '[CO55] a sum of squares of %s scales nobody’s gradients to nothing',
  options,
  async (sumSquares) => {
    const besieged = await Besieged.training({ honest: 2, stages: 1 });
    let steps = 0;
    const hostile = besieged.donor({
      address: strangersAddress(1),
      lie: inReports((report) => {
        steps += 1;
        if (steps < HONEST_STEPS) return report;
        return { ...report, shards: report.shards.map((shard) => ({ ...shard, sumSquares })) };
      }),
    });
    await hostile.hears('start');
    await besieged.commits(HONEST_STEPS + 50);
    const scales = besieged.honest.flatMap(({ received }) =>
      received.flatMap((message) => (message.type === 'committed' ? message.clipScale : [])),
    );
    // The honest ones' sums alone make a norm of some ones.
    expect(Math.min(...scales)).toBeGreaterThan(0.05);
  },
);

test.each([
  ['nothing', () => []],
  [
    'less than nothing',
    (losses: readonly { microBatch: number }[]) => losses.map((loss) => ({ ...loss, lossSum: -1 })),
  ],
] as const)('[CO55] an evaluation of %s is not the held-out loss', options, async (_, lossesOf) => {
  const besieged = await Besieged.training({ honest: 1, stages: 2, run: { evaluationEverySteps: 20 } });
  const hostile = besieged.donor({
    address: strangersAddress(1),
    lie: (message) => (message.type === 'evaluated' ? { ...message, losses: lossesOf(message.losses) } : message),
  });
  await hostile.hears('start');
  await besieged.commits(100);
  const { evaluations } = await besieged.status();
  for (const [, loss] of evaluations) expect(loss).toBeGreaterThan(1);
});
