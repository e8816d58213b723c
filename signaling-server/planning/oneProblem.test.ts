/** The plan that `shoal plan` prints for a cluster is the one that the server makes of donors who are as the cluster says. */
import { expect, test } from 'vitest';
import { knownDonor, type PlanningConfig, searchProblem } from '../../swarm/autoplan/knownDonors.ts';
import { invariant, peerId, seededRandom } from '../../swarm/base.ts';
import { NO_LIMITS } from '../../swarm/limits.ts';
import { acceptedModel } from '../../swarm/model/acceptedModel.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { type Cluster, parseCluster } from '../../swarm/planner/cluster.ts';
import { planCluster } from '../../swarm/planner/clusterPlan.ts';
import { replicaWish } from '../../swarm/planner/replicas.ts';
import { tightCluster } from '../../swarm/testing/tightClusters.ts';
import { AT_ONCE_WORK, searchHere } from './planThread.ts';

const SIZES = { model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 64, vocab_size: 256 };
const CONFIG: PlanningConfig = {
  model: SIZES,
  batch: { samples: 4, sequence: 32 },
  wishes: { auto: true },
};
const model = acceptedModel(CONFIG);
const CLUSTERS = process.env.SHOAL_LONG === '1' ? 40 : 8;

/** Each measured what its cluster says, and gives as much. */
function donorsOf({ peers }: Cluster) {
  return peers.map(({ id, memoryBytes, hostBytes = 0, measured }) => {
    const [forwardSeconds = 0] = measured?.forwardSecondsPerLayer ?? [];
    const [backwardSeconds = 0] = measured?.backwardSecondsPerLayer ?? [];
    return knownDonor(CONFIG, {
      ...{ peer: peerId(id), limits: { ...NO_LIMITS, hostBytes }, rememberedAs: null, remembered: null },
      profile: { layers: [{ samples: 1, forwardSeconds, backwardSeconds }], memoryBytes, checkedKernels: 1 },
      ...{ hasHalves: false, address: id, isOwn: false },
    });
  });
}

const ways = ({ stages, state }: Plan): string[] => {
  const members = new Set(stages.flatMap((stage) => stage.members.map(({ peer }) => peer)));
  const shards = state.flatMap((one) => one.shards);
  return [
    ...(stages.some(({ gathered }) => gathered) ? ['gathered'] : []),
    ...(shards.some((shard) => shard.in === 'host') ? ['in main memory'] : []),
    ...(shards.some(({ peer }) => !members.has(peer)) ? ['with who computes nothing'] : []),
  ];
};

test('of 40 clusters with tight memory, or the first ones, the server’s plan and that of shoal plan are the same', async () => {
  const seen = new Set<string>();
  for (let seed = 1; seed <= CLUSTERS; seed++) {
    const donors = donorsOf(tightCluster(seededRandom(seed), { model, batch: CONFIG.batch }));
    const names = donors.map(({ peer }) => peer);
    const problem = { ...searchProblem(CONFIG, donors, names), replicas: replicaWish(undefined) };
    const served = await searchHere(CONFIG, problem, 'atOnce');
    // As the command reads its file.
    const cluster = parseCluster(JSON.parse(JSON.stringify(problem.cluster)), 'cluster.json');
    invariant(cluster.ok, 'a cluster');
    const asked = { model, batch: CONFIG.batch, cluster: cluster.value, replicas: replicaWish(undefined) };
    const printed = planCluster(asked, ({ work }) => work < AT_ONCE_WORK);
    expect(served.ok, `seed ${seed}`).toBe(printed.ok);
    if (!served.ok || !printed.ok) continue;
    expect(served.value, `seed ${seed}`).toEqual({
      ...{ plan: printed.value.plan, reasons: printed.value.reasons, idle: printed.value.idle },
    });
    for (const way of ways(served.value.plan)) seen.add(way);
  }
  expect(seen.size).toBe(3);
});
