/**
 * The exchange of state in a draft's step. The step has one barrier, the commit: everyone's work and gradient slices come
 * before it, updates and new values after it, over one link after the other.
 */
import { at, float } from '../base.ts';
import { block, layerBlock } from '../model/model.ts';
import { type ClusterCosts, downloadFrom, remembered, uploadTo } from './clusterCosts.ts';
import type { Draft, Layout, StageLanes } from './layout.ts';
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
  // A stage's members are among those who have shares of it.
  const taking: number[] = [];
  for (const own of shares) for (const place of own.keys()) taking.push(place);
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

/**
 * What a step takes at least whose lanes' work ends no earlier, wherever the members of a stage keep its state. A member h of
 * m that keeps a share s sends slices of 1 − s of it before the commit and values of (m − 1)·s after it. With u and d for
 * the seconds of all of the state at its best rates up and down:
 *
 *   after the commit   somebody takes A = (m − 1)/Σ1/u, or (m − 1)/Σ1/d, beside which work ends before it
 *   h alone            end + u and end + d, whatever its share is
 *   both               max(end + u) + A·(m − 2)/(m − 1), A of the way up
 *
 * A tied table goes from every member of the last stage to the first one's, and its values back.
 */
export function leastExchange(
  costs: ClusterCosts,
  draft: Draft,
  { stages }: Layout,
  ends: Float64Array,
  least: number,
): number {
  const { layer, embedding, head, table } = blockSizes(costs);
  const last = stages.length - 1;
  const tableBytes = costs.model.tied && last > 0 ? table * costs.stateElementBytes : 0;
  let most = least;
  let lane = 0;
  for (let stage = 0; stage <= last; stage++) {
    const own = at(stages, stage);
    const { lanes } = own;
    const elements = at(draft.layers, stage) * layer + (stage === 0 ? embedding : 0) + (stage === last ? head : 0);
    const bytes = elements * costs.stateElementBytes;
    if (lanes > 1) {
      const { up, down, upSum, downSum } = bestRates(costs, own);
      const values = ((lanes - 1) * bytes) / upSum;
      let latest = 0;
      for (let index = 0; index < lanes; index++) {
        const end = float(ends, lane + index);
        const later = (values * (lanes - 2)) / (lanes - 1);
        latest = Math.max(latest, end + bytes / float(up, index) + later, end + bytes / float(down, index));
      }
      most = Math.max(most, latest, least + Math.max(values, ((lanes - 1) * bytes) / downSum));
    }
    if (tableBytes > 0 && (stage === 0 || stage === last)) {
      let ups = 0;
      for (const [index, place] of own.places.entries()) {
        const { upload, download, line } = at(costs.peers, place);
        const [up, down] = line === null ? [upload, download] : [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
        ups += up;
        if (stage === last) most = Math.max(most, float(ends, lane + index) + tableBytes / up + tableBytes / down);
      }
      if (stage === 0) most = Math.max(most, least + ((lanes - 1) * bytes + at(stages, last).lanes * tableBytes) / ups);
    }
    lane += lanes;
  }
  return most;
}

interface BestRates {
  readonly up: Float64Array;
  readonly down: Float64Array;
  readonly upSum: number;
  readonly downSum: number;
}

const knownRates = new WeakMap<StageLanes, BestRates>();

/** Bytes a second of each member to and from the others of its stage: over the best of these links. */
function bestRates(costs: ClusterCosts, stage: StageLanes): BestRates {
  const known = knownRates.get(stage);
  if (known) return known;
  const { places, lanes } = stage;
  const [up, down] = [new Float64Array(lanes), new Float64Array(lanes)];
  let [upSum, downSum] = [0, 0];
  for (let index = 0; index < lanes; index++) {
    const place = at(places, index);
    const peer = at(costs.peers, place);
    for (let beside = 0; beside < lanes; beside++) {
      if (beside === index) continue;
      const other = at(costs.peers, at(places, beside));
      const limit = costs.linkAt(place, at(places, beside)).bytesPerSecond ?? Number.POSITIVE_INFINITY;
      up[index] = Math.max(float(up, index), Math.min(limit, uploadTo(peer, other)));
      down[index] = Math.max(float(down, index), Math.min(limit, downloadFrom(peer, other)));
    }
    upSum += float(up, index);
    downSum += float(down, index);
  }
  const found = { up, down, upSum, downSum };
  knownRates.set(stage, found);
  return found;
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
