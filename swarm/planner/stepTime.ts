/**
 * What a draft's step takes. It is what the simulator says of the draft's plan (forecast.ts), without making either: everyone
 * works in a fixed order, so a piece begins when its peer is free and what it needs has come, and one walk along the draft's
 * order settles all of them. Long steps are walked in part: a pipeline in its steady state does the same again and again.
 */
import { at, outside } from '../base.ts';
import { SLACK_SECONDS } from '../limits.ts';
import { type ClusterCosts, remembered, type StageShape } from './clusterCosts.ts';
import { timesAsLong } from './gathering.ts';
import { type Draft, type Layout, layoutOf, shapesOf } from './layout.ts';
import type { Shares } from './stageFit.ts';

const ELEMENT_BYTES = 4;
/** A longer walk, of so many forwards, is cut short. */
const MOST_FORWARDS = 512;
/** But not to fewer than so many times those that a full pipeline has in flight: it has to be full for a while. */
const PARTS = 3;

/** A draft's stages in its peers' memory. */
export interface Fit {
  readonly missingBytes: number;
  /** Of each stage. */
  readonly lacking: readonly number[];
  readonly recomputed: readonly (readonly number[])[];
  readonly shares: readonly Shares[];
}

const number = (values: Float64Array | Int32Array, index: number): number => values[index] ?? outside(values, index);

/** Micro-batches that are looked at. */
function mostWalked({ groups }: Draft): number {
  const inFlight = groups.length * Math.max(...groups.map((group) => group.length));
  return Math.max(Math.ceil(MOST_FORWARDS / groups.length), PARTS * inFlight);
}

/** As much of a draft as says what it takes: under 1F1B no more are in flight, however long the step. */
export function partOf(costs: ClusterCosts, draft: Draft): Layout | null {
  const { microBatches: count, schedule } = draft;
  const isCut = count !== 'sized' && schedule === '1f1b' && count <= costs.batch.samples;
  return layoutOf(costs, draft, isCut ? Math.min(count, mostWalked(draft)) : count);
}

/** Whole, or as the walks along two parts of it go on. */
export function secondsOf(costs: ClusterCosts, draft: Draft, layout: Layout, fit: Fit): number {
  const { microBatches: count } = draft;
  const most = mostWalked(draft);
  const step = (ends: readonly Float64Array[]): number => withExchange(costs, draft, layout, fit, ends);
  if (count === 'sized' || count <= most) return step(workEnds(costs, draft, layout, fit));
  const [short, long] = [
    layoutOf(costs, draft, Math.ceil(most / PARTS)),
    layout.sizes.length === most ? layout : layoutOf(costs, draft, most),
  ];
  if (short === null || long === null) return Number.POSITIVE_INFINITY;
  const [early, late] = [workEnds(costs, draft, short, fit), workEnds(costs, draft, long, fit)];
  const times = (count - most) / (most - Math.ceil(most / PARTS));
  return step(
    layout.stages.map(({ places }, stage) =>
      Float64Array.from(places, (place) => {
        const [part, whole] = [endOf(short, early, stage, place), endOf(long, late, stage, place)];
        return whole + times * Math.max(0, whole - part);
      }),
    ),
  );
}

function endOf({ stages }: Layout, ends: readonly Float64Array[], stage: number, place: number): number {
  const lane = at(stages, stage).places.indexOf(place);
  return lane < 0 ? 0 : number(at(ends, stage), lane);
}

/** When each lane of each stage has done its part of the step. */
function workEnds(costs: ClusterCosts, draft: Draft, layout: Layout, fit: Fit): Float64Array[] {
  const { sizes, stages, order } = layout;
  const lanes = shapesOf(draft).map((shape, stage) => workOf(costs, draft, layout, fit, stage, shape));
  const links = linksOf(costs, layout);
  for (const code of order) {
    const work = code >> 1;
    const stage = work % stages.length;
    const id = (work - stage) / stages.length;
    const isBackward = (code & 1) === 1;
    const own = lanes[stage] ?? outside(lanes, stage);
    const lane = number(own.laneOf, id);
    const rest = number(own.rest, lane);
    const free = number(own.free, lane) + (isBackward ? number(own.ahead, id) : 0);
    const start = Math.max(free, number(isBackward ? own.gradientAt : own.inputAt, id));
    const seconds = number(isBackward ? own.backward : own.forward, id);
    // Its outcome leaves before its peer has rested from it.
    const done = start + seconds * (1 - rest);
    if (rest > 0) own.rested[lane] = Math.max(number(own.rested, lane), start - SLACK_SECONDS) + seconds;
    own.free[lane] = Math.max(done, number(own.rested, lane));
    const next = isBackward ? stage - 1 : stage + 1;
    const to = lanes[next];
    const link = links[isBackward ? next : stage]?.[isBackward ? 'backward' : 'forward'];
    if (!to || !link) continue;
    const pair = lane * to.lanes + number(to.laneOf, id);
    const sent = Math.max(done, number(link.free, pair)) + number(sizes, id) * number(link.secondsPerSample, pair);
    link.free[pair] = sent;
    (isBackward ? to.gradientAt : to.inputAt)[id] = sent + number(link.latency, pair);
  }
  return lanes.map(({ free }) => free);
}

/** What each micro-batch takes in a stage, and how far the stage is on the walk. */
function workOf(costs: ClusterCosts, draft: Draft, layout: Layout, fit: Fit, stage: number, shape: StageShape) {
  const { sizes, stages } = layout;
  const { places, laneOf, lanes } = at(stages, stage);
  const gathered = draft.gathered?.[stage] ?? 0;
  const recomputed = at(fit.recomputed, stage);
  const column = () => new Float64Array(sizes.length);
  const [forward, backward, ahead] = [column(), column(), column()];
  // A lane's micro-batches are of one size, or two.
  const latest = new Int32Array(lanes).fill(-1);
  for (let id = 0; id < sizes.length; id++) {
    const [lane, size] = [number(laneOf, id), number(sizes, id)];
    const before = number(latest, lane);
    latest[lane] = id;
    if (before >= 0 && number(sizes, before) === size) {
      forward[id] = number(forward, before);
      backward[id] = number(backward, before);
      ahead[id] = number(ahead, before);
      continue;
    }
    const peer = at(costs.peers, at(places, lane));
    const longer = gathered ? timesAsLong(costs, places, size, gathered) : 1;
    const layer = longer * costs.layerSeconds(peer, size);
    const twice = at(recomputed, lane);
    forward[id] = longer * costs.forwardSeconds(peer, shape, size);
    backward[id] = longer * costs.backwardSeconds(peer, shape, size) + layer * Math.max(0, twice - 1);
    // Of the layers that are computed again the first one is done while the gradient is on its way.
    ahead[id] = layer * Math.min(1, twice);
  }
  return {
    ...{ laneOf, lanes, forward, backward, ahead },
    rest: Float64Array.from(places, (place) => at(costs.peers, place).rest),
    free: new Float64Array(lanes),
    rested: new Float64Array(lanes),
    // When what each micro-batch's forward and backward need is here.
    inputAt: column(),
    gradientAt: column(),
  };
}

/** From each lane of a stage to each of the next one, and back. */
function linksOf(costs: ClusterCosts, { sizes, stages }: Layout) {
  const hops = stages.slice(1).map((to, stage) => {
    const from = at(stages, stage);
    const meets = new Uint8Array(from.lanes * to.lanes);
    for (let id = 0; id < sizes.length; id++) meets[number(from.laneOf, id) * to.lanes + number(to.laneOf, id)] = 1;
    return { from, to, meets };
  });
  // Caps are shared by all to whom a peer hands something.
  const partners = stages.map(({ lanes }) => new Int32Array(lanes));
  for (const [stage, { from, to, meets }] of hops.entries())
    for (let a = 0; a < from.lanes; a++)
      for (let b = 0; b < to.lanes; b++) {
        if (meets[a * to.lanes + b] === 0) continue;
        const [one, other] = [at(partners, stage), at(partners, stage + 1)];
        one[a] = number(one, a) + 1;
        other[b] = number(other, b) + 1;
      }
  return hops.map(({ from, to, meets }, stage) => {
    const column = () => new Float64Array(meets.length);
    const way = () => ({ free: column(), secondsPerSample: column(), latency: column() });
    const [forward, backward] = [way(), way()];
    for (let a = 0; a < from.lanes; a++)
      for (let b = 0; b < to.lanes; b++) {
        if (meets[a * to.lanes + b] === 0) continue;
        const [one, other] = [at(costs.peers, at(from.places, a)), at(costs.peers, at(to.places, b))];
        const { latencySeconds, bytesPerSecond } = costs.linkAt(at(from.places, a), at(to.places, b));
        const [ours, theirs] = [number(at(partners, stage), a), number(at(partners, stage + 1), b)];
        const limit = bytesPerSecond ?? Number.POSITIVE_INFINITY;
        const [there, home] = [a * to.lanes + b, b * from.lanes + a];
        forward.latency[there] = latencySeconds;
        backward.latency[home] = latencySeconds;
        forward.secondsPerSample[there] =
          costs.sampleBytes / Math.min(limit, one.upload / ours, other.download / theirs);
        backward.secondsPerSample[home] =
          costs.sampleBytes / Math.min(limit, other.upload / theirs, one.download / ours);
      }
    return { forward, backward };
  });
}

/**
 * The step has one barrier, the commit. Everyone's work and gradient slices come before it, updates and new values after it,
 * over one link after the other.
 */
function withExchange(costs: ClusterCosts, draft: Draft, { stages }: Layout, fit: Fit, ends: readonly Float64Array[]) {
  const traffic = new Map<number, Traffic>();
  const of = (place: number): Traffic => {
    const own = traffic.get(place) ?? { ...NO_TRAFFIC };
    traffic.set(place, own);
    return own;
  };
  for (const [stage, { places }] of stages.entries())
    for (const [lane, place] of places.entries()) of(place).end = number(at(ends, stage), lane);
  const last = stages.length - 1;
  const sizes = blockSizes(costs);
  for (const [stage, shares] of fit.shares.entries()) {
    const whole = [...shares.values()].reduce((sum, share) => sum + share, 0) || 1;
    const elements =
      at(draft.layers, stage) * sizes.layer + (stage === 0 ? sizes.embedding : 0) + (stage === last ? sizes.head : 0);
    let begun = 0;
    for (const [keeper, share] of shares) {
      const part = share / whole;
      const [from, to] = [begun * sizes.embedding, (begun + part) * sizes.embedding];
      begun += part;
      of(keeper).kept += part * elements;
      if (draft.gathered?.[stage]) continue;
      for (const holder of at(stages, stage).places)
        exchange(costs, of, holder, keeper, part * elements * ELEMENT_BYTES);
      if (stage > 0 || last === 0 || !costs.model.tied) continue;
      // The table comes first in the embedding.
      const table = Math.max(0, Math.min(to, sizes.table) - from);
      for (const holder of at(stages, last).places) exchange(costs, of, holder, keeper, table * ELEMENT_BYTES);
    }
  }
  let [before, after] = [0, 0];
  for (const [place, own] of traffic) {
    const update = costs.updateSeconds(at(costs.peers, place), own.kept);
    before = Math.max(before, own.end + Math.max(own.slicesOut + own.outLatency, own.slicesIn + own.inLatency));
    after = Math.max(after, update + Math.max(own.valuesOut + own.inLatency, own.valuesIn + own.outLatency));
  }
  return before + after;
}

/** A peer's, in seconds; the latencies are those to keepers of what it holds, and to holders of what it keeps. */
interface Traffic {
  end: number;
  kept: number;
  slicesOut: number;
  slicesIn: number;
  valuesOut: number;
  valuesIn: number;
  outLatency: number;
  inLatency: number;
}
const NO_TRAFFIC: Traffic = {
  ...{ end: 0, kept: 0, slicesOut: 0, slicesIn: 0, valuesOut: 0, valuesIn: 0, outLatency: 0, inLatency: 0 },
};

/** Slices of a gradient to who keeps the state, and its new values back. */
function exchange(costs: ClusterCosts, of: (place: number) => Traffic, holder: number, keeper: number, bytes: number) {
  if (holder === keeper || bytes === 0) return;
  const { latencySeconds, bytesPerSecond } = costs.linkAt(holder, keeper);
  const limit = bytesPerSecond ?? Number.POSITIVE_INFINITY;
  const [one, other] = [at(costs.peers, holder), at(costs.peers, keeper)];
  const [ours, theirs] = [of(holder), of(keeper)];
  ours.slicesOut += bytes / Math.min(limit, one.upload);
  theirs.slicesIn += bytes / Math.min(limit, other.download);
  theirs.valuesOut += bytes / Math.min(limit, other.upload);
  ours.valuesIn += bytes / Math.min(limit, one.download);
  ours.outLatency = Math.max(ours.outLatency, latencySeconds);
  theirs.inLatency = Math.max(theirs.inLatency, latencySeconds);
}

const knownSizes = remembered<{ layer: number; embedding: number; head: number; table: number }>();

const blockSizes = (costs: ClusterCosts) =>
  knownSizes(costs, 0, () => {
    const of = (name: string) => costs.model.blocks.find((block) => block.name === name);
    const embedding = of('embedding');
    return {
      layer: of('layer.0')?.elements ?? 0,
      embedding: embedding?.elements ?? 0,
      head: of('head')?.elements ?? 0,
      table: embedding?.tensors[0]?.elements ?? 0,
    };
  });
