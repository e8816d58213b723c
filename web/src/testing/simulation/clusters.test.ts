/**
 * What `shoal plan` prints happens: seeded clusters, planned as the command does, their document read as `swarm --plan` does,
 * trained by the product's decisions and executor on a clock that goes as the cluster's costs do. The state after each step
 * is the sequential run's, and a step takes what was predicted.
 */
import { expect, test } from 'vitest';
import { at, invariant, median, type Random, seededRandom } from '../../../../swarm/base.ts';
import { acceptedModel } from '../../../../swarm/model/acceptedModel.ts';
import { peers, planSchema } from '../../../../swarm/plan/plan.ts';
import { type Cluster, parseCluster } from '../../../../swarm/planner/cluster.ts';
import { clusterCosts } from '../../../../swarm/planner/clusterCosts.ts';
import { planCluster } from '../../../../swarm/planner/clusterPlan.ts';
import { MODEL, SAMPLES, SEQUENCE, simulate } from './simulation.ts';

const LAYERS = 8;
const STEPS = 4;
const WORK = 600;
/** Of the prediction, which has slices sent after all work where a peer's leave after its own. */
const [LEAST, MOST] = [0.65, 1.02];

/** Of 2 to 12 peers, 20 times as fast and roomy as each other, over links 100 times as fast. */
function clusterOf(random: Random): Cluster {
  const spread = (least: number, most: number) => least * (most / least) ** random();
  const regions = ['eu', 'us', 'asia'];
  const list = Array.from({ length: 2 + Math.floor(11 * random()) }, (_, index) => {
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

const cases = process.env.SHOAL_LONG === '1' ? 200 : 12;

test('[SI20] every plan that is printed runs, and takes what was predicted', { timeout: 3_600_000 }, async () => {
  const found: string[] = [];
  for (let seed = 1; seed <= cases; seed++) {
    const cluster = clusterOf(seededRandom(seed));
    const config = { ...MODEL, n_layer: LAYERS };
    const batch = { samples: SAMPLES, sequence: SEQUENCE };
    const model = acceptedModel({ model: config });
    const problem = { model, batch, cluster, keepers: true };
    const planned = planCluster(problem, ({ work }) => work < WORK);
    if (!planned.ok) continue;
    const plan = planSchema.parse(JSON.parse(JSON.stringify(planned.value.plan)));
    const costs = clusterCosts(problem);
    const ending = await simulate({
      ...{ seed, donors: peers(plan).length, steps: STEPS, layers: LAYERS, limitMs: 600_000 },
      ...{ cluster: { costs, plan }, makePlan: () => plan },
    });
    const { commitsMs, problems, epochs } = ending;
    const text = `${seed}: ${plan.schedule} ${plan.warmup ?? ''} ${plan.stages.length} stages, ${peers(plan).length} of ${cluster.peers.length}`;
    found.push(...problems.map((one) => `${text}: ${one}`));
    if (epochs !== 1) found.push(`${text}: ${epochs} epochs`);
    const stepMs = median(commitsMs.slice(2).map((ms, index) => ms - at(commitsMs, index + 1))) ?? Number.NaN;
    const ratio = stepMs / (1_000 * planned.value.predicted.stepSeconds);
    if (!(ratio > LEAST && ratio < MOST)) found.push(`${text}: ${ratio} of the prediction`);
  }
  expect(found).toEqual([]);
});
