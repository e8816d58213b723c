import { expect, test } from 'vitest';
import { at, invariant, peerId } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { parseCluster } from './cluster.ts';
import { clusterCosts } from './clusterCosts.ts';
import { planCluster } from './clusterPlan.ts';
import { forecast, predictedTimeline, takingTurns } from './forecast.ts';

const model = acceptedModel({
  model: {
    ...{ model_type: 'gpt2', n_layer: 4, n_head: 1, n_embd: 8, n_positions: 8, vocab_size: 16 },
    tie_word_embeddings: false,
  },
});
const RUN = { model, batch: { samples: 8, sequence: 8 } };
/** An activation of a sample: 8 positions of 8 floats. */
const SAMPLE_BYTES = 256;

/** `homes` of so many; a layer and sample takes 1 s there and back; a sample takes a second over a home's line. */
function clusterOf(...homes: readonly number[]) {
  const list = homes.flatMap((count, home) =>
    Array.from({ length: count }, (_, index) => ({
      ...{ id: `${'abcd'[home]}${index}`, memoryBytes: 1e8, line: `home ${home}` },
      ...{ uploadBytesPerSecond: SAMPLE_BYTES },
      measured: { forwardSecondsPerLayer: [0.4], backwardSecondsPerLayer: [0.6] },
    })),
  );
  const found = parseCluster({ peers: list, links: { default: { latencySeconds: 0.01 } } }, 'c.json');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

/** Two lanes from the first home to the second, a sample each at a time. */
const LANES: Plan = {
  stages: [
    ['a0', 'a1'],
    ['b0', 'b1'],
  ].map((pair, stage) => ({
    layers: [2 * stage, 2 * stage + 2],
    members: pair.map((peer, lane) => ({
      ...{ peer: peerId(peer), microBatches: [0, 2, 4, 6].map((id) => id + lane), samples: 4, recompute: [] },
    })),
  })),
  microBatches: [0, 1, 2, 3, 4, 5, 6, 7].map((id) => ({ id, samples: [id, id + 1] })),
  state: model.blocks.map(({ name, elements }) => ({
    block: name,
    shards: [
      { peer: peerId(name === 'embedding' || name < 'layer.2' ? 'a0' : 'b0'), range: [0, elements], replicas: [] },
    ],
  })),
  schedule: '1f1b',
};

const starts = (cluster: ReturnType<typeof clusterOf>, plan: Plan) =>
  predictedTimeline(clusterCosts({ ...RUN, cluster }), plan).flatMap(({ action, startSeconds }) =>
    action.op === 'F' && action.stage === 1 ? [startSeconds] : [],
  );

test('[PL63] with turns the first lane’s sample is there after it alone, with equal parts after both', () => {
  const cluster = clusterOf(2, 2);
  const turning = { ...LANES, lines: [['a0', 'a1'].map(peerId)] };
  const [turns, parts] = [starts(cluster, turning), starts(cluster, LANES)];
  // Both have their first sample ready at the same time.
  const ready = at(parts, 0) - 2 - 0.01;
  expect(turns.slice(0, 2).map((start) => start - ready - 0.01)).toEqual([expect.closeTo(1), expect.closeTo(2)]);
  expect(parts.slice(0, 2)).toEqual([at(parts, 0), at(parts, 0)]);
});

test('[PL63] turns are in the plan where its step is shorter by them, and gone where they are of no use', () => {
  const costs = clusterCosts({ ...RUN, cluster: clusterOf(2, 2) });
  const chosen = takingTurns(costs, LANES);
  expect(chosen.lines).toEqual([['a0', 'a1'].map(peerId), ['b0', 'b1'].map(peerId)]);
  expect(forecast(costs, chosen).stepSeconds).toBeLessThan(forecast(costs, LANES).stepSeconds);
  const alone = clusterCosts({ ...RUN, cluster: clusterOf(1, 1) });
  const plan = { ...LANES, stages: LANES.stages.map((stage) => ({ ...stage, members: stage.members.slice(0, 1) })) };
  expect(takingTurns(alone, { ...plan, lines: [['a0', 'b0'].map(peerId)] }).lines).toBeUndefined();
});

test('of a plan those have parts who are in it: whoever else is behind the router takes nothing', () => {
  const [two, four] = [clusterOf(2, 2), clusterOf(4, 3)].map((cluster) => clusterCosts({ ...RUN, cluster }));
  invariant(two && four, 'costs');
  expect(forecast(four, LANES).stepSeconds).toBe(forecast(two, LANES).stepSeconds);
});

test('[PL63] a search says of its plan what a forecast of those in it alone says', () => {
  const cluster = clusterOf(3, 2, 1);
  const found = planCluster({ ...RUN, cluster }, ({ work }) => work < 2_000);
  invariant(found.ok, found.ok ? '' : found.reason);
  const { plan, predicted } = found.value;
  expect(problems(model, RUN.batch, plan)).toEqual([]);
  const members = new Set<string>(peers(plan));
  const own = { ...cluster, peers: cluster.peers.filter(({ id }) => members.has(id)) };
  expect(forecast(clusterCosts({ ...RUN, cluster: own }), plan).stepSeconds).toBeCloseTo(predicted.stepSeconds, 9);
});

test.each([
  [{ lines: [['a0', 'x']] }, 'line 0 of the plan names x, who is not in the plan'],
  [
    {
      lines: [
        ['a0', 'a1'],
        ['a1', 'b0'],
      ],
    },
    'line 1 of the plan names a1, who is on a line already',
  ],
  [
    { lines: [['a0', 'a1']], schedule: 'eager' },
    'lines go with an order that is known before the step, not with eager',
  ],
])('[PL63] %j: %s', (more, text) => {
  const plan = { ...LANES, ...more } as unknown as Plan;
  expect(problems(model, RUN.batch, plan)).toEqual([{ rule: 'PL63', text }]);
});
