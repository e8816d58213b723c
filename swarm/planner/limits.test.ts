import { describe, expect, it } from 'vitest';
import { arrayOf, at, invariant, peerId, seededRandom } from '../base.ts';
import { SCHEDULE_NAMES } from '../plan/plan.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from '../testing/smallClusters.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import { clusterCosts } from './clusterCosts.ts';
import { equalSplit } from './equalSplit.ts';
import { forecast } from './forecast.ts';
import { stepLimits } from './limits.ts';

const FAST = { default: { latencySeconds: 0, bytesPerSecond: 1e12 } };

function problemOf(peers: readonly object[], links: object = FAST) {
  const all = peers.map((peer, index) => ({ id: `p${index}`, memoryBytes: 1e9, flopsPerSecond: 1e9, ...peer }));
  const cluster = parseCluster({ peers: all, links }, 'the cluster');
  invariant(cluster.ok, cluster.ok ? '' : cluster.reason);
  return { model: SMALL_MODEL, batch: SMALL_BATCH, cluster: cluster.value };
}

type Split = NonNullable<Parameters<typeof equalSplit>[3]>;
const planOf = ({ cluster }: { cluster: Cluster }, split: Split) =>
  equalSplit(
    SMALL_MODEL,
    SMALL_BATCH.samples,
    cluster.peers.map(({ id }) => peerId(id)),
    split,
  );

describe('what holds a step up', () => {
  it.each<[string, readonly object[], object, Split, object]>([
    ['a slow donor', [{}, {}, { flopsPerSecond: 1e8 }, {}], FAST, { stages: 4 }, { kind: 'compute', peers: ['p2'] }],
    [
      ...(['a slow line', [{}, {}, {}, {}]] as const),
      { ...FAST, pairs: [{ between: ['p1', 'p2'], latencySeconds: 0.5, bytesPerSecond: 1e4 }] },
      { stages: 4 },
      { kind: 'line', peers: ['p1', 'p2'] },
    ],
    ['one micro-batch', [{}, {}, {}, {}], FAST, { stages: 4, microBatches: 1 }, { kind: 'parts', peers: [] }],
    [
      ...(['lanes that exchange all weights', [{}, {}]] as const),
      { default: { latencySeconds: 0, bytesPerSecond: 1e5 } },
      { stages: 1 },
      { kind: 'exchange', peers: [] },
    ],
  ])('%s', (_, peers, links, split, expected) => {
    const problem = problemOf(peers, links);
    const [first] = stepLimits(problem, planOf(problem, split));
    expect(first).toMatchObject(expected);
    expect(first?.gain).toBeGreaterThan(0.2);
  });

  it('one donor alone, and equal ones with nothing between them, gain what arithmetic says', () => {
    const alone = problemOf([{}]);
    const [first] = stepLimits(alone, planOf(alone, { stages: 1 }));
    expect(first).toMatchObject({ kind: 'compute', peers: ['p0'] });
    expect(first?.gain).toBeCloseTo(0.5, 3);
    // 1F1B of equal stages: (m + p − 1) parts of a step, 8 and 4, then 16 and 4 of half the size.
    const pipe = problemOf(arrayOf(4, () => ({})));
    const limits = stepLimits(pipe, planOf(pipe, { stages: 4, microBatches: 4, schedule: 'gpipe' }));
    const stateShare = 2 * (limits.find(({ kind }) => kind === 'exchange')?.gain ?? 0);
    const parts = limits.find(({ kind }) => kind === 'parts')?.gain ?? 0;
    // The head and the token table are not spread evenly: near, not equal.
    expect(Math.abs(parts - (1 - stateShare) * (1 - 11 / 2 / 7))).toBeLessThan(0.1);
  });

  it.each(SCHEDULE_NAMES)('of %s too', (schedule) => {
    const problem = problemOf(arrayOf(schedule === 'chimera' ? 4 : 2, () => ({})));
    const stages = schedule === 'gpipe' || schedule === '1f1b' || schedule === 'eager' || schedule === 'varuna' ? 2 : 4;
    expect(stepLimits(problem, planOf(problem, { stages, schedule, microBatches: 4 })).length).toBeGreaterThan(1);
  });

  it('says of 200 random clusters what their own what-if says', () => {
    const random = seededRandom(46);
    const named = new Map<string, number>();
    for (let place = 0; place < 200; place++) {
      const cluster = smallCluster(random, 2 + (place % 4));
      const problem = { model: SMALL_MODEL, batch: SMALL_BATCH, cluster };
      const plan = planOf(problem, {
        stages: 1 + Math.floor(random() * Math.min(4, cluster.peers.length)),
        microBatches: at([4, 8], place % 2),
      });
      const limits = stepLimits(problem, plan);
      const [first] = limits;
      invariant(first, 'something holds it up');
      named.set(first.kind, (named.get(first.kind) ?? 0) + 1);
      const before = forecast(clusterCosts(problem), plan).stepSeconds;
      for (const { id } of cluster.peers) {
        const peers = cluster.peers.map((peer) =>
          peer.id === id ? { ...peer, flopsPerSecond: 2 * (peer.flopsPerSecond ?? 0) } : peer,
        );
        const after = forecast(clusterCosts({ ...problem, cluster: { ...cluster, peers } }), plan).stepSeconds;
        expect(1 - after / before).toBeLessThanOrEqual(first.gain + 1e-12);
      }
    }
    expect(named.size).toBeGreaterThanOrEqual(3);
  });
});
