import { describe, expect, test } from 'vitest';
import { at, invariant, type PeerId, peerId, seededRandom, total, totalOf } from '../base.ts';
import { predictedBytes } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import type { Plan } from '../plan/plan.ts';
import { wireBetween } from '../plan/planLink.ts';
import { stepTraffic } from '../ways/stepTraffic.ts';
import { packedBytes, WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';
import { parseCluster } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { equalSplit } from './equalSplit.ts';
import { fittingSplit } from './fit.ts';
import { forecast } from './forecast.ts';
import { streamLinks, withTightestWires, withWires } from './streamWires.ts';

const config = { model_type: 'gpt2', n_layer: 6, n_head: 2, n_embd: 32, n_positions: 64, vocab_size: 50 };
const parsed = modelFromConfig({ ...config, tie_word_embeddings: false });
invariant(parsed.ok, 'a model');
const model = parsed.value;
const batch = { samples: 8, sequence: 64, wire: 'auto' } as const;
const [A, B, C] = ['a', 'b', 'c'].map(peerId) as [PeerId, PeerId, PeerId];

/** Three who are slow, so that all are used; `rates` of the links a–b, a–c, b–c. */
function problemOf(rates: readonly number[], memoryBytes = 4e9): ClusterProblem {
  const pairs = [
    [A, B],
    [A, C],
    [B, C],
  ].map((between, index) => ({ between, latencySeconds: 0, bytesPerSecond: at(rates, index) }));
  const peers = [A, B, C].map((id) => ({ id, memoryBytes, flopsPerSecond: 1e7 }));
  const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0 }, pairs } }, 'cluster.json');
  invariant(cluster.ok, cluster.ok ? '' : cluster.reason);
  return { model, batch, cluster: cluster.value };
}

function planned(problem: ClusterProblem): ClusterPlan {
  const found = planCluster(problem, ({ work }) => work < 600);
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

const wiresOf = ({ plan }: ClusterPlan): (WireEncoding | undefined)[] =>
  streamLinks(plan).map(({ from, to }) => plan.links?.find((link) => link.from === from && link.to === to)?.wire);

describe('wire "auto"', () => {
  test('is float32 everywhere where links are fast, and said', () => {
    const found = planned({ ...problemOf([1e12, 1e12, 1e12], 1.2e6), without: 'gathering' });
    expect(streamLinks(found.plan).length).toBeGreaterThan(0);
    expect(new Set(wiresOf(found))).toEqual(new Set(['f32']));
  });

  test('a step is at most 2 % longer than with int4 everywhere, and with any link more exact it would be', () => {
    let mixed = 0;
    for (let seed = 1; seed <= 6; seed++) {
      const random = seededRandom(seed);
      const problem = problemOf([0, 1, 2].map(() => 2e3 * 10 ** (3 * random())));
      const found = planned(problem);
      const costs = clusterCosts(problem);
      const seconds = (plan: Plan): number => forecast(costs, plan).stepSeconds;
      const limit = 1.02 * seconds(withTightestWires(found.plan));
      expect(found.predicted.stepSeconds).toBeLessThanOrEqual(limit);
      expect(seconds(found.plan)).toBe(found.predicted.stepSeconds);
      const wires = wiresOf(found);
      if (new Set(wires).size > 1) mixed++;
      const between = wireBetween(found.plan, 'auto');
      // All links that have one encoding, and the next more exact one in its place.
      for (const [index, wire] of WIRE_ENCODINGS.entries()) {
        if (index === 0 || !wires.includes(wire)) continue;
        const better = withWires(found.plan, ({ from, to }) =>
          between(from, to) === wire ? at(WIRE_ENCODINGS, index - 1) : between(from, to),
        );
        expect(seconds(better), `seed ${seed}, ${wire}`).toBeGreaterThan(limit);
      }
    }
    expect(mixed).toBeGreaterThan(0);
  });

  test('[PL25] memory and bytes are those of each link’s own encoding', () => {
    const problem = problemOf([2e4, 2e5, 2e6]);
    const { plan, predicted } = planned(problem);
    const { sequence } = batch;
    for (const { peer, memoryBytes } of predicted.peers)
      expect(memoryBytes).toBe(predictedBytes(model, plan, peer, sequence, 'auto'));
    const sent = totalOf(predicted.peers, ({ sentBytes }) => sentBytes);
    const traffic = stepTraffic(model, plan, { sequence, wire: 'auto' });
    expect(sent).toBe(total(Object.values(traffic)));
    const between = wireBetween(plan, 'auto');
    const stream = streamLinks(plan).map(
      ({ from, to, samples }) => samples * packedBytes(between(from, to), sequence * model.width),
    );
    expect(traffic.activation + traffic.gradient).toBe(total(stream));
  });
});

describe('without a search, by the caps of the lines alone', () => {
  const bytes = (wire: WireEncoding): number => packedBytes(wire, batch.sequence * model.width);
  /** Of the two links of a pipeline of two, by the first one's upload. */
  const written = (upload: number | null): readonly unknown[] | undefined => {
    const lines = new Map([[A, { upload, download: null }]]);
    const found = fittingSplit({ ...{ model, batch, lines }, peers: [A, B], caps: new Map(), options: {} });
    invariant(found.ok, 'a split');
    return found.value.links;
  };

  test.each(WIRE_ENCODINGS.map((wire, index) => [wire, index] as const))(
    '%s where a step’s stream takes a second with it',
    (wire) => {
      const link = { from: A, to: B, wire, streams: 1 };
      const home = { from: B, to: A, wire: 'f32', streams: 1 };
      expect(written(batch.samples * bytes(wire))).toEqual([link, home]);
      // A byte a second less, and the next one is taken; the last one always will do.
      const next = WIRE_ENCODINGS[WIRE_ENCODINGS.indexOf(wire) + 1] ?? wire;
      expect(written(batch.samples * bytes(wire) - 1)).toEqual([{ ...link, wire: next }, home]);
    },
  );

  test('none given: float32', () => {
    expect(written(null)?.map((link) => (link as { wire: string }).wire)).toEqual(['f32', 'f32']);
    const split = equalSplit(model, batch.samples, [A, B]);
    const plain = fittingSplit({
      model,
      batch: { ...batch, wire: 'int8' },
      peers: [A, B],
      caps: new Map(),
      options: {},
    });
    expect(plain).toEqual({ ok: true, value: split });
  });
});
