import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { arrayOf, peerId, seededRandom, totalOf } from '../base.ts';
import { turnAt } from '../islands/rounds.ts';
import { holders, owner, type Plan, peers } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { islandsOf } from '../testing/islands.ts';
import { outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { formatSchedule, parseSchedule } from '../testing/scheduleText.ts';
import { type Action, formatAction } from './action.ts';
import {
  addCommit,
  addRecompute,
  addReduce,
  addTransfers,
  addUpdate,
  build,
  forwardOnly,
  lower,
  stepSchedule,
  turnEnd,
} from './lower.ts';

const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
const model = outlineModel(4, true);
const pipeline = equalSplit(model, 4, [a, b], { microBatches: 2 });
const text = (...lines: string[]) => lines.join('\n');

/** Four stages, peers a and b in turn; the second micro-batch goes through c in stage 1. */
const wired: Plan = {
  ...pipeline,
  stages: [a, b, a, b].map((peer, stage) => ({
    layers: [stage, stage + 1],
    members:
      stage === 1
        ? [
            { peer: b, microBatches: [0], samples: 2, recompute: [1] },
            { peer: c, microBatches: [1], samples: 2, recompute: [] },
          ]
        : [{ peer, microBatches: [0, 1], samples: 4, recompute: [] }],
  })),
};

describe('gpipe', () => {
  test('[SC10] all forwards, then all backwards, micro-batches ascending', () => {
    expect(formatSchedule(build(pipeline))).toBe(text('a: 0F0 0F1 0B0 0B1', 'b: 1F0 1F1 1B0 1B1'));
  });

  test('[SC10] a peer with several stages goes stage by stage, backwards from the last', () => {
    expect(formatSchedule(build(wired))).toBe(
      text('a: 0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1', 'b: 1F0 3F0 3F1 3B0 3B1 1B0', 'c: 1F1 1B1'),
    );
  });
});

describe('passes', () => {
  test('[SC5] transfers stand right after what they send and right before what needs them', () => {
    expect(formatSchedule(addTransfers(pipeline, build(pipeline)))).toBe(
      text(
        'a: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1',
        'b: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1',
      ),
    );
  });

  test('[SC5] nothing travels between two stages of one peer', () => {
    const alone: Plan = { ...wired, stages: wired.stages.map((stage) => ({ ...stage, members: [all(a)] })) };
    expect(addTransfers(alone, build(alone))).toEqual(build(alone));
  });

  test('a recompute stands before the backward and, once transfers are there, before the wait for the gradient', () => {
    const schedule = parseSchedule('b: 1F0 1B0\nc: 1F1 1B1');
    const recomputed = addRecompute(wired, schedule);
    expect(formatSchedule(recomputed)).toBe(text('b: 1F0 1R0 1B0', 'c: 1F1 1B1'));
    expect(formatSchedule(addTransfers(wired, recomputed))).toBe(
      text('b: 1RECV_F0 1F0 1SEND_F0 1R0 1RECV_B0 1B0 1SEND_B0', 'c: 1RECV_F1 1F1 1SEND_F1 1RECV_B1 1B1 1SEND_B1'),
    );
  });

  test('[SC6] a reduce follows the last backward of its stage, and the gradient that goes on from it', () => {
    const schedule = parseSchedule('a: 0F0 2F0 2B0 2SEND_B0 0B0\nb: 1F0 1F1 1B0 1B1');
    expect(formatSchedule(addReduce(schedule))).toBe(
      text('a: 0F0 2F0 2B0 2SEND_B0 2REDUCE 0B0 0REDUCE', 'b: 1F0 1F1 1B0 1B1 1REDUCE'),
    );
  });

  test('[SC20] each peer reports at the end of its list, and awaits the commit', () => {
    expect(formatSchedule(addCommit(parseSchedule('a: 0B0 0REDUCE\nb:')))).toBe(
      text('a: 0B0 0REDUCE REPORT COMMIT', 'b: REPORT COMMIT'),
    );
  });

  test('[SC7] [SC8] keepers update, primaries send the new values, then members gather, and replicas beside the next step', () => {
    const kept: Plan = {
      ...pipeline,
      state: pipeline.state.map(({ block, shards }) =>
        block === 'head' ? { block, shards: [{ peer: c, range: [0, 8], replicas: [a] }] } : { block, shards },
      ),
    };
    const schedule = new Map(peers(kept).map((peer): [typeof peer, Action[]] => [peer, []]));
    expect(formatSchedule(addUpdate(kept, schedule))).toBe(
      text('a: UPDATE SEND_V 0GATHER', 'b: UPDATE SEND_V 1GATHER', 'c: UPDATE SEND_V'),
    );
  });

  test('[SC5]-[SC8] [SC20] the whole step of two donors', () => {
    expect(formatSchedule(stepSchedule(pipeline))).toBe(
      text(
        'a: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE REPORT COMMIT UPDATE SEND_V 0GATHER',
        'b: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1REDUCE REPORT COMMIT UPDATE SEND_V 1GATHER',
      ),
    );
  });

  test('the whole step of one donor has no transfer', () => {
    const alone = equalSplit(model, 2, [a], { microBatches: 2 });
    expect(formatSchedule(stepSchedule(alone))).toBe('a: 0F0 0F1 0B0 0B1 0REDUCE REPORT COMMIT UPDATE SEND_V 0GATHER');
  });

  test('[SC7] [SC8] [IS21] [IS22] with islands the step that ends a turn switches, the one that ends a round meets', () => {
    const keeper = { peer: c, range: [0, 64] as const, replicas: [] };
    const state = pipeline.state.map((one) => (one.block === 'layer.1' ? { ...one, shards: [keeper] } : one));
    for (const end of ['SWITCH', 'MEET'] as const) {
      const steps = stepSchedule({ ...pipeline, state }, end);
      const ends = [...steps].map(([peer, actions]) => {
        const list = actions.map(formatAction);
        return `${peer}: ${list.slice(list.indexOf('COMMIT')).join(' ')}`;
      });
      expect(ends).toEqual([
        `a: COMMIT UPDATE ${end} SEND_V 0GATHER`,
        `b: COMMIT UPDATE ${end} SEND_V 1GATHER`,
        `c: COMMIT UPDATE ${end} SEND_V`,
      ]);
    }
    const train = { steps: 12, islands: islandsOf(2, 3) };
    const whole = arrayOf(12, (count) => turnEnd(train, turnAt(train, count)));
    expect(whole.map((end) => end ?? '-').join(' ')).toBe('- - SWITCH - - MEET - - SWITCH - - MEET');
    expect(turnEnd({}, turnAt({ steps: 12 }, 2))).toBeNull();
  });

  test('an evaluation is forwards and their transfers', () => {
    expect(formatSchedule(forwardOnly(pipeline))).toBe(
      text('a: 0F0 0SEND_F0 0F1 0SEND_F1', 'b: 1RECV_F0 1F0 1RECV_F1 1F1'),
    );
  });
});

test('[SC2] [SC5]-[SC8] [SC20] random plans: as much work of each kind as counted by hand', () => {
  fc.assert(
    fc.property(fc.integer(), (seed) => {
      const { model, plan } = randomPlan(seededRandom(seed));
      const actions = [...lower(plan, build(plan)).values()].flat();
      const count = (op: Action['op']) => actions.filter((action) => action.op === op).length;
      const ids = plan.microBatches.map(({ id }) => id);
      let crossings = 0;
      for (let stage = 1; stage < plan.stages.length; stage++)
        for (const id of ids) if (owner(plan, stage, id) !== owner(plan, stage - 1, id)) crossings++;
      const members = totalOf(plan.stages, (stage) => stage.members.length);
      expect([count('F'), count('B')]).toEqual(Array(2).fill(ids.length * plan.stages.length));
      expect([count('SEND_F'), count('RECV_F'), count('SEND_B'), count('RECV_B')]).toEqual(Array(4).fill(crossings));
      expect(count('REDUCE')).toBe(members);
      expect(count('GATHER')).toBe(members);
      const shards = plan.state.flatMap((state) => state.shards);
      expect(count('UPDATE')).toBe(new Set(shards.flatMap(({ peer, replicas }) => [peer, ...replicas])).size);
      expect(count('SEND_V')).toBe(new Set(shards.map(({ peer }) => peer)).size);
      expect([count('REPORT'), count('COMMIT')]).toEqual(Array(2).fill(peers(plan).length));
      expect(holders(model, plan).get('head')).toHaveLength(plan.stages.at(-1)?.members.length ?? 0);
    }),
    { seed: 3, numRuns: 200 },
  );
});

function all(peer: typeof a) {
  return { peer, microBatches: [0, 1], samples: 4, recompute: [] };
}
