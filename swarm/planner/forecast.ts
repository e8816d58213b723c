/**
 * What a plan would take on a cluster: its schedule through the simulator (Varuna: try candidates by simulating them),
 * then the exchange of state. Its one idea: the step has one barrier, the commit. Everyone's backwards and gradient
 * slices come before it, updates and the new values after it, so the exchange is worked out beside the simulation:
 *   step = max over peers (end of its work + its slices) + max over peers (its update + the values it waits for).
 * A peer's caps are shared out evenly over those it hands activations to, which is on the safe side.
 */
import { overlap, type PeerId } from '../base.ts';
import { holders, type Plan } from '../plan.ts';
import type { Schedule } from '../schedule/action.ts';
import { workGraph } from '../schedule/graph.ts';
import { addRecompute, build } from '../schedule/lower.ts';
import { wiring } from '../schedule/order.ts';
import type { LinkCost } from '../simulate/links.ts';
import { type Costs, simulateGraph } from '../simulate.ts';
import type { Timeline } from '../timeline.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';

const ELEMENT_BYTES = 4;

export interface PeerForecast {
  readonly busySeconds: number;
  readonly sentBytes: number;
}

export interface Forecast {
  readonly stepSeconds: number;
  /** Seconds after the commit, and of slices before it, at the peer that takes longest. */
  readonly stateSeconds: number;
  readonly peers: ReadonlyMap<PeerId, PeerForecast>;
}

export const shapeOf = (plan: Plan, stage: number): StageShape => {
  const [from, to] = plan.stages[stage]?.layers ?? [0, 0];
  return { first: stage === 0, last: stage === plan.stages.length - 1, layers: to - from };
};

/** The work of a step as it is predicted, without the exchange of state. */
export const predictedTimeline = (costs: ClusterCosts, plan: Plan): Timeline => simulated(costs, plan).timeline;

function simulated(costs: ClusterCosts, plan: Plan) {
  const peers = new Map(costs.peers.map((peer) => [peer.id, peer]));
  const schedule = addRecompute(plan, build(plan));
  const traffic = pipelineTraffic(costs, plan);
  const timeline = simulateGraph(
    workGraph(wiring(costs.model, plan, schedule), schedule),
    simulationCosts(costs, plan, peers, traffic.partners),
  );
  return { peers, schedule, traffic, timeline };
}

export function forecast(costs: ClusterCosts, plan: Plan): Forecast {
  const { peers, schedule, traffic, timeline } = simulated(costs, plan);
  const busy = new Map<PeerId, number>();
  const end = new Map<PeerId, number>();
  for (const { peer, startSeconds, endSeconds } of timeline) {
    busy.set(peer, (busy.get(peer) ?? 0) + endSeconds - startSeconds);
    end.set(peer, Math.max(end.get(peer) ?? 0, endSeconds));
  }
  const exchange = stateExchange(costs, plan);
  let committed = 0;
  let after = 0;
  let slices = 0;
  const found = new Map<PeerId, PeerForecast>();
  for (const peer of namesOf(schedule)) {
    const own = peers.get(peer);
    if (!own) continue;
    const reduce = exchangeSeconds(costs, own, exchange.slices);
    const update = costs.updateSeconds(own, exchange.kept.get(peer) ?? 0);
    const gather = exchangeSeconds(costs, own, exchange.values);
    committed = Math.max(committed, (end.get(peer) ?? 0) + reduce);
    slices = Math.max(slices, reduce);
    after = Math.max(after, update + gather);
    const sent = (traffic.sent.get(peer) ?? 0) + sum(exchange.slices.get(peer)) + sum(exchange.values.get(peer));
    found.set(peer, { busySeconds: (busy.get(peer) ?? 0) + update, sentBytes: sent });
  }
  return { stepSeconds: committed + after, stateSeconds: slices + after, peers: found };
}

const namesOf = (schedule: Schedule): PeerId[] => [...schedule.keys()];
const sum = (to: ReadonlyMap<PeerId, number> = new Map()): number => [...to.values()].reduce((a, b) => a + b, 0);

/** Who hands activations and gradients to whom. */
function pipelineTraffic(costs: ClusterCosts, plan: Plan) {
  const sizes = new Map(plan.microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));
  const owners = plan.stages.map(
    ({ members }) =>
      new Map(members.flatMap(({ peer, microBatches }) => microBatches.map((id) => [id, peer] as const))),
  );
  const partners = new Map<PeerId, Set<PeerId>>();
  const sent = new Map<PeerId, number>();
  const join = (from: PeerId, to: PeerId, samples: number): void => {
    partners.set(from, (partners.get(from) ?? new Set()).add(to));
    sent.set(from, (sent.get(from) ?? 0) + samples * costs.sampleBytes);
  };
  for (let stage = 1; stage < owners.length; stage++) {
    for (const [id, samples] of sizes) {
      const [a, b] = [owners[stage - 1]?.get(id), owners[stage]?.get(id)];
      if (a === undefined || b === undefined || a === b) continue;
      join(a, b, samples);
      join(b, a, samples);
    }
  }
  return { partners, sent };
}

function simulationCosts(
  costs: ClusterCosts,
  plan: Plan,
  peers: ReadonlyMap<PeerId, PlannedPeer>,
  partners: ReadonlyMap<PeerId, ReadonlySet<PeerId>>,
): Costs {
  const sizes = new Map(plan.microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));
  const size = (id: number): number => sizes.get(id) ?? 0;
  const shapes = plan.stages.map((_, stage) => shapeOf(plan, stage));
  const again = plan.stages.map(
    ({ members }) => new Map(members.map(({ peer, recompute }) => [peer, recompute.length])),
  );
  const known = new Map<string, number>();
  const cached = (key: string, seconds: () => number): number => {
    const found = known.get(key) ?? seconds();
    known.set(key, found);
    return found;
  };
  const links = new Map<string, LinkCost>();
  const bytes = (_: number, id: number): number => size(id) * costs.sampleBytes;
  const timed =
    (op: string, seconds: (peer: PlannedPeer, shape: StageShape, samples: number, stage: number) => number) =>
    (stage: number, id: number, peer: PeerId): number =>
      cached(`${op} ${stage} ${size(id)} ${peer}`, () => {
        const [own, shape] = [peers.get(peer), shapes[stage]];
        return own && shape ? seconds(own, shape, size(id), stage) : 0;
      });
  return {
    forwardSeconds: timed('F', costs.forwardSeconds),
    backwardSeconds: timed('B', costs.backwardSeconds),
    recomputeSeconds: timed(
      'R',
      (peer, _, samples, stage) => costs.layerSeconds(peer, samples) * (again[stage]?.get(peer.id) ?? 0),
    ),
    link(from, to) {
      const key = `${from} ${to}`;
      const found = links.get(key);
      if (found) return found;
      const { latencySeconds, bytesPerSecond } = costs.link(from, to);
      const rate = Math.min(
        bytesPerSecond ?? Number.POSITIVE_INFINITY,
        (peers.get(from)?.upload ?? Number.POSITIVE_INFINITY) / (partners.get(from)?.size || 1),
        (peers.get(to)?.download ?? Number.POSITIVE_INFINITY) / (partners.get(to)?.size || 1),
      );
      const cost = { latencySeconds, bytesPerSecond: rate === Number.POSITIVE_INFINITY ? null : rate };
      links.set(key, cost);
      return cost;
    },
    activationBytes: bytes,
    gradientBytes: bytes,
  };
}

type Bytes = Map<PeerId, Map<PeerId, number>>;

/** Gradient slices from every holder to the shard's primary, values the other way; elements that each primary keeps. */
function stateExchange({ model }: ClusterCosts, plan: Plan) {
  const slices: Bytes = new Map();
  const values: Bytes = new Map();
  const kept = new Map<PeerId, number>();
  const add = (bytes: Bytes, from: PeerId, to: PeerId, more: number): void => {
    const own = bytes.get(from) ?? new Map<PeerId, number>();
    own.set(to, (own.get(to) ?? 0) + more);
    bytes.set(from, own);
  };
  for (const { block, shards } of plan.state) {
    const order = holders(model, plan, block);
    for (const { peer, range } of shards) {
      kept.set(peer, (kept.get(peer) ?? 0) + range[1] - range[0]);
      for (const holder of order) {
        if (holder.peer === peer) continue;
        for (const part of holder.ranges) {
          const [from, to] = overlap(part, range) ?? [0, 0];
          if (from === to) continue;
          add(slices, holder.peer, peer, (to - from) * ELEMENT_BYTES);
          add(values, peer, holder.peer, (to - from) * ELEMENT_BYTES);
        }
      }
    }
  }
  return { slices, values, kept };
}

/** Until this peer has sent and received what it has to: its slowest link, or its own cap. */
function exchangeSeconds(costs: ClusterCosts, peer: PlannedPeer, bytes: Bytes): number {
  let seconds = 0;
  let [up, down] = [0, 0];
  const take = (other: PeerId, amount: number): void => {
    const { latencySeconds, bytesPerSecond } = costs.link(peer.id, other);
    seconds = Math.max(seconds, latencySeconds + (bytesPerSecond === null ? 0 : amount / bytesPerSecond));
  };
  for (const [to, amount] of bytes.get(peer.id) ?? []) {
    take(to, amount);
    up += amount;
  }
  for (const [from, sent] of bytes) {
    const amount = sent.get(peer.id);
    if (amount === undefined) continue;
    take(from, amount);
    down += amount;
  }
  return Math.max(seconds, up / peer.upload, down / peer.download);
}
