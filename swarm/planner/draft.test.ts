import { describe, expect, it } from 'vitest';
import { at, below, evenRanges, invariant, seededRandom } from '../base.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from '../testing/smallClusters.ts';
import { steadyCase } from '../testing/steadyClusters.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { judgeDraft, memoryOf, planOf } from './draft.ts';
import { forecast } from './forecast.ts';
import type { Draft, Sketch } from './layout.ts';

/** Peers in any order, in up to five stages of up to three. */
function randomSketch({ model, batch, cluster: { peers } }: ClusterProblem, seed: number): Sketch {
  const random = seededRandom(seed);
  const order = peers.map((_, place) => ({ place, key: random() })).sort((a, b) => a.key - b.key);
  const groups: number[][] = [];
  const most = 1 + below(random, Math.min(5, model.layers));
  for (let from = 0; groups.length < most && from < order.length; from += at(groups, groups.length - 1).length)
    groups.push(order.slice(from, from + 1 + below(random, 3)).map(({ place }) => place));
  return {
    groups,
    layers: evenRanges(model.layers, groups.length).map(([from, to]) => to - from),
    microBatches: 1 + below(random, Math.min(48, batch.samples)),
    schedule: random() < 0.5 ? 'gpipe' : '1f1b',
    placement: at(['room', 'links', 'hub'] as const, below(random, 3)),
    ...(random() < 0.3 ? ({ schedule: '1f1b', warmup: 'overlap' } as const) : {}),
  };
}

describe('a draft is judged', () => {
  it.each([
    ['unequal peers', 1],
    ['peers that give a share of their time', 0.6],
  ])('as the simulator judges its plan: %s', (_, share) => {
    let seen = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const { problem } = steadyCase(seed, 16);
      const peers = problem.cluster.peers.map((peer) => ({ ...peer, memoryBytes: 1e10 }));
      const shares = new Map(peers.map(({ id }) => [id, share] as const));
      const costs = clusterCosts({ ...problem, shares, cluster: { ...problem.cluster, peers } });
      const found = judgeDraft(costs, randomSketch(problem, seed));
      if (found === null) continue;
      const drafted = planOf(costs, found.draft);
      invariant(drafted, 'a plan');
      const { stepSeconds } = forecast(costs, drafted.plan);
      // Whoever rests is simulated for some steps, one after the other.
      if (share === 1) expect(found.seconds / stepSeconds, `seed ${seed}`).toBeCloseTo(1, 3);
      else expect(Math.abs(found.seconds / stepSeconds - 1), `seed ${seed}`).toBeLessThan(0.15);
      seen++;
    }
    expect(seen).toBeGreaterThan(30);
  });

  it('what it says fits allocates no more than its peers have', () => {
    const seen = { fits: 0, lacks: 0 };
    for (let seed = 1; seed <= 150; seed++) {
      const problem = { model: SMALL_MODEL, batch: SMALL_BATCH, cluster: smallCluster(seededRandom(seed), 5) };
      const costs = clusterCosts(problem);
      const found = judgeDraft(costs, randomSketch(problem, seed));
      if (found === null) continue;
      if (found.missingBytes > 0) {
        seen.lacks++;
        continue;
      }
      seen.fits++;
      const drafted = planOf(costs, found.draft);
      const memory = memoryOf(costs, drafted?.plan ?? { stages: [], microBatches: [], state: [], schedule: 'gpipe' });
      for (const { id, memoryBytes } of costs.peers) expect(memory.get(id) ?? 0).toBeLessThanOrEqual(memoryBytes);
    }
    expect(seen.fits).toBeGreaterThan(20);
    expect(seen.lacks).toBeGreaterThan(20);
  });

  it.each([
    [[[0], [1], [2]], 0.01],
    // Unequal lanes take whole micro-batches: the fewer are looked at the less even.
    [[[0], [1, 2], [3]], 0.12],
  ])('a long step as a short one that goes on: 4,096 micro-batches through stages %j', (groups, tolerance) => {
    const { problem } = steadyCase(6, 8);
    const peers = problem.cluster.peers.map((peer) => ({ ...peer, memoryBytes: 1e10 }));
    const costs = clusterCosts({
      ...problem,
      batch: { ...problem.batch, samples: 4096 },
      cluster: { ...problem.cluster, peers },
    });
    const found = judgeDraft(costs, { groups, microBatches: 4096, schedule: '1f1b' });
    const drafted = found && planOf(costs, found.draft);
    invariant(drafted, 'a plan');
    expect(Math.abs(found.seconds / forecast(costs, drafted.plan).stepSeconds - 1)).toBeLessThan(tolerance);
  });

  it.each([
    ['looked at whole', 1, 1e-6],
    // Its steady state is extrapolated from a part, in which unequal lanes are less even.
    ['looked at in part', 32, 0.01],
  ])('no limit hides a draft that takes no longer: a step %s', (_, times, tolerance) => {
    let seen = 0;
    for (let seed = 1; seed <= 100; seed++) {
      const { problem } = steadyCase(seed, 16);
      const samples = times * problem.batch.samples;
      const peers = problem.cluster.peers.map((peer) => ({ ...peer, memoryBytes: 10 * peer.memoryBytes }));
      const costs = clusterCosts({
        ...problem,
        batch: { ...problem.batch, samples },
        cluster: { ...problem.cluster, peers },
      });
      const sketch = randomSketch(problem, seed);
      const whole = times === 1 ? sketch : { ...sketch, microBatches: samples, schedule: '1f1b' as const };
      const used = new Set(whole.groups.flat());
      const keepers = [...costs.peers.keys()].filter((place) => !used.has(place)).slice(0, seed % 3);
      const found = judgeDraft(costs, { ...whole, keepers });
      if (found === null || found.missingBytes > 0) continue;
      const again = judgeDraft(costs, { ...whole, keepers }, { limit: found.seconds * (1 + tolerance) });
      expect(again?.seconds, `seed ${seed}`).toBe(found.seconds);
      seen++;
    }
    expect(seen).toBeGreaterThan(30);
  });

  it('with its layers cut so that the slowest stage is as fast as can be, of all cuts', () => {
    for (let seed = 1; seed <= 30; seed++) {
      const cluster = smallCluster(seededRandom(seed), 3);
      const costs = clusterCosts({
        model: SMALL_MODEL,
        batch: SMALL_BATCH,
        cluster: { ...cluster, peers: cluster.peers.map((peer) => ({ ...peer, memoryBytes: 1e10 })) },
      });
      const groups = [[0], [1], [2]];
      const slowest = (layers: Draft['layers']): number =>
        Math.max(
          ...layers.map((own, stage) => {
            const shape = { first: stage === 0, last: stage === 2, layers: own };
            const peer = at(costs.peers, stage);
            return costs.forwardSeconds(peer, shape, 1) + costs.backwardSeconds(peer, shape, 1);
          }),
        );
      const cut = judgeDraft(costs, { groups, microBatches: SMALL_BATCH.samples, schedule: '1f1b' })?.draft.layers;
      const all = [
        [2, 1, 1],
        [1, 2, 1],
        [1, 1, 2],
      ];
      invariant(cut, 'a cut');
      expect(slowest(cut)).toBeCloseTo(Math.min(...all.map(slowest)), 9);
    }
  });

  it('a stage that lacks memory has fewer layers, where the others can have them', () => {
    const cluster = smallCluster(seededRandom(3), 2);
    const judged = (memoryBytes: number) => {
      const peers = cluster.peers.map((peer, index) => ({
        ...peer,
        flopsPerSecond: index === 0 ? 1e9 : 1e8,
        memoryBytes: index === 0 ? memoryBytes : 1e10,
      }));
      const costs = clusterCosts({ model: SMALL_MODEL, batch: SMALL_BATCH, cluster: { ...cluster, peers } });
      return judgeDraft(costs, { groups: [[0], [1]], microBatches: 8, schedule: '1f1b' });
    };
    const [roomy, tight] = [judged(1e10), judged(3e6)];
    expect(roomy?.draft.layers).toEqual([3, 1]);
    expect(tight?.missingBytes).toBe(0);
    expect(at(tight?.draft.layers ?? [], 0)).toBeLessThan(3);
  });
});
