import { describe, expect, test } from 'vitest';
import { arrayOf, at, invariant, seededRandom, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { chainsOf, type GroupsAsked, Scale } from './chains.ts';
import { parseCluster } from './cluster.ts';
import { clusterCosts } from './clusterCosts.ts';
import { judgeDraft } from './draft.ts';

const made = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 4, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256 },
  tie_word_embeddings: false,
});
invariant(made.ok, 'a model');
const MODEL = made.value;
const LAYER = at(MODEL.blocks, 1).elements;
const ROUND_SECONDS = 1;

/** Nobody has room for the model alone, anyone for two layers. */
function askedOf(seed: number, count: number, slowest: object = {}): GroupsAsked {
  const random = seededRandom(seed);
  const peers = arrayOf(count, (i) => ({
    ...{ id: `p${i}`, memoryBytes: LAYER * (60 + 20 * random()) + 2.5e6, flopsPerSecond: 2e9 * 4 ** random() },
    ...{ uploadBytesPerSecond: 2e6 * 3 ** random(), downloadBytesPerSecond: 1e7 },
    ...(i === 0 ? slowest : {}),
  }));
  const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.002 } } }, 'it');
  invariant(cluster.ok, 'a cluster');
  const batch = { samples: 8, sequence: 64 };
  const costs = clusterCosts({ model: MODEL, batch, cluster: cluster.value, planeBytes: 8 });
  const meets = { sent: 0.06, received: 1, waitedSeconds: ROUND_SECONDS / 12, groupSeconds: 0 };
  return { costs, roundSeconds: ROUND_SECONDS, meets, caution: 0, overlaps: true };
}

/** Donors have no room alone. */
const nobody = () => Infinity;

/** Whole steps of a pipeline in a round. */
function stepsOf(asked: GroupsAsked, places: readonly number[]): number {
  const scale = new Scale(asked, nobody);
  const [layers, ownSeconds] = [scale.layers(places), scale.ownSeconds(places)];
  if (ownSeconds === null) return 0;
  const sketch = { groups: places.map((place) => [place]), layers, microBatches: asked.costs.batch.samples };
  const found = judgeDraft(asked.costs, { ...sketch, schedule: '1f1b', warmup: 'overlap' });
  return found === null || found.missingBytes > 0 ? 0 : Math.floor(ownSeconds / found.seconds);
}

/** The most steps of all ways to put these into pipelines, each in every order. */
function mostSteps(asked: GroupsAsked, items: readonly number[]): number {
  const known = new Map<string, number>();
  const best = (left: readonly number[]): number => {
    const [first, ...rest] = left;
    if (first === undefined) return 0;
    const found = known.get(left.join());
    if (found !== undefined) return found;
    let most = best(rest);
    for (let set = 0; set < 2 ** rest.length; set++) {
      const others = rest.filter((_, i) => (set >> i) & 1);
      const steps = Math.max(...orders([first, ...others]).map((places) => stepsOf(asked, places)));
      most = Math.max(most, steps + best(rest.filter((place) => !others.includes(place))));
    }
    known.set(left.join(), most);
    return most;
  };
  return best(items);
}

const orders = (items: readonly number[]): number[][] =>
  items.length === 0
    ? [[]]
    : items.flatMap((one) => orders(items.filter((other) => other !== one)).map((rest) => [one, ...rest]));

describe('pipelines by what they really take', () => {
  test.each([1, 2, 3, 4])('end as many whole steps as the best of all there are: cluster %d', (seed) => {
    const asked = askedOf(seed, 5);
    const best = mostSteps(asked, [0, 1, 2, 3, 4]);
    const chains = chainsOf(asked, nobody);
    const found = totalOf(chains, ({ places }) => stepsOf(asked, places));
    expect(best).toBeGreaterThan(5);
    expect(found).toBe(best);
    const members = chains.flatMap(({ places }) => places);
    expect(new Set(members).size).toBe(members.length);
  });

  test.each([1, 2, 3])('the walk along a pipeline is what its draft is judged by: cluster %d', (seed) => {
    const asked = { ...askedOf(seed, 6), roundSeconds: 1000 };
    const scale = new Scale(asked, nobody);
    const { samples, sequence } = asked.costs.batch;
    let compared = 0;
    for (const places of orders([0, 1, 2]).concat(orders([3, 4, 5]), orders([1, 4]), orders([0, 1, 3, 5]))) {
      const layers = scale.layers(places);
      if (layers.length === 0) continue;
      const groups = places.map((place) => [place]);
      const found = judgeDraft(asked.costs, {
        groups,
        layers,
        microBatches: samples,
        schedule: '1f1b',
        warmup: 'overlap',
      });
      const steps = (scale.ownSeconds(places) ?? 0) / (found?.seconds ?? Number.NaN);
      // What is left of a last step counts by its third power.
      const whole = Math.floor(steps) + (steps % 1) ** 3;
      expect(scale.worth(places)).toBeCloseTo((whole * samples * sequence) / asked.roundSeconds, 6);
      compared++;
    }
    expect(compared).toBeGreaterThan(20);
  });

  test('no stage takes longer to send than is waited for, and who receives late has less of a round', () => {
    const { meets, ...rest } = askedOf(1, 4);
    const whole = new Scale({ ...rest, meets }, nobody);
    const [before = 0, after = 0] = whole.layers([0, 1]);
    // The embedding's table and positions; the last norm and the head's table.
    const most = Math.max(before * LAYER + 256 * 64 + 64 * 64, after * LAYER + 2 * 64 + 256 * 64);
    // Lines of 2 to 6 MB a second.
    const none = new Scale({ ...rest, meets: { ...meets, waitedSeconds: (0.06 * LAYER) / 6e6 } }, nobody);
    expect(whole.ownSeconds([0, 1])).not.toBeNull();
    expect(none.ownSeconds([0, 1])).toBeNull();
    const late = new Scale({ ...rest, meets: { ...meets, received: 20 } }, nobody).ownSeconds([0, 1]);
    expect(late).toBeCloseTo(ROUND_SECONDS - ((20 * most) / 1e7 - ROUND_SECONDS / 12), 9);
  });
});
