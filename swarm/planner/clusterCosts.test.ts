import { describe, expect, test } from 'vitest';
import { arrayOf, at, invariant, peerId } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { parseCluster } from './cluster.ts';
import { clusterCosts } from './clusterCosts.ts';
import { planCluster } from './clusterPlan.ts';
import { forecast, predictedStep, takingTurns } from './forecast.ts';

const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];
/** Of a sample through a layer. */
const [FORWARD, BACKWARD] = [1, 2];
const UPLOAD = 1_000;
const SEQUENCE = 4;

function costsOf(vocabulary: number, width: number, upload = UPLOAD, linkRate: number | null = null) {
  const config = { model_type: 'gpt2', n_layer: 3, n_head: 1, n_embd: width, n_positions: 8, vocab_size: vocabulary };
  const model = modelFromConfig(config);
  if (!model.ok) throw new Error(model.reason);
  return clusterCosts({
    model: model.value,
    batch: { samples: 2, sequence: SEQUENCE },
    cluster: {
      peers: [A, B, C].map((id) => ({
        ...{ id, memoryBytes: 1e9, uploadBytesPerSecond: id === A ? upload : null, downloadBytesPerSecond: null },
        measured: { forwardSecondsPerLayer: [FORWARD], backwardSecondsPerLayer: [BACKWARD] },
      })),
      links: { default: {}, regions: [], pairs: [{ between: [A, C], bytesPerSecond: linkRate }] },
    },
  });
}

test('the embedding and the head take as many layers as their FLOPs say, the head there and back in the forward', () => {
  const [C_, V] = [16, 100];
  // Of a token, multiply-adds twice: 12 C² weights and, of T rows, half of the scores and of the sums; C·V weights and 5 V
  // of the softmax; the two tables.
  const layer = 24 * C_ ** 2 + 2 * (SEQUENCE + 1) * C_;
  const [head, embedding] = [(2 * C_ * V + 5 * V) / layer, (2 * C_) / layer];
  const costs = costsOf(V, C_);
  const peer = at(costs.peers, 1);
  const shape = { first: false, last: false, layers: 1 };
  const forward = (part: Partial<typeof shape>) => costs.forwardSeconds(peer, { ...shape, ...part }, 2);
  const backward = (part: Partial<typeof shape>) => costs.backwardSeconds(peer, { ...shape, ...part }, 2);
  expect(forward({ first: true }) - forward({})).toBeCloseTo(2 * FORWARD * embedding, 9);
  expect(backward({ first: true }) - backward({})).toBeCloseTo(2 * BACKWARD * embedding, 9);
  expect(forward({ last: true }) - forward({})).toBeCloseTo(2 * (FORWARD + BACKWARD) * head, 9);
  expect(backward({ last: true })).toBe(backward({}));
});

test('an upload is one line, and shared out where a link is slower; the exchange of state has it for one link at a time', () => {
  const costs = costsOf(100, 16);
  const { model } = costs;
  const member = (peer: typeof A, microBatches: number[]) => ({
    ...{ peer, microBatches, samples: microBatches.length, recompute: [] },
  });
  const planWith = (...lanes: ReturnType<typeof member>[]): Plan => ({
    schedule: 'gpipe',
    microBatches: [
      { id: 0, samples: [0, 1] },
      { id: 1, samples: [1, 2] },
    ],
    stages: [
      { layers: [0, 2], members: [member(A, [0, 1])] },
      { layers: [2, 3], members: lanes },
    ],
    state: model.blocks.map(({ name, elements }) => ({
      block: name,
      shards: [{ peer: A, replicas: [], range: [0, elements] }],
    })),
  });
  /** From the end of the first stage's work on the first micro-batch to the beginning of the second stage's on this one. */
  const handOver = (plan: Plan, id = 0, by = costs): number => {
    const spans = new Map(predictedStep(by, plan).timeline.map((span) => [formatAction(span.action), span]));
    return (spans.get(`1F${id}`)?.startSeconds ?? 0) - (spans.get('0F0')?.endSeconds ?? 0);
  };
  const bytes = 4 * SEQUENCE * model.width;
  const [one, two] = [planWith(member(B, [0, 1])), planWith(member(B, [0]), member(C, [1]))];
  expect(handOver(one)).toBeCloseTo(bytes / UPLOAD, 9);
  expect(handOver(two)).toBeCloseTo(bytes / UPLOAD, 9);
  // A message that takes longer than the next one's forward: that one goes after it, to whomever.
  const slow = bytes / 10;
  expect(handOver(two, 0, costsOf(100, 16, slow))).toBeCloseTo(10, 9);
  expect(handOver(two, 1, costsOf(100, 16, slow))).toBeCloseTo(20, 9);
  // Over a slower link beside it each has its half at once.
  const apart = costsOf(100, 16, slow, 0.9 * slow);
  const forward = costs.forwardSeconds(at(costs.peers, 0), { first: true, last: false, layers: 2 }, 1);
  expect(handOver(two, 0, apart)).toBeCloseTo(20, 9);
  expect(handOver(two, 1, apart)).toBeCloseTo(20 + forward, 9);
  // A layer, the last norm and the tied table go to one more.
  const values = 12 * 16 ** 2 + 13 * 16 + 2 * 16 + 100 * 16;
  const stateSeconds = (plan: Plan): number => forecast(costs, plan).stateSeconds;
  expect(stateSeconds(two) - stateSeconds(one)).toBeCloseTo((4 * values) / UPLOAD, 9);
});

describe('lines that several peers share', () => {
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
      arrayOf(count, (index) => ({
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
    predictedStep(clusterCosts({ ...RUN, cluster }), plan).timeline.flatMap(({ action, startSeconds }) =>
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
});
