import { describe, expect, test } from 'vitest';
import { at, peerId, totalOf } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { firstLayers, recomputing } from '../schedule/recompute.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { besideText } from '../timeline/beside.ts';
import { lengthSeconds, makespanSeconds } from '../timeline/timeline.ts';
import { clusterCosts } from './clusterCosts.ts';
import { equalSplit } from './equalSplit.ts';
import { forecast, predictedBeside, predictedStep } from './forecast.ts';

const [A, B] = [peerId('a'), peerId('b')];
const model = outlineModel(6, false);
const batch = { samples: 2, sequence: 4 };
/** Of one sample through one layer. */
const FORWARD = 1;
const problem = {
  model,
  batch,
  cluster: {
    peers: [A, B].map((id) => ({
      ...{ id, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [FORWARD], backwardSecondsPerLayer: [2 * FORWARD] },
    })),
    links: { default: {}, regions: [], pairs: [] },
  },
};
const costs = clusterCosts(problem);

test.each([
  [0, 0, 0],
  [1, 1, 0],
  [3, 1, 2],
])('of %i layers computed again R is predicted with %i, the backward with %i', (layers, ahead, within) => {
  const split = equalSplit(model, batch.samples, [A, B], { microBatches: 2 });
  const seconds = (plan: Plan, text: string): number => {
    const span = predictedStep(costs, plan).timeline.find(({ action }) => formatAction(action) === text);
    return span ? span.endSeconds - span.startSeconds : 0;
  };
  const again = split.stages.flatMap((stage) => firstLayers(stage.layers, layers));
  const plan = recomputing(split, again);
  expect(seconds(plan, '0R0')).toBeCloseTo(ahead * FORWARD, 9);
  expect(seconds(plan, '0B0') - seconds(split, '0B0')).toBeCloseTo(within * FORWARD, 9);
});

test('a step is predicted with the report on its way to the server, and the commit on its way back', () => {
  const plan = equalSplit(model, batch.samples, [A, B], { microBatches: 2 });
  const seconds = (a: number, b: number): number =>
    forecast(
      clusterCosts({
        ...problem,
        serverSeconds: new Map([
          [A, a],
          [B, b],
        ]),
      }),
      plan,
    ).stepSeconds;
  const here = forecast(costs, plan).stepSeconds;
  expect(seconds(0, 0)).toBe(here);
  expect(seconds(0.3, 0.3)).toBeCloseTo(here + 0.6, 9);
  // Each barrier waits for whoever is last.
  expect(seconds(1_000, 0)).toBeGreaterThanOrEqual(here + 1_000);
  expect(seconds(1_000, 1_000)).toBeCloseTo(here + 2_000, 6);
});

test('who keeps state and computes nothing is waited for: its slices after the work, its values after the update', () => {
  const split = equalSplit(model, batch.samples, [A], { microBatches: 1 });
  const elements = totalOf(model.blocks, (block) => block.elements);
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map(({ range }) => ({ peer: B, range, replicas: [] })),
  }));
  const [download, upload, latencySeconds] = [1e5, 4e4, 0.02];
  const step = (plan: Plan, caps: { uploadBytesPerSecond: number | null; downloadBytesPerSecond: number | null }) => {
    const measured = { forwardSecondsPerLayer: [FORWARD], backwardSecondsPerLayer: [2 * FORWARD] };
    const peers = [
      { id: A, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null, measured },
      { id: B, memoryBytes: 1e9, ...caps, measured },
    ];
    const links = { default: { latencySeconds }, regions: [], pairs: [] };
    return forecast(clusterCosts({ model, batch, cluster: { peers, links } }), plan).stepSeconds;
  };
  const open = { uploadBytesPerSecond: null, downloadBytesPerSecond: null };
  const alone = step(split, open);
  const [free, slow] = [open, { uploadBytesPerSecond: upload, downloadBytesPerSecond: download }].map((caps) =>
    step({ ...split, state }, caps),
  );
  expect(free).toBeCloseTo(alone + 2 * latencySeconds, 6);
  expect(slow).toBeCloseTo(alone + 2 * latencySeconds + (4 * elements) / download + (4 * elements) / upload, 6);
});

describe('what a predicted step has beside its work', () => {
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
    state: plan.state.map((one) => ({
      ...one,
      shards: one.shards.map((shard) => ({ ...shard, in: 'host' as const })),
    })),
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
});
