import { describe, expect, it } from 'vitest';
import { arrayOf, invariant, seededRandom, totalOf } from '../base.ts';
import { hostBytes } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { tightCluster } from '../testing/tightClusters.ts';
import { parseCluster } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { planCluster, sharedElements } from './clusterPlan.ts';
import { memoryOf } from './draft.ts';
import { forecast, predictedBeside, predictedStep } from './forecast.ts';
import { type MainMemorySpeed, moreInMainMemory } from './mainMemory.ts';
import { replicaWish } from './replicas.ts';

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

const allInHost = (plan: Plan): Plan => ({
  ...plan,
  state: plan.state.map((one) => ({ ...one, shards: one.shards.map((shard) => ({ ...shard, in: 'host' })) })),
});

/** A peer that updates so many elements a second in main memory and on its GPU, with room for all in both. */
function withSpeeds(speed: MainMemorySpeed, layerSeconds: number, ids = ['a'], hosts = ids): ClusterProblem {
  const measured = { forwardSecondsPerLayer: [layerSeconds], backwardSecondsPerLayer: [2 * layerSeconds] };
  const cluster = parseCluster(
    { peers: ids.map((id) => ({ id, memoryBytes: 1e9, measured, ...(hosts.includes(id) && { hostBytes: 1e9 }) })) },
    'c.json',
  );
  invariant(cluster.ok, 'a cluster');
  return { model, batch, cluster: cluster.value, mainMemory: new Map(ids.map((id) => [id, speed])) };
}
const NS = 1e-9;

describe('updates on GPU and CPU at once', () => {
  it('as much lies in main memory as makes a step shortest: both updates end together, or all is on the GPU', () => {
    for (const [sum, update, onGpu] of [
      [2, 5, 40],
      [10, 15, 16],
      [1, 30, 8],
      [10, 15, 9],
      [3, 3, 1],
    ] as const) {
      const speed = { sumSeconds: sum * NS, updateSeconds: update * NS, onGpuSeconds: onGpu * NS };
      const problem = withSpeeds(speed, 1e-7);
      const costs = clusterCosts(problem);
      const [peer] = costs.peers;
      invariant(peer, 'a peer');
      const bare = search({ ...problem, without: 'mainMemory' });
      invariant(bare.ok, 'a plan');
      const { plan } = bare.value;
      const kept = totalOf(model.blocks, ({ elements }) => elements);
      const seconds = (elements: number): number =>
        forecast(costs, moreInMainMemory(plan, peer.id, elements, true)).stepSeconds;
      const tried = arrayOf(101, (part) => seconds((part * kept) / 100));
      const least = Math.min(...tried);
      const chosen = sharedElements(costs, peer, kept);
      expect(chosen > 0, `${sum} ${update} ${onGpu}`).toBe(onGpu > sum);
      expect(seconds(chosen)).toBeLessThanOrEqual(least + 64 * (sum + update + onGpu) * NS);
      const found = search(problem);
      invariant(found.ok, 'a plan');
      const isWorth = least < 0.995 * seconds(0);
      expect(isInHost(found.value.plan)).toBe(isWorth);
      expect(found.value.predicted.stepSeconds).toBeLessThanOrEqual((isWorth ? 1 : 1.005) * least + 1e-6);
      const said = found.value.reasons.map(({ text }) => text).join(' ');
      expect(said.includes('updated there while GPUs update the rest: with a (')).toBe(isWorth);
      if (!isWorth) continue;
      const spans = predictedBeside(costs, found.value.plan, predictedStep(costs, found.value.plan));
      const ends = spans.filter(({ action: { op } }) => op === 'UPDATE' || op === 'UPDATE_HOST');
      expect(ends.map(({ action: { op } }) => op)).toEqual(['UPDATE', 'UPDATE_HOST']);
      const [gpu = 0, host = 0] = ends.map(({ endSeconds }) => endSeconds);
      expect(Math.abs(gpu - host)).toBeLessThanOrEqual(64 * (update + onGpu) * NS);
    }
  });

  it('with peers whose work is most of a step, or who wait for nothing of it, no state goes there', () => {
    const speed = { sumSeconds: NS, updateSeconds: NS, onGpuSeconds: 2 * NS };
    const found = search(withSpeeds(speed, 0.1));
    invariant(found.ok, 'a plan');
    expect(isInHost(found.value.plan)).toBe(false);
  });

  it('no copy of a shard is given up for it', () => {
    const speed = { sumSeconds: NS, updateSeconds: 5 * NS, onGpuSeconds: 100 * NS };
    const replicas = replicaWish(1);
    const alone = search({ ...withSpeeds(speed, 1e-5, ['a', 'b'], ['a']), replicas });
    const both = search({ ...withSpeeds(speed, 1e-5, ['a', 'b']), replicas });
    invariant(alone.ok && both.ok, 'plans');
    // b gives no main memory, so that it could copy nothing of what lies there.
    expect(isInHost(alone.value.plan)).toBe(false);
    expect(isInHost(both.value.plan)).toBe(true);
    for (const { plan } of [alone.value, both.value])
      expect(plan.state.every(({ shards }) => shards.every((shard) => shard.replicas.length === 1))).toBe(true);
  });
});

describe('main memory in a plan that is searched for', () => {
  it('no peer has more in either memory than it gives, whatever lies where', () => {
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
      expect(said).toMatch(
        /lies in main memory(, so that it is updated there while GPUs update the rest| and is updated there, for want of memory on GPUs): with p\d/,
      );
      expect(peers(plan).some((peer) => hostBytes(plan, peer, undefined) > 0)).toBe(true);
    }
    expect(seen).toBeGreaterThan(4);
  });

  it('with room on the GPUs nothing lies in main memory, and the plan is the one without', () => {
    const peer = (id: string) => ({ id, memoryBytes: 1e9, hostBytes: 1e9, flopsPerSecond: 1e9 });
    const cluster = parseCluster({ peers: [peer('a'), peer('b')] }, 'c.json');
    invariant(cluster.ok, 'a cluster');
    const problem = { model, batch, cluster: cluster.value };
    const [one, other] = [search(problem), search({ ...problem, without: 'mainMemory' })];
    invariant(one.ok && other.ok, 'plans');
    expect(isInHost(one.value.plan)).toBe(false);
    expect(one.value.predicted.stepSeconds).toBeLessThanOrEqual(1.001 * other.value.predicted.stepSeconds);
  });

  it('an element takes what was measured before the commit and after it, 10 and 15 ns where nothing was, beside what the GPU updates', () => {
    // So short that no forward hides anything.
    const measured = { forwardSecondsPerLayer: [1e-12], backwardSecondsPerLayer: [2e-12] };
    const cluster = parseCluster({ peers: [{ id: 'a', memoryBytes: 1e9, hostBytes: 1e9, measured }] }, 'c.json');
    invariant(cluster.ok, 'a cluster');
    const plain = clusterCosts({ model, batch, cluster: cluster.value });
    const speed = { sumSeconds: 3e-9, updateSeconds: 50e-9 };
    const slow = clusterCosts({ model, batch, cluster: cluster.value, mainMemory: new Map([['a', speed]]) });
    const found = search({ model, batch, cluster: cluster.value, without: 'mainMemory' });
    invariant(found.ok, 'a plan');
    const { plan } = found.value;
    const inHost = allInHost(plan);
    const elements = totalOf(model.blocks, ({ elements: own }) => own);
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

  it('of what is updated in main memory the next forward hides all but what it begins with', () => {
    const speed = { sumSeconds: 2 * NS, updateSeconds: 100 * NS };
    const problem = withSpeeds(speed, 1);
    const costs = clusterCosts(problem);
    const found = search({ ...problem, without: 'mainMemory' });
    const [peer] = costs.peers;
    invariant(found.ok && peer, 'a plan of one peer');
    const { plan } = found.value;
    const [embedding = 0, layer = 0] = model.blocks.map(({ elements }) => elements);
    const all = totalOf(model.blocks, ({ elements }) => elements);
    const [first] = plan.microBatches;
    invariant(first, 'a micro-batch');
    const samples = first.samples[1] - first.samples[0];
    const looked = costs.forwardSeconds(peer, { first: true, last: false, layers: 0 }, samples);
    const longer = forecast(costs, allInHost(plan)).stepSeconds - forecast(costs, plan).stepSeconds;
    // The tokens' rows are looked up in no time that would hide the first layer's update; each layer takes a second.
    expect(looked).toBeLessThan(100 * NS * layer);
    const waited = 100 * NS * (embedding + layer) - looked;
    expect(longer + costs.updateSeconds(peer, all)).toBeCloseTo(2 * NS * all + waited, 9);
  });
});
