import { describe, expect, test } from 'vitest';
import { at, peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { besideText } from '../timeline/beside.ts';
import { lengthSeconds, makespanSeconds } from '../timeline/timeline.ts';
import { clusterCosts } from './clusterCosts.ts';
import { equalSplit } from './equalSplit.ts';
import { predictedStep } from './forecast.ts';
import { predictedBeside } from './predictedBeside.ts';

const [A, B] = [peerId('a'), peerId('b')];
const model = outlineModel(4, false);
const [LATENCY, RATE] = [0.5, 1_000];
const batch = { samples: 2, sequence: 4 };
const costs = clusterCosts({
  model,
  batch,
  cluster: {
    peers: [A, B].map((id) => ({
      ...{ id, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [1], backwardSecondsPerLayer: [2] },
    })),
    links: { default: { latencySeconds: LATENCY, bytesPerSecond: RATE }, regions: [], pairs: [] },
  },
});
const split = equalSplit(model, batch.samples, [A, B], { microBatches: 2 });

function predicted(plan: Plan) {
  const step = predictedStep(costs, plan);
  const spans = new Map(
    predictedBeside(costs, plan, step).map((span) => [`${span.peer} ${besideText(span.action)}`, span]),
  );
  const of = (text: string) => {
    const span = spans.get(text);
    if (!span) throw new Error(`no ${text} among ${[...spans.keys()].join(', ')}`);
    return span;
  };
  return { step, of, names: [...spans.keys()] };
}

const inHost = (plan: Plan): Plan => ({
  ...plan,
  state: plan.state.map((one) => ({ ...one, shards: one.shards.map((shard) => ({ ...shard, in: 'host' as const })) })),
});

describe('what stands beside the work of a predicted step', () => {
  test('what is sent begins as its work ends, and is there when the next owner may begin', () => {
    const { step, of } = predicted(split);
    const at0 = step.timeline.find(({ peer, action }) => peer === A && action.op === 'F');
    const send = of('a 0SEND_F0');
    const bytes = (at(split.microBatches, 0).samples[1] - at(split.microBatches, 0).samples[0]) * 4 * model.width * 4;
    expect(send.startSeconds).toBe(at0?.endSeconds);
    expect(lengthSeconds(send)).toBeCloseTo(LATENCY + bytes / RATE, 9);
    const first = step.timeline.find(({ peer, action }) => peer === B && action.op === 'F');
    expect(first?.startSeconds).toBeCloseTo(send.endSeconds, 9);
  });

  test('updates come after the commit, each in its own memory, where the last of them ends behind the step', () => {
    const { step, of, names } = predicted(split);
    expect(names.some((name) => name.endsWith('UPDATE_HOST'))).toBe(false);
    expect(of('a UPDATE').startSeconds).toBeGreaterThanOrEqual(makespanSeconds(step.timeline));
    const host = predicted(inHost(split));
    expect(host.names.some((name) => name.endsWith('UPDATE'))).toBe(false);
    const updates = ['a', 'b'].map((peer) => host.of(`${peer} UPDATE_HOST`));
    const { stepSeconds } = host.step.forecast;
    expect(Math.max(...updates.map(({ startSeconds }) => startSeconds))).toBeLessThan(stepSeconds);
    expect(Math.max(...updates.map(({ endSeconds }) => endSeconds))).toBeGreaterThan(stepSeconds);
  });

  test('a stage that gathers has its gathers within its passes', () => {
    expect(model.blocks.at(-1)).toMatchObject({ name: 'head', elements: 48 });
    const one: Plan = {
      ...split,
      stages: [
        {
          layers: [0, 4],
          members: [A, B].map((peer, id) => ({ peer, microBatches: [id], samples: 1, recompute: [] })),
          gathered: 1,
        },
      ],
    };
    const { step, of } = predicted(one);
    const pass = step.timeline.find(({ peer, action }) => peer === A && action.op === 'F');
    const gather = of('a 0GATHER_F0');
    expect(gather.startSeconds).toBe(pass?.startSeconds);
    expect(gather.endSeconds).toBeLessThanOrEqual(pass?.endSeconds ?? 0);
    // Each block of the other's half comes over a link of this latency, the embedding and the head among them.
    expect(lengthSeconds(gather)).toBeGreaterThanOrEqual(LATENCY * 4);
    // The head's gradient is made with its forward, and all of its 48 elements are the first one's.
    const sums = of('b 0REDUCE');
    const own = step.timeline.filter(({ peer }) => peer === B);
    const [forward, backward] = (['F', 'B'] as const).map((op) => own.find(({ action }) => action.op === op));
    expect((forward?.endSeconds ?? 0) - sums.startSeconds).toBeCloseTo(LATENCY + (48 * 4) / RATE, 9);
    expect(sums.endSeconds).toBe(backward?.endSeconds);
  });

  test('[PL64] a layered stage has one gather for all of a pass, and its first gradient once all were computed back', () => {
    const members = [A, B].map((peer, half) => {
      const microBatches = [2 * half, 2 * half + 1];
      return { peer, microBatches, samples: 2, recompute: [] };
    });
    const microBatches = [0, 1, 2, 3].map((id) => ({ id, samples: [id, id + 1] as const }));
    const one: Plan = { ...split, microBatches, stages: [{ layers: [0, 4], members, gathered: 1, layered: true }] };
    const { step, of, names } = predicted(one);
    expect(names.filter((name) => name.includes('GATHER_'))).toHaveLength(4);
    const forwards = step.timeline.filter(({ peer, action }) => peer === B && action.op === 'F');
    const backward = step.timeline.find(({ peer, action }) => peer === B && action.op === 'B');
    const gather = of('b 0GATHER_F2');
    expect(gather.startSeconds).toBe(forwards[0]?.startSeconds);
    // The embedding, four layers and the head.
    expect(lengthSeconds(gather)).toBeGreaterThanOrEqual(LATENCY * 5);
    // The head's gradient goes at the end of all forwards.
    expect((forwards[1]?.endSeconds ?? 0) - of('b 0REDUCE').startSeconds).toBeCloseTo(LATENCY + (48 * 4) / RATE, 9);
    expect(of('b 0REDUCE').startSeconds).toBeLessThan(backward?.startSeconds ?? 0);
  });

  test('a stage that gathers before others sends its first gradient once a layer was gathered and computed back', () => {
    const member = (peer: typeof A, microBatches: number[]) => ({
      ...{ peer, microBatches, samples: microBatches.length, recompute: [] },
    });
    const two: Plan = {
      ...split,
      stages: [
        { layers: [0, 2], members: [member(A, [0]), member(B, [1])], gathered: 1 },
        { layers: [2, 4], members: [member(A, [0, 1])] },
      ],
      state: model.blocks.map(({ name, elements }) => ({
        block: name,
        shards: [{ peer: A, range: [0, elements], replicas: [] }],
      })),
    };
    const { step, of, names } = predicted(two);
    const backward = step.timeline.find(({ peer, action }) => peer === B && action.op === 'B');
    const sums = of('b 0REDUCE');
    // A layer's 64 values come over the link, and it takes 2 s a sample.
    expect(sums.startSeconds - (backward?.startSeconds ?? 0)).toBeCloseTo(LATENCY + (64 * 4) / RATE + 2, 9);
    expect(sums.endSeconds).toBe(backward?.endSeconds);
    // Whose stage is whole sends its sums at its end, under that stage's name.
    expect(names.filter((name) => name.endsWith('REDUCE'))).toEqual(['a 0REDUCE', 'b 0REDUCE']);
  });
});
