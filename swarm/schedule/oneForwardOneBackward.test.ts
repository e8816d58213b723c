import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { arrayOf, type PeerId, peerId, seededRandom } from '../base.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { donors, outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { formatSchedule, parseSchedule } from '../testing/scheduleText.ts';
import { formatAction, isCompute, type Schedule } from './action.ts';
import { scheduleProblems } from './check.ts';
import { gpipe } from './gpipe.ts';
import { build, stepSchedule } from './lower.ts';
import { slots } from './slots.ts';

/** More of them: `npm test -- --long`. */
const RUNS = process.env.SHOAL_LONG === '1' ? 2_000 : 500;

/** One row a stage, one list of micro-batches a lane: `[[[0, 1]], [[0], [1]]]`. Peers d0, d1, … */
function lanes(rows: readonly (readonly (readonly number[])[])[]): Plan {
  const names = donors(rows.flat().length);
  const base = equalSplit(outlineModel(rows.length, true), rows[0]?.flat().length ?? 1, donors(rows.length), {
    microBatches: rows[0]?.flat().length ?? 1,
  });
  let next = 0;
  const stages = rows.map((row, stage) => ({
    layers: [stage, stage + 1] as const,
    members: row.map((microBatches) => ({
      peer: names[next++] ?? peerId('nobody'),
      microBatches,
      samples: microBatches.length,
      recompute: [],
    })),
  }));
  return { ...base, stages, schedule: '1f1b' };
}
const print = (plan: Plan) => formatSchedule(build(plan)).split('\n');
const upTo = (count: number) => arrayOf(count, (id) => id);

/** The rule as the paper has it, for one stage's own micro-batches. */
function plainRule(stage: number, stages: number, ids: readonly number[]): string {
  const warmUp = Math.min(ids.length, stages - stage);
  const words = ids.slice(0, warmUp).map((id) => `${stage}F${id}`);
  ids.forEach((id, index) => {
    words.push(`${stage}B${id}`);
    const next = ids[index + warmUp];
    if (next !== undefined) words.push(`${stage}F${next}`);
  });
  return words.join(' ');
}

describe('the plain rule', () => {
  test('[SC12] min(m, p − s) forwards, backward and forward in turn, the remaining backwards', () => {
    expect(print(lanes([[upTo(4)], [upTo(4)]]))).toEqual([
      'd0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3',
      'd1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3',
    ]);
  });

  test('[SC12] with the overlapping warm-up of a plan that says so twice as many come first', () => {
    const plan: Plan = { ...lanes([[upTo(4)], [upTo(4)]]), schedule: '1f1b', warmup: 'overlap' };
    expect(formatSchedule(build(plan)).split('\n')).toEqual([
      'd0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3',
      'd1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3',
    ]);
  });

  test('[SC12] with one peer a stage, however many stages and micro-batches', () => {
    for (let stages = 1; stages <= 6; stages++)
      for (let count = 1; count <= 14; count++)
        expect(print(lanes(upTo(stages).map(() => [upTo(count)])))).toEqual(
          upTo(stages).map((stage) => `d${stage}: ${plainRule(stage, stages, upTo(count))}`),
        );
  });

  test('[SC22] with the same lanes in all stages, whichever micro-batches each has', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const random = seededRandom(seed);
        const hands = upTo(1 + Math.floor(random() * 4)).map((): number[] => []);
        for (let id = 0; id < 12; id++) hands[Math.floor(random() * hands.length)]?.push(id);
        const row = hands.filter((hand) => hand.length > 0);
        const stages = 1 + Math.floor(random() * 4);
        const expected = upTo(stages).flatMap((stage) => row.map((hand) => plainRule(stage, stages, hand)));
        expect(print(lanes(upTo(stages).map(() => row)))).toEqual(expected.map((list, peer) => `d${peer}: ${list}`));
      }),
      { seed: 3, numRuns: 200 },
    );
  });
});

describe('unequal lanes', () => {
  const uneven = lanes([
    [upTo(6)],
    [
      [0, 3],
      [1, 4],
      [2, 5],
    ],
    [upTo(6)],
  ]);

  test('[SC9] the plain rule would deadlock', () => {
    const text = uneven.stages
      .flatMap(({ members }, stage) =>
        members.map(({ peer, microBatches: ids }) => `${peer}: ${plainRule(stage, 3, ids)}`),
      )
      .join('\n');
    expect(scheduleProblems({ tied: true }, uneven, parseSchedule(text)).map(({ rule }) => rule)).toEqual(['SC9']);
  });

  test('[SC22] a peer that feeds three lanes keeps all of them fed; the last stage turns each round at once', () => {
    expect(print(uneven)).toEqual([
      'd0: 0F0 0F1 0F2 0F3 0F4 0F5 0B0 0B1 0B2 0B3 0B4 0B5',
      'd1: 1F0 1F3 1B0 1B3',
      'd2: 1F1 1F4 1B1 1B4',
      'd3: 1F2 1F5 1B2 1B5',
      'd4: 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4 2F5 2B5',
    ]);
    const longer = lanes([
      [upTo(9)],
      [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
      ],
    ]);
    expect(print(longer)[0]).toBe('d0: 0F0 0F1 0F2 0F3 0F4 0B0 0F5 0B1 0F6 0B2 0F7 0B3 0F8 0B4 0B5 0B6 0B7 0B8');
  });

  test('[SC9] [SC22] random plans run to their end, every peer taking its micro-batches in ascending order', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const { model, samples, plan: drawn } = randomPlan(seededRandom(seed));
        const plan: Plan = { ...drawn, schedule: '1f1b' };
        expect(problems(model, { samples }, plan)).toEqual([]);
        expect(scheduleProblems(model, plan, build(plan))).toEqual([]);
        if (seed % 5 === 0) expect(scheduleProblems(model, plan, stepSchedule(plan))).toEqual([]);
        expectAscending(plan, build(plan));
      }),
      { seed: 3, numRuns: 2 * RUNS },
    );
  });

  test('[SC22] [SC12] random lanes never keep more in flight than gpipe, and in the last stage one', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const plan = randomLanes(seed);
        expect(scheduleProblems({ tied: true }, plan, build(plan))).toEqual([]);
        const [own, all] = [slots(build(plan)), slots(gpipe(plan))];
        for (const peer of peers(plan))
          for (const [stage, most] of own.get(peer) ?? [])
            expect(most).toBeLessThanOrEqual(all.get(peer)?.get(stage) ?? 0);
        const last = plan.stages.length - 1;
        for (const { peer } of plan.stages[last]?.members ?? []) expect(own.get(peer)?.get(last)).toBe(1);
      }),
      { seed: 3, numRuns: RUNS },
    );
  });

  test('[SC22] the equal split’s lanes keep p − s in flight where they are most', () => {
    for (let layers = 2; layers <= 5; layers++)
      for (let count = 2; count <= 3 * layers; count++) {
        const model = outlineModel(layers, true);
        const plan = equalSplit(model, 24, donors(count), { schedule: '1f1b', microBatches: 24 });
        expect(scheduleProblems(model, plan, stepSchedule(plan))).toEqual([]);
        const most = Math.max(...plan.stages.map(({ members }) => members.length));
        plan.stages.forEach(({ members }, stage) => {
          if (members.length < most) return;
          for (const { peer, microBatches } of members) {
            const least = Math.min(microBatches.length, plan.stages.length - stage);
            expect(slots(build(plan)).get(peer)?.get(stage)).toBe(least);
          }
        });
      }
  });
});

/** Stages of random lanes: each peer in one stage, each micro-batch with any of the stage's peers. */
function randomLanes(seed: number): Plan {
  const random = seededRandom(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const count = 1 + below(16);
  return lanes(
    upTo(1 + below(5)).map(() => {
      const row = upTo(1 + below(5)).map((): number[] => []);
      for (const id of upTo(count)) row[below(row.length)]?.push(id);
      return row.filter((hand) => hand.length > 0);
    }),
  );
}

function expectAscending(plan: Plan, schedule: Schedule): void {
  for (const [peer, actions] of schedule)
    plan.stages.forEach((_, stage) => {
      for (const op of ['F', 'B']) {
        const ids = actions.flatMap((action) =>
          isCompute(action) && action.stage === stage && action.op === op ? action.microBatch : [],
        );
        expect(ids, `${peer}: ${actions.map(formatAction).join(' ')}`).toEqual(ids.toSorted((a, b) => a - b));
      }
    });
}

test('[SC22] a peer with several stages runs to its end too', () => {
  const base = lanes([[upTo(4)], [upTo(4)], [upTo(4)], [upTo(4)]]);
  const turn: PeerId[] = [peerId('a'), peerId('b')];
  const plan: Plan = {
    ...base,
    stages: base.stages.map(({ layers, members: [member] }, stage) => ({
      layers,
      members: member ? [{ ...member, peer: turn[stage % 2] ?? peerId('a') }] : [],
    })),
  };
  expect(scheduleProblems({ tied: true }, plan, build(plan))).toEqual([]);
});
