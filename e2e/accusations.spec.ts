/**
 * Members of the plan that say what is not so, against the built server: the honest donors' commits go on, and none of
 * them loses its place.
 */
import { expect, test } from 'vitest';
import type { PeerMessage } from '../swarm/messages/messages.ts';
import { Besieged, strangersAddress } from './strangers.ts';
import { isOverServers } from './twoServers.ts';

/** Less than any deadline that a server would wait for one donor in vain, twice; more where each word goes through NATS. */
const HANG_MS = isOverServers ? 180_000 : 90_000;
const options = { timeout: HANG_MS };

/** What a member of the plan says in place of its report. */
const inReports =
  (change: (report: Extract<PeerMessage, { type: 'report' }>) => PeerMessage | null) =>
  (message: PeerMessage): PeerMessage | null =>
    message.type === 'report' ? change(message) : message;

/** It computes some steps as it should before it shows its face. */
const HONEST_STEPS = 20;

test('[CO32] three lost links each that it tells of cost no honest donor its place', options, async () => {
  const besieged = await Besieged.training({ honest: 3, stages: 2 });
  const victims = besieged.honest.map(({ welcome }) => welcome.peer);
  let said = 0;
  const hostile = besieged.donor({
    address: strangersAddress(1),
    lie: inReports(({ epoch }) => {
      const about = victims[Math.floor(said / 3) % victims.length];
      said += 1;
      return about === undefined ? null : { type: 'fault', epoch, reason: 'linkLost', about, detail: 'no word' };
    }),
  });
  await hostile.hears('start');
  await besieged.commits(100);
});

test('[CO51] losses that are no number end no run', options, async () => {
  const besieged = await Besieged.training({ honest: 2, stages: 1 });
  const hostile = besieged.donor({
    address: strangersAddress(1),
    lie: inReports((report) => ({
      ...report,
      losses: report.losses.map(({ microBatch }) => ({ microBatch, lossSum: null })),
    })),
  });
  await hostile.hears('start');
  await besieged.commits(50);
  expect((await besieged.status()).phase).not.toMatch(/failed|paused/);
});

test.each(process.env.SHOAL_LONG === '1' ? ([1e300, 1e308, 'NaN', 'Infinity'] as const) : ([1e308, 'NaN'] as const))(
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
