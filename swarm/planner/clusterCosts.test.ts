import { expect, test } from 'vitest';
import { at, peerId } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { clusterCosts } from './clusterCosts.ts';
import { forecast, predictedTimeline } from './forecast.ts';

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
    const spans = new Map(predictedTimeline(by, plan).map((span) => [formatAction(span.action), span]));
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
