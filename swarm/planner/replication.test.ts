import { describe, expect, it } from 'vitest';
import { invariant, type PeerId, peerId, seededRandom } from '../base.ts';
import { plannedBytes, predictedBytes } from '../memory/memory.ts';
import { type Plan, peers as peersOf, problems } from '../plan/plan.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from '../testing/smallClusters.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { equalSplit } from './equalSplit.ts';
import { fittingSplit } from './fit.ts';
import { forecast } from './forecast.ts';
import type { ReplicaWish } from './replicas.ts';
import { withoutReplicas } from './replicas.ts';
import { lackOf, replicated, replicatedWithin } from './replication.ts';

const [model, batch] = [SMALL_MODEL, SMALL_BATCH];
const wishing = (count: number, isAsked = true): ReplicaWish => ({ count, isAsked, sites: {}, before: null });
const countsIn = ({ state }: Plan): number[] =>
  state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));

function planned(cluster: Cluster, replicas?: ReplicaWish): ClusterPlan {
  const problem: ClusterProblem = { model, batch, cluster, ...(replicas && { replicas }) };
  const found = planCluster(problem, ({ work }) => work < 600);
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

/** Two equal peers, over a link of this rate. */
function pair(bytesPerSecond: number): Cluster {
  const peers = ['a', 'b'].map((id) => ({ id, memoryBytes: 1e9, flopsPerSecond: 1e8 }));
  const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.001, bytesPerSecond } } }, 'two');
  invariant(cluster.ok, 'a cluster');
  return cluster.value;
}

describe('replicas of a plan for a cluster', () => {
  it('[RE61] [RE67] the plan without them is the one without a wish; their memory is what is allocated, and fits', () => {
    for (let seed = 1; seed <= 6; seed++) {
      const cluster = smallCluster(seededRandom(seed), 2 + (seed % 4));
      const [plain, copied] = [planned(cluster), planned(cluster, wishing(1))];
      // Copies are sent over links of their own.
      const [bare, other] = [withoutReplicas(copied.plan), plain.plan].map(({ links: _, ...plan }) => plan);
      expect(bare, `seed ${seed}`).toEqual(other);
      expect(problems(model, batch, copied.plan), `seed ${seed}`).toEqual([]);
      expect(countsIn(copied.plan), `seed ${seed}`).toContain(1);
      for (const { peer, memoryBytes, memoryLimitBytes } of copied.predicted.peers) {
        expect(memoryBytes, `seed ${seed}`).toBe(predictedBytes(model, copied.plan, peer, batch.sequence));
        expect(memoryBytes, `seed ${seed}`).toBeLessThanOrEqual(memoryLimitBytes);
      }
      expect(copied.predicted.stepSeconds).toBe(
        forecast(clusterCosts({ model, batch, cluster }), copied.plan).stepSeconds,
      );
    }
  });

  it('[RE67] a search that begins with the plan in force finds it again with its copies', () => {
    const cluster = smallCluster(seededRandom(3), 4);
    const { plan } = planned(cluster, wishing(2));
    const problem = { model, batch, cluster, inForce: plan, replicas: { ...wishing(2), before: plan } };
    const again = planCluster(problem, () => false);
    expect(again.ok && again.value.plan).toEqual(plan);
  });

  it('[RE66] where nobody asked there are none on links that make a step more than a tenth longer, and there are on fast ones', () => {
    const plan = equalSplit(model, batch.samples, [peerId('a'), peerId('b')]);
    for (const [rate, isFast] of [
      [1e9, true],
      [1e6, false],
    ] as const) {
      const costs = clusterCosts({ model, batch, cluster: pair(rate) });
      const [asked, unasked] = [replicated(costs, plan, wishing(1)), replicated(costs, plan, wishing(1, false))];
      const longer = asked.forecast.stepSeconds / forecast(costs, plan).stepSeconds - 1;
      expect(longer > 0.1).toBe(!isFast);
      expect(new Set(countsIn(asked.plan))).toEqual(new Set([1]));
      expect(new Set(countsIn(unasked.plan))).toEqual(new Set([isFast ? 1 : 0]));
      const warnings = unasked.reasons.filter(({ isWarning }) => isWarning).map(({ text }) => text);
      if (isFast) expect(warnings).toEqual([]);
      else
        expect(warnings).toEqual([
          expect.stringMatching(
            /^Nothing of the training state \(weights and optimizer\) has a copy with another donor, because a step would take \d+ % longer\. When every donor/,
          ),
        ]);
    }
  });

  it('[RE60] [RE64] a spare whose memory and links are good keeps state alone, and is said to', () => {
    const peers = ['a', 'b', 'spare'].map((id) => ({
      ...{ id, memoryBytes: 1e9, flopsPerSecond: id === 'spare' ? 1e4 : 1e8 },
    }));
    const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 } } }, 'it');
    invariant(cluster.ok, 'a cluster');
    const { plan, idle, reasons, predicted } = planned(cluster.value, wishing(2));
    expect(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer))).not.toContain('spare');
    expect(new Set(countsIn(plan))).toEqual(new Set([2]));
    expect(idle).toEqual([]);
    expect(reasons.find(({ peer }) => peer === 'spare')?.text).toMatch(/keeps copies of [\d,]+ elements of the state/);
    expect(predicted.peers.find(({ peer }) => peer === 'spare')?.memoryBytes).toBeGreaterThan(0);
  });
});

describe('replicas of a plan that no measurement decides', () => {
  const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];
  const run = { model, batch, caps: new Map<PeerId, number>(), offer: [A, B, C] };

  it('[RE61] [RE68] as many as the donors give memory for, and a sentence where there are fewer', () => {
    const plan = equalSplit(model, batch.samples, [A, B, C]);
    expect(replicatedWithin(run, plan, wishing(1)).reasons).toEqual([]);
    for (const share of [0, 0.1, 0.4, 0.9]) {
      const whole = replicatedWithin(run, plan, wishing(1)).plan;
      const caps = new Map(
        [A, B, C].map((peer) => {
          const [least, most] = [plan, whole].map((one) => plannedBytes(model, one, peer, batch));
          return [peer, Math.round((least ?? 0) + share * ((most ?? 0) - (least ?? 0)))];
        }),
      );
      const { plan: copied, reasons } = replicatedWithin({ ...run, caps }, plan, wishing(1));
      for (const [peer, cap] of caps) expect(plannedBytes(model, copied, peer, batch)).toBeLessThanOrEqual(cap);
      expect(problems(model, batch, copied)).toEqual([]);
      expect(reasons).toEqual([
        { peer: null, isWarning: true, text: expect.stringMatching(/has no room for more\. When/) },
      ]);
      if (share === 0) expect(countsIn(copied)).not.toContain(1);
      else expect(countsIn(copied)).toContain(1);
    }
  });

  it('[RE60] [RE68] with one donor there is none, with two there is one of each', () => {
    const alone = fittingSplit({ model, batch, caps: run.caps, peers: [A], options: {} });
    invariant(alone.ok, 'a plan');
    expect(replicatedWithin({ ...run, offer: [A] }, alone.value, wishing(1)).reasons).toEqual([
      {
        ...{ peer: null, isWarning: true },
        text: 'One donor keeps the only copy of the state. When it is gone, the run goes back to its newest checkpoint.',
      },
    ]);
    const two = replicatedWithin({ ...run, offer: [A, B] }, equalSplit(model, batch.samples, [A, B]), wishing(2));
    expect(new Set(countsIn(two.plan))).toEqual(new Set([1]));
    expect(two.reasons.map(({ text }) => text)).toEqual([
      'Nothing of the training state (weights and optimizer) has 2 copies with other donors, because there are 2 donors. When every donor that keeps a part is gone, the run goes back to its newest checkpoint.',
    ]);
  });

  it('[RE63] another network comes before another browser, and that before the same one', () => {
    const plan = equalSplit(model, batch.samples, [A]);
    const D = peerId('d');
    const site = (network: string, browser: string) => ({ network, browser });
    const sites = { a: site('home', 'x'), b: site('home', 'x'), c: site('home', 'y'), d: site('away', 'z') };
    const order = (offer: readonly PeerId[]): PeerId[] =>
      peersOf(replicatedWithin({ ...run, offer }, plan, { ...wishing(1), sites }).plan);
    expect(order([A, B, C, D])).toEqual([A, D]);
    expect(order([A, B, C])).toEqual([A, C]);
    expect(order([A, B])).toEqual([A, B]);
  });

  it('[RE69] what a plan lacks of its copies is told in shares of its state; one next door counts half', () => {
    const plan = equalSplit(model, batch.samples, [A, B]);
    const { plan: copied } = replicatedWithin({ ...run, offer: [A, B] }, plan, wishing(1));
    const near = { network: 'home', browser: null };
    expect(lackOf(plan, wishing(1))).toBe(1);
    expect(lackOf(copied, wishing(1))).toBe(0);
    expect(lackOf(copied, { ...wishing(1), sites: { a: near, b: near } })).toBe(0.5);
  });
});
