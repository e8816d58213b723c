/**
 * What holds a step up: each thing that it may wait for is made twice as good alone, under the same plan, and the one by
 * which the step becomes shortest is named. A what-if over the same plan can so never say something else.
 */
import { at, got, type PeerId } from '../base.ts';
import { type MicroBatch, type Plan, peers as peersOf } from '../plan/plan.ts';
import type { Cluster, ClusterPeer } from './cluster.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { forecast } from './forecast.ts';
import { faster } from './whatIf.ts';

/**
 * compute: of one donor. line: between two neighbours, its rate and delay and the caps of its ends. parts: twice as many
 * micro-batches in flight, of half the size. exchange: of gradient sums and new values, with the update. copies: none are made.
 */
type LimitKind = 'compute' | 'line' | 'parts' | 'exchange' | 'copies';

export interface StepLimit {
  readonly kind: LimitKind;
  /** The donor, or the line's ends. */
  readonly peers: readonly PeerId[];
  /** The share of the step that would be saved. */
  readonly gain: number;
}

/** Donors and lines that are tried, those first that are busiest. */
const MOST_TRIED = 12;

/** The greatest gain first. */
export function stepLimits(problem: ClusterProblem, plan: Plan): StepLimit[] {
  const { cluster } = problem;
  const costs = clusterCosts(problem);
  const { stepSeconds, stateSeconds, peers } = forecast(costs, plan);
  const saved = (seconds: number): number => 1 - seconds / stepSeconds;
  const inCluster = (changed: Cluster): number =>
    saved(forecast(clusterCosts({ ...problem, cluster: changed }), plan).stepSeconds);
  const busiest = [...peers].toSorted(([, a], [, b]) => b.busySeconds - a.busySeconds).slice(0, MOST_TRIED);
  const slowest = linesOf(plan)
    .map((ends) => ({ ends, rate: costs.link(...ends).bytesPerSecond ?? Infinity }))
    .toSorted((a, b) => a.rate - b.rate)
    .slice(0, MOST_TRIED);
  const halved = withHalves(plan);
  const hasCopies = plan.state.some(({ shards }) => shards.some(({ replicas }) => replicas.length > 0));
  return [
    ...busiest.map(([peer]): StepLimit => {
      const changed = cluster.peers.map((one) => (one.id === peer ? faster(one, 2) : one));
      return { kind: 'compute', peers: [peer], gain: inCluster({ ...cluster, peers: changed }) };
    }),
    ...slowest.map(({ ends }): StepLimit => {
      const changed = withLine(cluster, ends, costs.link(...ends).latencySeconds);
      return { kind: 'line', peers: ends, gain: inCluster(changed) };
    }),
    ...(halved ? [{ kind: 'parts' as const, peers: [], gain: saved(forecast(costs, halved).stepSeconds) }] : []),
    { kind: 'exchange' as const, peers: [], gain: stateSeconds / 2 / stepSeconds },
    ...(hasCopies
      ? [{ kind: 'copies' as const, peers: [], gain: saved(forecast(costs, withoutCopies(plan)).stepSeconds) }]
      : []),
  ].toSorted((a, b) => b.gain - a.gain);
}

/** Whoever hands activations and gradients to each other. */
function linesOf({ stages }: Plan): (readonly [PeerId, PeerId])[] {
  const found = new Map<string, readonly [PeerId, PeerId]>();
  const ownersOf = (stage: number): Map<number, PeerId> =>
    new Map(at(stages, stage).members.flatMap(({ peer, microBatches }) => microBatches.map((id) => [id, peer])));
  for (let stage = 1; stage < stages.length; stage++) {
    const before = ownersOf(stage - 1);
    for (const [id, peer] of ownersOf(stage)) {
      const other = before.get(id);
      if (other === undefined || other === peer) continue;
      const [one, two] = other < peer ? [other, peer] : [peer, other];
      found.set(`${one} ${two}`, [one, two]);
    }
  }
  return [...found.values()];
}

/** This line at twice the rate, streams included, and half the delay; both its ends send and get twice as much. */
function withLine({ peers, links }: Cluster, ends: readonly [PeerId, PeerId], latencySeconds: number): Cluster {
  const twice = (value: number | null): number | null => (value === null ? null : 2 * value);
  const isEnd = (id: string): boolean => ends.some((end) => end === id);
  const own = links.pairs.find(({ between }) => between.every(isEnd));
  const region = (id: PeerId) => peers.find((peer) => peer.id === id)?.region;
  const shared = links.regions.find(
    ({ between: [a, b] }) =>
      (a === region(ends[0]) && b === region(ends[1])) || (b === region(ends[0]) && a === region(ends[1])),
  );
  const { bytesPerSecond = null, windowBytes = null } = { ...links.default, ...(own ?? shared) };
  const pair = {
    between: [...ends] as [string, string],
    ...{ latencySeconds: latencySeconds / 2, bytesPerSecond: twice(bytesPerSecond), windowBytes },
  };
  const wider = (peer: ClusterPeer): ClusterPeer => ({
    ...peer,
    uploadBytesPerSecond: twice(peer.uploadBytesPerSecond),
    downloadBytesPerSecond: twice(peer.downloadBytesPerSecond),
  });
  return {
    peers: peers.map((peer) => (isEnd(peer.id) ? wider(peer) : peer)),
    links: { ...links, pairs: [...links.pairs.filter((rule) => rule !== own), pair] },
  };
}

/** Each micro-batch in two; null where one has a single sample. */
function withHalves(plan: Plan): Plan | null {
  if (peersOf(plan).length < 2 || plan.stages.length < 2) return null;
  const halves = new Map<number, readonly [MicroBatch, MicroBatch]>();
  for (const { id, samples } of plan.microBatches) {
    const [from, to] = samples;
    const middle = (from + to) >> 1;
    if (middle === from) return null;
    halves.set(id, [
      { id: 2 * id, samples: [from, middle] },
      { id: 2 * id + 1, samples: [middle, to] },
    ]);
  }
  const both = (id: number): readonly MicroBatch[] => got(halves, id);
  return {
    ...plan,
    microBatches: plan.microBatches.flatMap(({ id }) => both(id)),
    stages: plan.stages.map((stage) => ({
      ...stage,
      members: stage.members.map((member) => ({
        ...member,
        microBatches: member.microBatches.flatMap((id) => both(id).map((half) => half.id)),
      })),
    })),
  };
}

const withoutCopies = (plan: Plan): Plan => ({
  ...plan,
  state: plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, replicas: [] })),
  })),
});
