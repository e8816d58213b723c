import { describe, expect, it } from 'vitest';
import { arrayOf, invariant, peerId, type Result, seededRandom, total, totalOf } from '../base.ts';
import { predictedBytes } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import { planSchema, problems } from '../plan/plan.ts';
import { streamsOf } from '../plan/planLink.ts';
import type { Compute } from '../precision.ts';
import { leastStepSeconds } from '../testing/exhaustive.ts';
import { equalStepSeconds, SMALL_BATCH, SMALL_MODEL, smallCluster } from '../testing/smallClusters.ts';
import { steadyCase } from '../testing/steadyClusters.ts';
import { planPartners } from '../ways/partners.ts';
import { packedBytes } from '../wire.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, comparedPlans, planCluster } from './clusterPlan.ts';
import { memoryOf, planOf } from './draft.ts';
import { equalSplit } from './equalSplit.ts';
import { forecast } from './forecast.ts';
import { reasonText } from './reason.ts';

const [model, batch] = [SMALL_MODEL, SMALL_BATCH];
/** `npm test -- --long`: twice as many clusters of each kind, and hundreds that are compared. */
const IS_LONG = process.env.SHOAL_LONG === '1';

function clusterOf(json: unknown): Cluster {
  const found = parseCluster(json, 'c.json');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

const problemOf = (cluster: Cluster): ClusterProblem => ({ model, batch, cluster });
const quick = (cluster: Cluster, work = 2_500): ClusterPlan => {
  const found = planCluster(problemOf(cluster), (progress) => progress.work < work);
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
};
const step = (plan: ClusterPlan): number => plan.predicted.stepSeconds;

describe('a plan for a cluster', () => {
  it('is a valid plan within the memory of its peers, allocated as predicted', () => {
    for (let seed = 1; seed <= (IS_LONG ? 8 : 5); seed++) {
      const cluster = smallCluster(seededRandom(seed), 2 + (seed % 5));
      const { plan, predicted, idle } = quick(cluster, 1_000);
      expect(problems(model, batch, plan), `seed ${seed}`).toEqual([]);
      expect(planSchema.parse(JSON.parse(JSON.stringify(plan)))).toEqual(plan);
      for (const { peer, memoryBytes, memoryLimitBytes, busySeconds } of predicted.peers) {
        expect(memoryBytes).toBe(predictedBytes(model, plan, peer, batch.sequence));
        expect(memoryBytes).toBeLessThanOrEqual(memoryLimitBytes);
        expect(busySeconds).toBeLessThanOrEqual(predicted.stepSeconds * (1 + 1e-9));
      }
      expect([...predicted.peers, ...idle].map(({ peer }) => peer).sort()).toEqual(cluster.peers.map(({ id }) => id));
      for (const { reason } of idle) expect(reason).not.toBe('');
    }
  });

  it('plans the overlapping warm-up where what is in flight has room: nothing is faster', () => {
    // A transfer takes about as long as the work of a stage.
    const withRoom = (memoryBytes: number): [ClusterPlan, Cluster] => {
      const cluster = clusterOf({
        peers: ['a', 'b'].map((id) => ({ id, memoryBytes, flopsPerSecond: 1e8 })),
        links: { default: { latencySeconds: 0.05, bytesPerSecond: 3e5 } },
      });
      return [quick(cluster), cluster];
    };
    const [[wide, roomy], [narrow, tight]] = [withRoom(4e6), withRoom(3.52e6)];
    expect(wide.plan).toMatchObject({ schedule: '1f1b', warmup: 'overlap' });
    expect(step(narrow) / step(wide)).toBeGreaterThan(1.04);
    expect(step(wide)).toBeCloseTo(leastStepSeconds(clusterCosts(problemOf(roomy)), step(wide)), 9);
    // Where no draft has room for it, it is tried on the best one's stages.
    const least = leastStepSeconds(clusterCosts(problemOf(tight)), 2 * step(narrow));
    expect(step(narrow)).toBeLessThan(0.95 * least);
  });

  it('says how many connections it counts on, where one is limited by its window, and only there', () => {
    // A window of 100 kB comes back after 80 ms: 1.25 MB/s a connection, of which 4 fill 5 MB/s.
    const linked = (more: object, pairs: object[] = []) =>
      quick(
        clusterOf({
          peers: ['a', 'b', 'c'].map((id) => ({ id, memoryBytes: 4e9, flopsPerSecond: 1e6 })),
          links: { default: { latencySeconds: 0.04, bytesPerSecond: 5e6, ...more }, pairs },
        }),
        500,
      );
    const [windowed, wide] = [linked({ windowBytes: 1e5 }), linked({})];
    expect(wide.plan.links).toBeUndefined();
    expect(step(windowed)).toBe(step(wide));
    const { plan } = windowed;
    expect(problems(model, batch, plan)).toEqual([]);
    expect(planSchema.parse(JSON.parse(JSON.stringify(plan)))).toEqual(plan);
    const partners = planPartners({ model, sequence: batch.sequence, wire: 'f32', asked: 'f32' }, plan);
    expect(partners.size).toBeGreaterThan(1);
    for (const [peer, others] of partners) {
      const expected = new Map([...others].map((other) => [other, 4]));
      expect(streamsOf(plan.links, peer)).toEqual(expected);
    }
    // At most eight, and one where it does not help.
    const narrow = linked({ windowBytes: 1e4 }, [{ between: ['a', 'b'], windowBytes: null }]).plan;
    for (const { from, to, streams } of narrow.links ?? [])
      expect([streams, [from, to].toSorted().join()]).toEqual([8, expect.not.stringMatching('a,b')]);
  });

  it.each(['f16', 'int8'] as const)('%s: a packed stream is planned and predicted as it is sent', (wire) => {
    const cluster = smallCluster(seededRandom(7), 3);
    const problem = { ...problemOf(cluster), batch: { ...batch, wire } };
    const found = planCluster(problem, ({ work }) => work < 1_000);
    invariant(found.ok, 'a plan');
    const { plan, predicted } = found.value;
    for (const { peer, memoryBytes } of predicted.peers)
      expect(memoryBytes).toBe(predictedBytes(model, plan, peer, batch.sequence, wire));
    // Of one plan: each sample's stream is smaller, there and back, over every boundary; all else is float32 as ever.
    const split = equalSplit(
      model,
      batch.samples,
      cluster.peers.map(({ id }) => peerId(id)),
    );
    const sent = (problem: ClusterProblem): number =>
      totalOf(forecast(clusterCosts(problem), split).peers.values(), ({ sentBytes }) => sentBytes);
    const elements = batch.sequence * model.width;
    const less = 4 * elements - packedBytes(wire, elements);
    expect(sent(problemOf(cluster)) - sent(problem)).toBe(2 * 2 * batch.samples * less);
  });

  it('counts the memory of each peer as it computes, and of one that is not known both ways', () => {
    const cluster = smallCluster(seededRandom(7), 4);
    const ids = cluster.peers.map(({ id }) => id);
    const computes = new Map<string, Compute>(ids.slice(0, 3).map((id, index) => [id, index === 1 ? 'f32' : 'f16']));
    const halving = { ...batch, compute: 'f16' } as const;
    const found = planCluster({ ...problemOf(cluster), batch: halving, computes }, ({ work }) => work < 1_000);
    invariant(found.ok, 'a plan');
    const costs = clusterCosts({ ...problemOf(cluster), batch: halving, computes });
    const split = equalSplit(model, batch.samples, ids.map(peerId));
    for (const plan of [found.value.plan, split]) {
      const bytes = memoryOf(costs, plan);
      for (const [peer, own] of bytes) {
        const compute = computes.get(peer);
        const of = (each: Compute): number => predictedBytes(model, plan, peer, batch.sequence, 'f32', each);
        if (compute) expect(own).toBe(of(compute));
        else expect(own).toBeGreaterThanOrEqual(Math.max(of('f32'), of('f16')));
      }
    }
    expect(memoryOf(costs, split).size).toBe(4);
  });

  it('leaves room for the masters of one that computes with halves', () => {
    const [one] = smallCluster(seededRandom(7), 1).peers;
    invariant(one, 'a cluster of one peer');
    const drafted = (memoryBytes: number) => {
      const cluster = { peers: [{ ...one, memoryBytes }], links: { default: {}, regions: [], pairs: [] } };
      const computes = new Map<string, Compute>([[one.id, 'f16']]);
      const costs = clusterCosts({ model, batch: { ...batch, compute: 'f16' }, cluster, computes });
      const found = planOf(costs, { groups: [[0]], layers: [model.layers], microBatches: 2, schedule: 'gpipe' });
      invariant(found, 'a draft');
      const [bytes = 0] = memoryOf(costs, found.plan).values();
      return { bytes, recomputed: found.plan.stages[0]?.members[0]?.recompute.length ?? 0 };
    };
    const whole = drafted(1e12);
    expect(whole.recomputed).toBe(0);
    const tight = drafted(whole.bytes - 4);
    expect(tight.recomputed).toBeGreaterThan(0);
    expect(tight.bytes).toBeLessThan(whole.bytes);
  });

  it('takes at most 1.10 times the best of all orders, cuts and sizes on average', () => {
    const ratios = arrayOf(IS_LONG ? 24 : 12, (index) => {
      const cluster = smallCluster(seededRandom(100 + index), 2 + (index % 4));
      const found = step(quick(cluster));
      return found / leastStepSeconds(clusterCosts(problemOf(cluster)), found);
    });
    expect(total(ratios) / ratios.length).toBeLessThanOrEqual(1.1);
    expect(Math.max(...ratios)).toBeLessThanOrEqual(1.25);
  });

  it('is never slower than the best symmetric plan that fits', () => {
    for (let seed = 1; seed <= (IS_LONG ? 12 : 7); seed++) {
      const cluster = smallCluster(seededRandom(200 + seed), 2 + (seed % 7));
      const found = step(quick(cluster));
      const symmetric = equalStepSeconds(clusterCosts(problemOf(cluster)));
      expect(found, `seed ${seed}`).toBeLessThanOrEqual(symmetric * (1 + 1e-9));
    }
  });

  it('is the same wherever the peers stand in the file', () => {
    for (let seed = 1; seed <= (IS_LONG ? 8 : 6); seed++) {
      const cluster = smallCluster(seededRandom(300 + seed), 2 + (seed % 6));
      const turned = { ...cluster, peers: cluster.peers.toReversed() };
      const [one, other] = [quick(cluster), quick(turned)];
      expect(step(other) / step(one), `seed ${seed}`).toBeCloseTo(1, 6);
      const sizes = ({ plan }: ClusterPlan) =>
        plan.stages.map(({ layers, members }) => [layers, members.map(({ peer, samples }) => [peer, samples])]);
      expect(sizes(other), `seed ${seed}`).toEqual(sizes(one));
    }
  });

  it('is no slower with faster links or more memory', () => {
    for (let seed = 1; seed <= (IS_LONG ? 10 : 6); seed++) {
      const cluster = smallCluster(seededRandom(400 + seed), 2 + (seed % 3));
      const before = step(quick(cluster));
      const links = {
        ...cluster.links,
        default: { ...cluster.links.default, bytesPerSecond: 1e7, latencySeconds: 0.01 },
      };
      const roomier = cluster.peers.map((peer) => ({ ...peer, memoryBytes: 2 * peer.memoryBytes }));
      const wider = cluster.peers.map((peer, at) =>
        at === 0 ? { ...peer, uploadBytesPerSecond: 10 * (peer.uploadBytesPerSecond ?? 1) } : peer,
      );
      const least = before * (1 + 1e-9);
      expect(step(quick({ ...cluster, links })), `seed ${seed}, links`).toBeLessThanOrEqual(least);
      expect(step(quick({ ...cluster, peers: roomier })), `seed ${seed}, memory`).toBeLessThanOrEqual(least);
      expect(step(quick({ ...cluster, peers: wider })), `seed ${seed}, upload`).toBeLessThanOrEqual(least);
    }
  });

  it('one peer does everything', () => {
    const { plan, idle } = quick(clusterOf({ peers: [{ id: 'a', memoryBytes: 1e9, flopsPerSecond: 1e9 }] }));
    expect(plan.stages.map(({ layers, members }) => [layers, members.map(({ peer }) => peer)])).toEqual([
      [[0, 4], ['a']],
    ]);
    expect(idle).toEqual([]);
  });

  it('a model that fits nobody: the memory that is missing, which is enough', () => {
    const of = (bytes: number) => clusterOf({ peers: [{ id: 'a', memoryBytes: bytes, flopsPerSecond: 1e9 }] });
    const found = planCluster(problemOf(of(30_000)), () => false);
    expect(found).toMatchObject({ ok: false });
    const [, mebibytes] = /about ([\d.]+) MiB of memory is missing/.exec(found.ok ? '' : found.reason) ?? [];
    const missing = 2 ** 20 * Number(mebibytes);
    // It is rounded to a tenth of a MiB.
    expect(planCluster(problemOf(of(30_000 + missing + 60_000)), () => false).ok).toBe(true);
    expect(planCluster(problemOf(of(30_000 + missing - 160_000)), () => false).ok).toBe(false);
  });

  it('who is slow and has memory keeps state and computes nothing, where that may be', () => {
    const cluster = clusterOf({
      peers: [
        { id: 'fast', memoryBytes: 4e6, flopsPerSecond: 1e9 },
        { id: 'slow', memoryBytes: 1e8, flopsPerSecond: 1e5 },
      ],
      links: { default: { latencySeconds: 0.01, bytesPerSecond: 1e7 } },
    });
    const problem = problemOf(cluster);
    const evenly = planCluster(problem, () => false);
    invariant(evenly.ok, 'a plan');
    const computing = evenly.value;
    expect(computing.plan.stages.flatMap(({ members }) => members.map(({ peer }) => String(peer)))).toContain('slow');
    const found = planCluster(problem, ({ work }) => work < 2_500);
    invariant(found.ok, 'a plan');
    const { plan, predicted, reasons } = found.value;
    expect(problems(model, batch, plan)).toEqual([]);
    expect(plan.stages.flatMap(({ members }) => members.map(({ peer }) => String(peer)))).toEqual(['fast']);
    expect(predicted.stepSeconds).toBeLessThan(step(computing) / 2);
    expect(reasons.map(reasonText).join(' ')).toMatch(/slow: computes nothing.*keeps [\d,]+ elements of the state/);
    for (const { peer, memoryBytes, memoryLimitBytes } of predicted.peers) {
      expect(memoryBytes).toBe(predictedBytes(model, plan, peer, batch.sequence));
      expect(memoryBytes).toBeLessThanOrEqual(memoryLimitBytes);
    }
    // Without who keeps it there is no such plan, and nothing else fits.
    const left = { ...cluster, peers: cluster.peers.filter(({ id }) => id === 'fast') };
    expect(planCluster({ ...problemOf(left), inForce: plan }, () => false).ok).toBe(false);
  });

  it('more memory is no slower where the best plan has a peer that keeps state alone', () => {
    const sizes = { n_layer: 6, n_head: 4, n_embd: 96, n_positions: 64, vocab_size: 512 };
    const six = modelFromConfig({ model_type: 'gpt2', ...sizes });
    invariant(six.ok, 'a model');
    const stepOf = (more: number): number => {
      const peer = (id: string, memory: number, speed: number, up: number, down: number, region: string) => ({
        ...{ id, memoryBytes: more * memory, flopsPerSecond: speed, region },
        ...{ uploadBytesPerSecond: up, downloadBytesPerSecond: down },
      });
      const cluster = clusterOf({
        peers: [
          peer('p0', 34181799, 9.62e8, 3.22e6, 3.89e6, 'us'),
          peer('p1', 3727633, 1.81e9, 1.48e6, 1.25e7, 'eu'),
          peer('p2', 21408238, 9.81e7, 2.43e6, 2.32e7, 'us'),
          peer('p3', 36982555, 1.02e9, 4.59e5, 2.26e7, 'eu'),
        ],
        links: {
          default: { latencySeconds: 0.01, bytesPerSecond: 2e7 },
          regions: [{ between: ['us', 'eu'], latencySeconds: 0.011, bytesPerSecond: 2.6e6 }],
        },
      });
      const problem = { model: six.value, batch: { samples: 12, sequence: 48 }, cluster };
      const found = planCluster(problem, ({ work }) => work < 4_000);
      invariant(found.ok, 'a plan');
      return found.value.predicted.stepSeconds;
    };
    expect(stepOf(1.5) / stepOf(1)).toBeLessThanOrEqual(1 + 1e-9);
  });

  it('state lies where the links carry it: with the one peer that sends fast', () => {
    const peers = [0, 1, 2, 3].map((index) => ({
      id: `p${index}`,
      memoryBytes: 1e8,
      flopsPerSecond: 2e6,
      uploadBytesPerSecond: index === 0 ? 1e7 : 1e5,
      downloadBytesPerSecond: 1e7,
    }));
    const { plan } = quick(clusterOf({ peers, links: { default: { latencySeconds: 0.01, bytesPerSecond: 1e7 } } }));
    expect(plan.stages.some(({ members }) => members.length > 2)).toBe(true);
    const kept = new Map<string, number>();
    for (const { shards } of plan.state)
      for (const { peer, range } of shards) kept.set(peer, (kept.get(peer) ?? 0) + range[1] - range[0]);
    const all = total(kept.values());
    expect(kept.get('p0')).toBeGreaterThan(0.9 * all);
  });

  it('of peers alike, the one that stays longest is used', () => {
    const peers = [10, 1000, 100].map((meanSessionSeconds, index) => ({
      ...{ id: `p${index}`, memoryBytes: 1e8, flopsPerSecond: 1e9, meanSessionSeconds },
    }));
    const cluster = clusterOf({ peers, links: { default: { latencySeconds: 5, bytesPerSecond: 1e3 } } });
    const { plan, idle } = quick(cluster);
    expect(plan.stages.flatMap(({ members }) => members.map(({ peer }) => String(peer)))).toEqual(['p1']);
    expect(idle.map(({ peer }) => String(peer))).toEqual(['p0', 'p2']);
  });

  it('of a peer left idle the shortest step found with it is told: here, of three stages', () => {
    const peers = ['a', 'b', 'slow'].map((id) => ({ id, memoryBytes: 1e7, flopsPerSecond: 1e8 }));
    const pairs = ['a', 'b'].map((id) => ({ between: [id, 'slow'], latencySeconds: 0.01, bytesPerSecond: 1e5 }));
    const links = { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 }, pairs };
    const { idle, reasons } = quick(clusterOf({ peers, links }));
    // Three stages of three peers leave nobody out.
    const ofThree = reasons.map(({ text }) => /3 stages ([\d.]+) s/.exec(text)?.[1]).find((text) => text !== undefined);
    expect(Number(ofThree)).toBeGreaterThan(0);
    expect(
      idle.map(({ peer, reason }) => [peer, /with it the shortest step found takes ([\d.]+) s/.exec(reason)?.[1]]),
    ).toEqual([['slow', ofThree]]);
  });

  it('data parallel stays inside a fast region, the pipeline crosses the slow link', () => {
    const peers = ['eu', 'us'].flatMap((region) =>
      [0, 1].map((index) => ({ id: `${region}${index}`, memoryBytes: 1e7, flopsPerSecond: 1e7, region })),
    );
    const inside = { latencySeconds: 0.001, bytesPerSecond: 1e8 };
    const regions = [{ between: ['eu', 'us'], latencySeconds: 0.02, bytesPerSecond: 2e4 }];
    const { plan } = quick(clusterOf({ peers, links: { default: inside, regions } }), 6_000);
    expect(plan.stages.flatMap(({ members }) => members)).toHaveLength(4);
    for (const { members } of plan.stages)
      expect(new Set(members.map(({ peer }) => peer.slice(0, 2))).size, JSON.stringify(plan.stages)).toBe(1);
  });

  it('measured times win over a peak rate, and go on by their last slope', () => {
    const measured = { forwardSecondsPerLayer: [0.01, 0.019], backwardSecondsPerLayer: [0.02] };
    const [peer] = clusterCosts(
      problemOf(clusterOf({ peers: [{ id: 'a', memoryBytes: 1e9, flopsPerSecond: 1, measured }] })),
    ).peers;
    const at = (curve: { slope: number; intercept: number } | undefined, samples: number) =>
      (curve?.slope ?? 0) * samples + (curve?.intercept ?? 0);
    expect(at(peer?.forward, 4)).toBeCloseTo(0.037, 12);
    expect(at(peer?.backward, 4)).toBeCloseTo(0.08, 12);
  });

  it('begins with the plan in force: what is found at once is no worse', () => {
    const peers = arrayOf(9, (index) => ({
      ...{ id: `p${index}`, memoryBytes: 1e8, flopsPerSecond: 1e7 * (1 + index) },
      ...{ uploadBytesPerSecond: 1e6, downloadBytesPerSecond: 1e6 },
    }));
    const cluster = clusterOf({ peers, links: { default: { latencySeconds: 0.02, bytesPerSecond: 1e6 } } });
    const before = quick(cluster, 6_000);
    const first = (problem: ClusterProblem): number => {
      const found = planCluster(problem, () => false);
      invariant(found.ok, 'a plan');
      return found.value.predicted.stepSeconds;
    };
    expect(first({ ...problemOf(cluster), inForce: before.plan })).toBe(step(before));
    expect(first(problemOf(cluster))).toBeGreaterThan(step(before) * 1.02);
  });

  it('64 peers in 4 regions: every one is placed or told why not, twice as fast as placed by chance', () => {
    const names = ['or', 'va', 'jp', 'de'];
    const peers = arrayOf(64, (index) => ({
      id: `p${index}`,
      memoryBytes: 1e8,
      flopsPerSecond: 1e7 * (1 + (index % 5)),
      uploadBytesPerSecond: 1e6,
      region: names[index % 4],
    }));
    const regions = names.flatMap((a, at) =>
      names.slice(at + 1).map((b) => ({ between: [a, b], latencySeconds: 0.1, bytesPerSecond: 1e4 })),
    );
    const cluster = clusterOf({ peers, links: { default: { latencySeconds: 0.005, bytesPerSecond: 1e7 }, regions } });
    const problem = { model, batch: { samples: 64, sequence: 32 }, cluster };
    const found = planCluster(problem, ({ work }) => work < 1_500);
    invariant(found.ok, 'a plan');
    expect(found.value.predicted.peers.length + found.value.idle.length).toBe(64);
    expect(problems(model, problem.batch, found.value.plan)).toEqual([]);
    const costs = clusterCosts(problem);
    const random = seededRandom(5);
    const byChance = arrayOf(5, () => {
      const groups: number[][] = [[], [], [], []];
      for (const place of costs.peers.keys()) groups[Math.floor(4 * random())]?.push(place);
      const drafted = planOf(costs, { groups, layers: [1, 1, 1, 1], microBatches: 64, schedule: '1f1b' });
      return drafted === null ? Infinity : forecast(costs, drafted.plan).stepSeconds;
    });
    const mean = total(byChance) / byChance.length;
    expect(mean / found.value.predicted.stepSeconds).toBeGreaterThan(2);
  });
});

describe('plans of two clusters that are compared', () => {
  /** So few that two searches apart differ by a lot. */
  const DRAFTS = 200;
  const SEEDS = IS_LONG ? 500 : 2;

  const step = (found: Result<ClusterPlan>): number => (found.ok ? found.value.predicted.stepSeconds : Infinity);

  it.each(arrayOf(SEEDS, (index) => index + 1))(
    'beside each other, no cluster is slower for a peer, memory or a faster link more: seed %i',
    { timeout: 120_000 },
    async (seed) => {
      const known = new Map<ClusterProblem, Result<ClusterPlan>>();
      const search = (problem: ClusterProblem): Result<ClusterPlan> => {
        const found =
          known.get(problem) ??
          planCluster(
            problem,
            ({ work }) => work < DRAFTS,
            () => [],
          );
        known.set(problem, found);
        return found;
      };
      const { problem, richer } = steadyCase(seed);
      for (const { name, problem: more } of richer) {
        const added = await comparedPlans(problem, more, search);
        expect(step(added.after), name).toBeLessThanOrEqual(step(added.before));
        const removed = await comparedPlans(more, problem, search);
        expect(step(removed.before), `without ${name}`).toBeLessThanOrEqual(step(removed.after));
      }
    },
  );
});
