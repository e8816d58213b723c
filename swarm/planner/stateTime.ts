/**
 * The exchange of state in a draft's step. The step has one barrier, the commit: everyone's work and gradient slices come
 * before it, updates and new values after it, over one link after the other.
 */
import { at, float } from '../base.ts';
import { block, layerBlock } from '../model/model.ts';
import { type ClusterCosts, downloadFrom, remembered, uploadTo } from './clusterCosts.ts';
import type { Draft, Layout } from './layout.ts';
import type { Shares } from './stageFit.ts';

/** The end of the work of who computes nothing: its slices begin with the work's ends of those who send them. */
const NO_WORK = -1;

/** Of each peer by its place, in seconds; the latencies are those to keepers of what it holds, and to holders of what it keeps. */
interface Traffic {
  readonly end: Float64Array;
  readonly kept: Float64Array;
  readonly slicesOut: Float64Array;
  readonly slicesIn: Float64Array;
  readonly valuesOut: Float64Array;
  readonly valuesIn: Float64Array;
  readonly outLatency: Float64Array;
  readonly inLatency: Float64Array;
}

const knownTraffic = remembered<Traffic>();

/** Zeros for these peers. */
function trafficOf(costs: ClusterCosts, places: readonly number[]): Traffic {
  const column = () => new Float64Array(costs.peers.length);
  const traffic = knownTraffic(costs, 0, () => ({
    ...{ end: column(), kept: column(), slicesOut: column(), slicesIn: column() },
    ...{ valuesOut: column(), valuesIn: column(), outLatency: column(), inLatency: column() },
  }));
  const { end, kept, slicesOut, slicesIn, valuesOut, valuesIn, outLatency, inLatency } = traffic;
  for (const place of places) {
    end[place] = kept[place] = slicesOut[place] = slicesIn[place] = 0;
    valuesOut[place] = valuesIn[place] = outLatency[place] = inLatency[place] = 0;
  }
  return traffic;
}

/** Of a whole step, whose lanes' work ends then; nobody commits earlier than `least`. */
export function exchangeSeconds(
  costs: ClusterCosts,
  draft: Draft,
  { stages }: Layout,
  { shares, hosted }: { readonly shares: readonly Shares[]; readonly hosted: ReadonlyMap<number, number> },
  ends: Float64Array,
  least = 0,
): number {
  const taking = stages.flatMap(({ places }, stage) => [...places, ...at(shares, stage).keys()]);
  const traffic = trafficOf(costs, taking);
  let lane = 0;
  for (const place of taking) traffic.end[place] = NO_WORK;
  for (const { places } of stages) for (const place of places) traffic.end[place] = float(ends, lane++);
  const last = stages.length - 1;
  const sizes = blockSizes(costs);
  const elementBytes = costs.stateElementBytes;
  // Later stages end their backwards first: who keeps state and computes nothing gets their slices first.
  for (let stage = last; stage >= 0; stage--) {
    const own = at(shares, stage);
    let whole = 0;
    for (const share of own.values()) whole += share;
    const elements =
      at(draft.layers, stage) * sizes.layer + (stage === 0 ? sizes.embedding : 0) + (stage === last ? sizes.head : 0);
    let begun = 0;
    for (const [keeper, share] of own) {
      const part = share / (whole || 1);
      const [from, to] = [begun * sizes.embedding, (begun + part) * sizes.embedding];
      begun += part;
      traffic.kept[keeper] = float(traffic.kept, keeper) + part * elements;
      if (draft.gathered?.[stage]) continue;
      for (const holder of at(stages, stage).places)
        exchange(costs, traffic, holder, keeper, part * elements * elementBytes);
      if (stage > 0 || last === 0 || !costs.model.tied) continue;
      // The table comes first in the embedding.
      const table = Math.max(0, Math.min(to, sizes.table) - from);
      for (const holder of at(stages, last).places) exchange(costs, traffic, holder, keeper, table * elementBytes);
    }
  }
  const { end, kept, slicesOut, slicesIn, valuesOut, valuesIn, outLatency, inLatency } = traffic;
  let [before, after] = [least, 0];
  for (const place of taking) {
    const peer = at(costs.peers, place);
    const inHost = hosted.get(place) ?? 0;
    const update = Math.max(
      costs.updateSeconds(peer, Math.max(0, float(kept, place) - inHost)),
      costs.hostUpdateSeconds(peer, inHost),
    );
    const [out, into] = [float(outLatency, place), float(inLatency, place)];
    const [worked, arrived] = [float(end, place), float(slicesIn, place) + into];
    const reported = worked === NO_WORK ? arrived : worked + Math.max(float(slicesOut, place) + out, arrived);
    before = Math.max(before, peer.serverSeconds + reported + costs.hostSumSeconds(peer, inHost));
    after = Math.max(
      after,
      peer.serverSeconds + update + Math.max(float(valuesOut, place) + into, float(valuesIn, place) + out),
    );
  }
  return before + after;
}

/** Slices of a gradient to who keeps the state, and its new values back. */
function exchange(costs: ClusterCosts, traffic: Traffic, holder: number, keeper: number, bytes: number): void {
  if (holder === keeper || bytes === 0) return;
  const { latencySeconds, bytesPerSecond } = costs.linkAt(holder, keeper);
  const limit = bytesPerSecond ?? Number.POSITIVE_INFINITY;
  const [one, other] = [at(costs.peers, holder), at(costs.peers, keeper)];
  const { end, slicesOut, slicesIn, valuesOut, valuesIn, outLatency, inLatency } = traffic;
  slicesOut[holder] = float(slicesOut, holder) + bytes / Math.min(limit, uploadTo(one, other));
  const begins =
    float(end, keeper) === NO_WORK ? Math.max(float(slicesIn, keeper), float(end, holder)) : float(slicesIn, keeper);
  slicesIn[keeper] = begins + bytes / Math.min(limit, downloadFrom(other, one));
  valuesOut[keeper] = float(valuesOut, keeper) + bytes / Math.min(limit, uploadTo(other, one));
  valuesIn[holder] = float(valuesIn, holder) + bytes / Math.min(limit, downloadFrom(one, other));
  outLatency[holder] = Math.max(float(outLatency, holder), latencySeconds);
  inLatency[keeper] = Math.max(float(inLatency, keeper), latencySeconds);
}

const knownSizes = remembered<{ layer: number; embedding: number; head: number; table: number }>();

const blockSizes = (costs: ClusterCosts) =>
  knownSizes(costs, 0, () => {
    const embedding = block(costs.model, 'embedding');
    return {
      layer: block(costs.model, layerBlock(0)).elements,
      embedding: embedding.elements,
      head: block(costs.model, 'head').elements,
      table: at(embedding.tensors, 0).elements,
    };
  });
