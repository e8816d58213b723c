/**
 * What `shoal plan` prints happens: seeded clusters, planned as the command does, their document read as `swarm --plan` does,
 * trained by the product's decisions and executor on a clock that goes as the cluster's costs do. The state after each step
 * is the sequential run's, and a step takes what was predicted.
 */
import { expect, test } from 'vitest';
import { arrayOf, at, invariant, median, peerId, type Random, seededRandom } from '../../../../swarm/base.ts';
import { acceptedModel } from '../../../../swarm/model/acceptedModel.ts';
import { type Plan, peers, planSchema } from '../../../../swarm/plan/plan.ts';
import { type Cluster, parseCluster } from '../../../../swarm/planner/cluster.ts';
import { clusterCosts } from '../../../../swarm/planner/clusterCosts.ts';
import { planCluster } from '../../../../swarm/planner/clusterPlan.ts';
import { equalSplit, type SplitOptions } from '../../../../swarm/planner/equalSplit.ts';
import { forecast } from '../../../../swarm/planner/forecast.ts';
import { tightCluster } from '../../../../swarm/testing/tightClusters.ts';
import { SEQUENCE } from './plans.ts';
import { MODEL, SAMPLES, simulate } from './simulation.ts';

const LAYERS = 8;
const STEPS = 4;
const WORK = 600;
const model = acceptedModel({ model: { ...MODEL, n_layer: LAYERS } });
const RUN = { model, batch: { samples: SAMPLES, sequence: SEQUENCE } };
/** Of the prediction, which has slices sent after all work where a peer's leave after its own. */
const [LEAST, MOST] = [0.65, 1.02];

/** Of 2 to 12 peers, 20 times as fast and roomy as each other, over links 100 times as fast. */
function clusterOf(random: Random): Cluster {
  const spread = (least: number, most: number) => least * (most / least) ** random();
  const regions = ['eu', 'us', 'asia'];
  const list = arrayOf(2 + Math.floor(11 * random()), (index) => {
    const forward = spread(0.02, 0.4);
    return {
      ...{ id: `p${index}`, memoryBytes: Math.round(spread(4e4, 4e5)), region: at(regions, Math.floor(3 * random())) },
      measured: { forwardSecondsPerLayer: [forward], backwardSecondsPerLayer: [2 * forward] },
    };
  });
  const link = () => ({ latencySeconds: spread(0.001, 0.1), bytesPerSecond: spread(1e3, 1e5), windowBytes: null });
  const there = [...new Set(list.map(({ region }) => region))];
  const between = there.flatMap((one, index) =>
    there.slice(index + 1).map((other) => ({ between: [one, other], ...link() })),
  );
  const found = parseCluster({ peers: list, links: { default: link(), regions: between } }, 'c.json');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

interface Played {
  readonly predictedSeconds: number;
  /** Of the steps after the first ones, by the median. */
  readonly seconds: number;
  /** What went wrong. */
  readonly faults: readonly string[];
}

/** A plan of a cluster, in the run. */
async function played(cluster: Cluster, plan: Plan, seed: number, run = RUN, sizes: object = {}): Promise<Played> {
  const costs = clusterCosts({ ...run, cluster });
  const { commitsMs, problems, epochs } = await simulate({
    ...{ seed, donors: peers(plan).length, steps: STEPS, layers: LAYERS, limitMs: 600_000, ...sizes },
    ...{ cluster: { costs, plan }, makePlan: () => plan },
  });
  const stepsMs = commitsMs.slice(2).map((ms, index) => ms - at(commitsMs, index + 1));
  return {
    predictedSeconds: forecast(costs, plan).stepSeconds,
    seconds: (median(stepsMs) ?? Number.NaN) / 1_000,
    faults: epochs === 1 ? problems : [...problems, `${epochs} epochs`],
  };
}

const cases = process.env.SHOAL_LONG === '1' ? 200 : 6;

test('every plan that is printed runs, and takes what was predicted', { timeout: 3_600_000 }, async () => {
  const found: string[] = [];
  for (let seed = 1; seed <= cases; seed++) {
    const cluster = clusterOf(seededRandom(seed));
    const planned = planCluster({ ...RUN, cluster }, ({ work }) => work < WORK);
    if (!planned.ok) continue;
    const plan = planSchema.parse(JSON.parse(JSON.stringify(planned.value.plan)));
    const { seconds, faults } = await played(cluster, plan, seed);
    const text = `${seed}: ${plan.schedule} ${plan.warmup ?? ''} ${plan.stages.length} stages, ${peers(plan).length} of ${cluster.peers.length}`;
    found.push(...faults.map((one) => `${text}: ${one}`));
    const ratio = seconds / planned.value.predicted.stepSeconds;
    if (!(ratio > LEAST && ratio < MOST)) found.push(`${text}: ${ratio} of the prediction`);
  }
  expect(found).toEqual([]);
});

/** Of 40 clusters these in CI, and all of them in the long lane. */
const tightSeeds = process.env.SHOAL_LONG === '1' ? arrayOf(40, (index) => index + 1) : [5, 31];
/** Where the exchange of state is most of a step: slices of who is done early leave while others still compute. */
const TIGHT_LEAST = 0.6;

/** Of which the state is most that a GPU has. */
const WIDE = { width: 32, layers: 4 };
const WIDE_RUN = {
  ...RUN,
  model: acceptedModel({ model: { ...MODEL, n_layer: WIDE.layers, n_embd: WIDE.width } }),
};

test('plans that gather, keep state in main memory or with who computes nothing take what was predicted', async () => {
  const found: string[] = [];
  const seen = { gathered: 0, inHost: 0, stateOnly: 0 };
  for (const seed of tightSeeds) {
    const cluster = tightCluster(seededRandom(seed), WIDE_RUN);
    const planned = planCluster(
      { ...WIDE_RUN, cluster },
      ({ work }) => work < WORK,
      () => [],
    );
    if (!planned.ok) continue;
    const plan = planSchema.parse(JSON.parse(JSON.stringify(planned.value.plan)));
    const members = new Set(plan.stages.flatMap((stage) => stage.members.map(({ peer }) => peer)));
    const ways = [
      ...(plan.stages.some(({ gathered }) => gathered) ? (['gathered'] as const) : []),
      ...(plan.state.some(({ shards }) => shards.some((shard) => shard.in === 'host')) ? (['inHost'] as const) : []),
      ...(peers(plan).some((peer) => !members.has(peer)) ? (['stateOnly'] as const) : []),
    ];
    for (const way of ways) seen[way]++;
    const { seconds, faults } = await played(cluster, plan, seed, WIDE_RUN, WIDE);
    const text = `${seed}: ${plan.schedule}, ${plan.stages.length} stages, ${ways.join(' ')}`;
    found.push(...faults.map((one) => `${text}: ${one}`));
    const ratio = seconds / planned.value.predicted.stepSeconds;
    if (!(ratio > TIGHT_LEAST && ratio < MOST)) found.push(`${text}: ${ratio} of the prediction`);
  }
  expect(found).toEqual([]);
  for (const [way, count] of Object.entries(seen)) expect(count, way).toBeGreaterThan(0);
});

/** Four peers, so many times as slow as the first, in a row whose links take so long. */
function fourOf(slowness: readonly number[], link: object): Cluster {
  const list = slowness.map((times, index) => ({
    ...{ id: `p${index}`, memoryBytes: 1e9 },
    measured: { forwardSecondsPerLayer: [0.05 * times], backwardSecondsPerLayer: [0.1 * times] },
  }));
  const found = parseCluster({ peers: list, links: { default: { windowBytes: null, ...link } } }, 'c.json');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

const ORDERS: readonly SplitOptions[] = [
  { schedule: 'gpipe', microBatches: 4 },
  { schedule: '1f1b', microBatches: 4 },
  { schedule: '1f1b', microBatches: 4, warmup: 'overlap' },
  { schedule: 'eager', microBatches: 4 },
  { schedule: 'eager', microBatches: 4, warmup: 'overlap' },
  { schedule: 'varuna', microBatches: 4 },
  { schedule: 'interleaved', chunks: 2, microBatches: 4 },
  { schedule: 'breadth-first', chunks: 2, microBatches: 4 },
  { schedule: 'chimera', pairs: 1, microBatches: 4 },
];

test.each([
  ['near', [1, 1, 1, 1], { latencySeconds: 0.0001, bytesPerSecond: 1e9 }, 0.998],
  ['far', [1, 1, 1, 1], { latencySeconds: 0.15, bytesPerSecond: 1e9 }, 0.9],
  ['slow first', [2, 1, 1, 1], { latencySeconds: 0.05, bytesPerSecond: 1e4 }, 0.9],
  ['slow last', [1, 1, 1, 2], { latencySeconds: 0.05, bytesPerSecond: 1e4 }, 0.9],
  ['unlike', [1, 3, 1, 2], { latencySeconds: 0.1, bytesPerSecond: 1e4 }, 0.9],
] as const)('%s: each order takes what was predicted, and the orders rank as predicted', async (...given) => {
  const [, slowness, link, least] = given;
  const cluster = fourOf(slowness, link);
  const names = cluster.peers.map(({ id }) => peerId(id));
  const all: (Played & { readonly text: string })[] = [];
  for (const [index, options] of ORDERS.entries()) {
    const plan = equalSplit(RUN.model, SAMPLES, names, options);
    all.push({ text: Object.values(options).join(' '), ...(await played(cluster, plan, index + 1)) });
  }
  for (const { text, predictedSeconds, seconds, faults } of all) {
    expect(faults, text).toEqual([]);
    expect(seconds / predictedSeconds, text).toBeGreaterThan(least);
    expect(seconds / predictedSeconds, text).toBeLessThan(1.002);
  }
  for (const one of all)
    for (const other of all)
      if (one.predictedSeconds < 0.99 * other.predictedSeconds)
        expect(one.seconds, `${one.text} before ${other.text}`).toBeLessThan(other.seconds);
});

/** Where each of the orders that no draft has, or its warm-up, is the shortest, by what was predicted and by the clock. */
test.each([
  ['interleaved', { schedule: 'interleaved', chunks: 2, microBatches: 4 }, 0.0001],
  ['chimera', { schedule: 'chimera', pairs: 1, microBatches: 4 }, 0.0001],
  ['1f1b, warm-up that overlaps', { schedule: '1f1b', warmup: 'overlap', microBatches: 4 }, 0.15],
] as const)('%s is ahead of 1f1b', async (_, options, latencySeconds) => {
  const cluster = fourOf([1, 1, 1, 1], { latencySeconds, bytesPerSecond: 1e9 });
  const names = cluster.peers.map(({ id }) => peerId(id));
  const plan = (of: SplitOptions) => equalSplit(RUN.model, SAMPLES, names, of);
  const own = await played(cluster, plan(options), 1);
  const plain = await played(cluster, plan({ schedule: '1f1b', microBatches: 4 }), 2);
  expect(own.predictedSeconds / plain.predictedSeconds).toBeLessThan(0.96);
  expect(own.seconds / plain.seconds).toBeLessThan(0.96);
});

/** A cluster whose plan is eager. */
const EAGER_SEED = 37;

test('eager is ahead of both 1f1b of its table, where it is planned', async () => {
  const cluster = clusterOf(seededRandom(EAGER_SEED));
  const planned = planCluster({ ...RUN, cluster }, ({ work }) => work < WORK);
  invariant(planned.ok && planned.value.plan.schedule === 'eager', 'eager is planned');
  const { warmup: _, ...eager } = planned.value.plan;
  const own = await played(cluster, planned.value.plan, 1);
  for (const order of [{ schedule: '1f1b' }, { schedule: '1f1b', warmup: 'overlap' }] as const) {
    const other = await played(cluster, { ...eager, ...order }, 1);
    expect(own.predictedSeconds / other.predictedSeconds, JSON.stringify(order)).toBeLessThan(0.98);
    expect(own.seconds / other.seconds, JSON.stringify(order)).toBeLessThan(0.99);
  }
});
