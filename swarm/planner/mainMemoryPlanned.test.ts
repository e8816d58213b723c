import { describe, expect, it } from 'vitest';
import { invariant, seededRandom } from '../base.ts';
import { hostBytes } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { tightCluster } from '../testing/tightClusters.ts';
import { parseCluster } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { planCluster } from './clusterPlan.ts';
import { memoryOf } from './draft.ts';
import { forecast } from './forecast.ts';

const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 64, vocab_size: 256 },
});
invariant(parsed.ok, 'a valid model');
const model = parsed.value;
const batch = { samples: 4, sequence: 32 };
const WORK = 500;

const search = (problem: ClusterProblem) =>
  planCluster(
    problem,
    ({ work }) => work < WORK,
    () => [],
  );
const isInHost = ({ state }: Plan): boolean => state.some(({ shards }) => shards.some((shard) => shard.in === 'host'));

describe('main memory in a plan that is searched for', () => {
  it('[CL50] no peer has more in either memory than it gives, whatever lies where', () => {
    let seen = 0;
    for (let seed = 1; seed <= 12; seed++) {
      const problem = { model, batch, cluster: tightCluster(seededRandom(seed), { model, batch }) };
      const found = search(problem);
      if (!found.ok) continue;
      const { plan, predicted } = found.value;
      expect(problems(model, batch, plan), `seed ${seed}`).toEqual([]);
      const bytes = memoryOf(clusterCosts(problem), plan);
      for (const { id, memoryBytes, hostBytes: given } of clusterCosts(problem).peers) {
        expect(bytes.get(id) ?? 0, `seed ${seed}, ${id}`).toBeLessThanOrEqual(memoryBytes);
        expect(hostBytes(plan, id, undefined), `seed ${seed}, ${id}`).toBeLessThanOrEqual(given);
      }
      if (!isInHost(plan)) continue;
      seen++;
      // Without main memory nothing is as good.
      const without = search({ ...problem, without: 'mainMemory' });
      if (without.ok) expect(predicted.stepSeconds).toBeLessThan(1.02 * without.value.predicted.stepSeconds);
      const said = found.value.reasons.map(({ text }) => text).join(' ');
      expect(said).toMatch(/lies in main memory and is updated there, for want of memory on GPUs: with p\d/);
      expect(peers(plan).some((peer) => hostBytes(plan, peer, undefined) > 0)).toBe(true);
    }
    expect(seen).toBeGreaterThan(4);
  });

  it('[CL50] with room on the GPUs nothing lies in main memory, and the plan is the one without', () => {
    const peer = (id: string) => ({ id, memoryBytes: 1e9, hostBytes: 1e9, flopsPerSecond: 1e9 });
    const cluster = parseCluster({ peers: [peer('a'), peer('b')] }, 'c.json');
    invariant(cluster.ok, 'a cluster');
    const problem = { model, batch, cluster: cluster.value };
    const [one, other] = [search(problem), search({ ...problem, without: 'mainMemory' })];
    invariant(one.ok && other.ok, 'plans');
    expect(isInHost(one.value.plan)).toBe(false);
    expect(one.value.predicted.stepSeconds).toBeLessThanOrEqual(1.001 * other.value.predicted.stepSeconds);
  });

  it('[CL50] [CL52] an element takes what was measured before the commit and after it, 10 and 15 ns where nothing was, beside what the GPU updates', () => {
    const measured = { forwardSecondsPerLayer: [0.01], backwardSecondsPerLayer: [0.02] };
    const cluster = parseCluster({ peers: [{ id: 'a', memoryBytes: 1e9, hostBytes: 1e9, measured }] }, 'c.json');
    invariant(cluster.ok, 'a cluster');
    const plain = clusterCosts({ model, batch, cluster: cluster.value });
    const speed = { sumSeconds: 3e-9, updateSeconds: 50e-9 };
    const slow = clusterCosts({ model, batch, cluster: cluster.value, mainMemory: new Map([['a', speed]]) });
    const found = search({ model, batch, cluster: cluster.value });
    invariant(found.ok, 'a plan');
    const { plan } = found.value;
    const inHost: Plan = {
      ...plan,
      state: plan.state.map((one) => ({ ...one, shards: one.shards.map((shard) => ({ ...shard, in: 'host' })) })),
    };
    const elements = model.blocks.reduce((sum, { elements: own }) => sum + own, 0);
    for (const [costs, secondsOfAll] of [
      [plain, 25e-9 * elements],
      [slow, 53e-9 * elements],
    ] as const) {
      const [peer] = costs.peers;
      invariant(peer, 'a peer');
      const longer = forecast(costs, inHost).stepSeconds - forecast(costs, plan).stepSeconds;
      expect(longer + costs.updateSeconds(peer, elements)).toBeCloseTo(secondsOfAll, 9);
    }
  });
});
