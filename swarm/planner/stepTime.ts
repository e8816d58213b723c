/**
 * What a draft's step takes. It is what the simulator says of the draft's plan (forecast.ts), without making either: everyone
 * works in a fixed order, so a piece begins when its peer is free and what it needs has come, and one walk along the draft's
 * order settles all of them. Long steps are walked in part: a pipeline in its steady state does the same again and again.
 * And what it takes at least, from sums alone: most drafts of a search need not be walked.
 * The exchange of state at its end goes over one link after the other.
 */
import { at, float, int, outside } from '../base.ts';
import { SLACK_SECONDS } from '../limits.ts';
import { type BlockName, layerBlock, type Model } from '../model/model.ts';
import { hopTicks } from '../schedule/oneForwardOneBackward.ts';
import { type ClusterCosts, downloadFrom, memo, uploadTo } from './clusterCosts.ts';
import { timesAsLong } from './gathering.ts';
import {
  type BestRates,
  backwardAfter,
  column,
  type Draft,
  type Layout,
  layoutOf,
  type Order,
  type Shares,
  type StageLanes,
  type Ticks,
  workOrder,
} from './layout.ts';

/** A longer walk, of so many forwards, is cut short. */
const MOST_FORWARDS = 512;
/** But not to fewer than so many times those that a full pipeline has in flight: it has to be full for a while. */
const PARTS = 3;

const ROUNDING = 1e-9;

/** A draft's stages in its peers' memory. */
export interface Fit {
  readonly missingBytes: number;
  /** The same of each stage. */
  readonly missing: readonly number[];
  /** Of each stage, bytes for which its members' GPUs have no room. */
  readonly lacking: readonly number[];
  /** Some GPU takes no buffer so large: other layers change nothing of it. */
  readonly hasExcess: boolean;
  readonly recomputed: readonly (readonly number[])[];
  readonly shares: readonly Shares[];
  /** Of each peer by its place, elements whose state lies in main memory; whoever has none is not in it. */
  readonly hosted: ReadonlyMap<number, number>;
}

/**
 * What micro-batches take in each lane and over each link of a draft. Lanes of all stages are numbered through, and so are
 * the links from each lane of a stage to each of the next one. Of a lane's times there are two: for micro-batches of the
 * first size and of the last one. Arrays are longer than they need be: those of one draft serve the next.
 */
type Pace = ReturnType<typeof paceOfLength>;

const knownPaces = memo<Pace>();

function paceOfLength(length: number) {
  const floats = () => new Float64Array(length);
  const ints = () => new Int32Array(length);
  return {
    ...{ firstLane: ints(), firstLink: ints(), partners: ints(), order: ints() },
    /** `ahead`: what is computed again while the gradient is on its way. */
    ...{ forward: floats(), backward: floats(), ahead: floats(), rest: floats() },
    /** 1: what leaves this lane's peer takes turns on its line. */
    takesTurns: new Uint8Array(length),
    /** Of a link: its latency, seconds a sample forward and backward, and samples that go over it. */
    ...{ latency: floats(), there: floats(), home: floats(), through: ints() },
    /** How far a walk is: until when lanes work and rest, and links carry. */
    ...{ free: floats(), rested: floats(), lineFree: floats(), thereFree: floats(), homeFree: floats() },
    /** When what each micro-batch's forward and backward need is here, of each stage. */
    ...{ inputAt: floats(), gradientAt: floats() },
  };
}

/** With room for so many stages, lanes, links and forwards. */
function paceFor(costs: ClusterCosts, ...counts: readonly number[]): Pace {
  const doublings = Math.ceil(Math.log2(1 + Math.max(...counts)));
  return knownPaces(costs, doublings, () => paceOfLength(2 * 2 ** doublings));
}

/** Micro-batches that are looked at. */
function mostWalked({ groups, warmup }: Draft): number {
  const inFlight = hopTicks(warmup) * groups.length * Math.max(...groups.map((group) => group.length));
  return Math.max(Math.ceil(MOST_FORWARDS / groups.length), PARTS * inFlight);
}

/** As much of a draft as says what it takes: under 1F1B no more are in flight, however long the step. */
export function partOf(costs: ClusterCosts, draft: Draft): Layout | null {
  const { microBatches: count, schedule } = draft;
  const isCut = count !== 'sized' && schedule === '1f1b' && count <= costs.batch.samples;
  return layoutOf(costs, draft, isCut ? Math.min(count, mostWalked(draft)) : count);
}

/** All of a draft of which this layout is a part. */
export const wholeOf = (costs: ClusterCosts, draft: Draft, layout: Layout): Layout | null =>
  draft.microBatches === 'sized' || layout.sizes.length === draft.microBatches ? layout : layoutOf(costs, draft);

/** Whole, or as the walks along two parts of it go on. Infinity where it is certainly more than `limit`. */
export function secondsOf(
  costs: ClusterCosts,
  draft: Draft,
  [layout, order]: readonly [Layout, Order],
  fit: Pick<Fit, 'recomputed' | 'shares' | 'hosted'>,
  limit = Infinity,
): number {
  const { microBatches: count } = draft;
  const most = mostWalked(draft);
  const whole = wholeOf(costs, draft, layout);
  if (whole === null) return Infinity;
  const pace = paceOf(costs, draft, whole, fit.recomputed);
  if (limit < Infinity) {
    const { ends, seconds } = leastEnds(whole, pace);
    if (exchangeSeconds(costs, draft, whole, fit, ends, seconds) > limit) return Infinity;
  }
  const step = (ends: Float64Array): number => exchangeSeconds(costs, draft, layout, fit, ends);
  if (count === 'sized' || count <= most) return step(workEnds(layout, order, pace));
  const part = Math.ceil(most / PARTS);
  const short = layoutOf(costs, draft, part);
  if (short === null) return Infinity;
  const early = workEnds(short, workOrder(short, draft), paceOf(costs, draft, short, fit.recomputed)).slice();
  const late = workEnds(layout, order, paceOf(costs, draft, layout, fit.recomputed));
  const times = (count - most) / (most - part);
  let [first, next] = [0, 0];
  for (const [stage, { places }] of layout.stages.entries()) {
    const known = at(short.stages, stage).places;
    for (const place of places) {
      const whole = float(late, next);
      const before = known.indexOf(place);
      late[next++] = whole + times * Math.max(0, whole - (before < 0 ? 0 : float(early, first + before)));
    }
    first += known.length;
  }
  return step(late);
}

/**
 * What a draft takes at least, wherever its state lies; `withState`: with its own members, who have all of it. What is known
 * to be past `limit` is not looked at closer.
 */
export function leastSeconds(
  costs: ClusterCosts,
  draft: Draft,
  layout: Layout,
  { withState, limit }: { readonly withState: boolean; readonly limit: number },
): number {
  const pace = lanesPace(costs, draft, layout);
  const alone = busiestLane(layout, pace);
  if (alone > limit) return alone;
  readLinks(costs, draft, layout, pace);
  const { ends, seconds } = leastEnds(layout, pace);
  // Sums in another order differ.
  return withState ? (1 - ROUNDING) * leastExchange(costs, draft, layout, ends, seconds) : seconds;
}

/** Seconds of work, without rest. */
function laneSeconds(
  { carried, samples }: StageLanes,
  index: number,
  pace: Pace,
  lane: number,
  smallest: number,
): number {
  const count = int(carried, index);
  // So many are of the first size, one sample more than the others.
  const large = Math.min(count, Math.max(0, int(samples, index) - count * smallest));
  const [first, last] = [2 * lane, 2 * lane + 1];
  const passes =
    large * (float(pace.forward, first) + float(pace.backward, first)) +
    (count - large) * (float(pace.forward, last) + float(pace.backward, last));
  return passes * (1 - float(pace.rest, lane));
}

function busiestLane({ sizes, stages }: Layout, pace: Pace): number {
  const smallest = int(sizes, sizes.length - 1);
  let [most, lane] = [0, 0];
  for (const stage of stages)
    for (let index = 0; index < stage.lanes; index++, lane++)
      most = Math.max(most, laneSeconds(stage, index, pace, lane, smallest));
  return most;
}

/** Every lane's work has to be done, after the shortest way in and before the shortest way out; and all of a link's. */
function leastEnds({ sizes, stages }: Layout, pace: Pace) {
  const smallest = int(sizes, sizes.length - 1);
  const ends = new Float64Array(int(pace.firstLane, stages.length));
  let [seconds, wayIn, wayOut, link] = [0, 0, 0, 0];
  for (const [stage, members] of stages.entries()) {
    let [forward, backward] = [Infinity, Infinity];
    let [first, last] = [Infinity, Infinity];
    const [from, to] = [int(pace.firstLane, stage), int(pace.firstLane, stage + 1)];
    for (let lane = from; lane < to; lane++) {
      const own = laneSeconds(members, lane - from, pace, lane, smallest);
      const give = 1 - float(pace.rest, lane);
      const [there, home] = [float(pace.forward, 2 * lane + 1), float(pace.backward, 2 * lane + 1)];
      ends[lane] = wayIn + own;
      seconds = Math.max(seconds, wayIn + own + wayOut);
      forward = Math.min(forward, there * give);
      backward = Math.min(backward, home * give);
    }
    if (stage === stages.length - 1) break;
    for (; link < int(pace.firstLink, stage + 1); link++) {
      const through = int(pace.through, link);
      if (through === 0) continue;
      const latency = float(pace.latency, link);
      const [there, home] = [float(pace.there, link), float(pace.home, link)];
      first = Math.min(first, latency + smallest * there);
      last = Math.min(last, latency + smallest * home);
      seconds = Math.max(
        seconds,
        wayIn + forward + latency + through * there + wayOut,
        wayIn + latency + through * home + backward + wayOut,
      );
    }
    wayIn += forward + first;
    wayOut += backward + last;
  }
  return { ends, seconds };
}

/** `recomputed`: layers that each lane of each stage computes twice. */
function paceOf(costs: ClusterCosts, draft: Draft, layout: Layout, recomputed?: readonly (readonly number[])[]): Pace {
  const pace = lanesPace(costs, draft, layout, recomputed);
  readLinks(costs, draft, layout, pace);
  return pace;
}

/** The same before its links are read. */
function lanesPace(
  costs: ClusterCosts,
  draft: Draft,
  { sizes, stages }: Layout,
  recomputed?: readonly (readonly number[])[],
): Pace {
  let [lanes, links] = [0, 0];
  for (const [stage, own] of stages.entries()) {
    lanes += own.lanes;
    if (stage > 0) links += own.lanes * at(stages, stage - 1).lanes;
  }
  const pace = paceFor(costs, stages.length, lanes, links, stages.length * sizes.length);
  const { firstLane, firstLink, forward, backward, ahead, rest } = pace;
  let [lane, link] = [0, 0];
  for (const [stage, { places, largest }] of stages.entries()) {
    firstLane[stage] = lane;
    firstLink[stage] = link;
    link += places.length * (stages[stage + 1]?.places.length ?? 0);
    const shape = { first: stage === 0, last: stage === stages.length - 1, layers: at(draft.layers, stage) };
    const gathered = draft.gathered[stage] ?? 0;
    const together = draft.layered ? sizes.length / places.length : 1;
    for (let index = 0; index < places.length; index++, lane++) {
      const peer = at(costs.peers, at(places, index));
      // Lanes of the whole that its part does not have yet compute nothing twice.
      const twice = recomputed === undefined ? 0 : (at(recomputed, stage)[index] ?? 0);
      rest[lane] = peer.rest;
      for (let last = 0; last < 2; last++) {
        const kind = 2 * lane + last;
        const isSized = draft.microBatches === 'sized';
        const size = isSized ? int(largest, index) : int(sizes, last === 0 ? 0 : sizes.length - 1);
        if (last === 1 && (isSized || size === int(sizes, 0))) {
          forward[kind] = float(forward, kind - 1);
          backward[kind] = float(backward, kind - 1);
          ahead[kind] = float(ahead, kind - 1);
          continue;
        }
        const longer = gathered ? timesAsLong(costs, places, size, gathered, together) : 1;
        const layer = longer * costs.layerSeconds(peer, size);
        forward[kind] = longer * costs.forwardSeconds(peer, shape, size);
        // Of the layers that are computed again the first one is done while the gradient is on its way.
        const early = Math.min(1, twice) * (gathered ? 1 : costs.aheadShare(size));
        backward[kind] = longer * costs.backwardSeconds(peer, shape, size) + layer * (twice - early);
        ahead[kind] = layer * early;
      }
    }
  }
  firstLane[stages.length] = lane;
  firstLink[stages.length] = link;
  return pace;
}

/**
 * What goes over each link, and how fast. A peer's download is shared by all who hand it something. Its upload is theirs by
 * turns where no link is slower than it, and shared else, as with layers that are gathered.
 */
function readLinks(costs: ClusterCosts, { gathered }: Draft, { sizes, stages }: Layout, pace: Pace): void {
  const { firstLane, firstLink, partners, takesTurns, through, latency, there, home } = pace;
  partners.fill(0, 0, int(firstLane, stages.length));
  for (let stage = 0; stage < stages.length; stage++)
    takesTurns.fill(gathered[stage] ? 0 : 1, int(firstLane, stage), int(firstLane, stage + 1));
  for (let hop = 0; hop + 1 < stages.length; hop++) {
    const { lanes } = at(stages, hop + 1);
    const over = samplesOver(at(stages, hop), at(stages, hop + 1), sizes);
    through.set(over, int(firstLink, hop));
    for (let link = 0; link < over.length; link++) {
      if (int(over, link) === 0) continue;
      const [one, other] = [int(firstLane, hop) + Math.trunc(link / lanes), int(firstLane, hop + 1) + (link % lanes)];
      partners[one] = int(partners, one) + 1;
      partners[other] = int(partners, other) + 1;
    }
  }
  for (const isLast of [false, true])
    for (let hop = 0; hop + 1 < stages.length; hop++) {
      const [from, to] = [at(stages, hop).places, at(stages, hop + 1).places];
      let link = int(firstLink, hop);
      for (let a = 0; a < from.length; a++)
        for (let b = 0; b < to.length; b++, link++) {
          if (int(through, link) === 0) continue;
          const [one, other] = [at(costs.peers, at(from, a)), at(costs.peers, at(to, b))];
          const { latencySeconds, bytesPerSecond } = costs.linkAt(at(from, a), at(to, b));
          const [ours, theirs] = [int(firstLane, hop) + a, int(firstLane, hop + 1) + b];
          const limit = bytesPerSecond ?? Infinity;
          const [thereMost, homeMost] = [
            Math.min(limit, downloadFrom(other, one) / int(partners, theirs)),
            Math.min(limit, downloadFrom(one, other) / int(partners, ours)),
          ];
          if (!isLast) {
            if (thereMost < uploadTo(one, other)) takesTurns[ours] = 0;
            if (homeMost < uploadTo(other, one)) takesTurns[theirs] = 0;
            continue;
          }
          latency[link] = latencySeconds;
          const [up, down] = [ours, theirs].map((lane) => (takesTurns[lane] === 1 ? 1 : int(partners, lane)));
          there[link] = costs.sampleBytes / Math.min(thereMost, uploadTo(one, other) / (up ?? 1));
          home[link] = costs.sampleBytes / Math.min(homeMost, uploadTo(other, one) / (down ?? 1));
        }
    }
}

/** Samples that go from each lane of a stage to each of the next one. */
function samplesOver(from: StageLanes, to: StageLanes, sizes: Int32Array): Int32Array {
  from.known.over ??= new Map();
  const known = from.known.over;
  const found = known.get(to);
  if (found) return found;
  const over = new Int32Array(from.lanes * to.lanes);
  for (let id = 0; id < sizes.length; id++) {
    const link = int(from.laneOf, id) * to.lanes + int(to.laneOf, id);
    over[link] = int(over, link) + int(sizes, id);
  }
  known.set(to, over);
  return over;
}

/** When each lane has done its part of the step: until the next walk. */
const workEnds = (layout: Layout, order: Order, pace: Pace): Float64Array =>
  walked(layout, order.list ?? writtenOut(layout, order, pace.order), pace);

/** The order of work as a list, in this room for it or its own. */
export function writtenOut(
  { sizes: { length: count }, stages: { length: stages } }: Layout,
  { clock }: Order,
  list: Int32Array = new Int32Array(2 * count * stages),
): Int32Array {
  if (clock) orderByClock(clock, count, stages, list);
  else orderByStage(count, stages, list);
  return list;
}

/** The same, by lanes, of work in such an order. */
function walked({ sizes, stages }: Layout, order: Int32Array, pace: Pace): Float64Array {
  const { firstLane, firstLink, forward, backward, ahead, rest, latency, there, home } = pace;
  const { free, rested, takesTurns, lineFree, thereFree, homeFree, inputAt, gradientAt } = pace;
  const count = sizes.length;
  const last = stages.length - 1;
  const lanes = int(firstLane, stages.length);
  for (const column of [free, rested, lineFree]) column.fill(0, 0, lanes);
  for (const column of [thereFree, homeFree]) column.fill(0, 0, int(firstLink, stages.length));
  for (const column of [inputAt, gradientAt]) column.fill(0, 0, count * stages.length);
  const first = int(sizes, 0);
  for (let next = 0; next < 2 * count * stages.length; next++) {
    const work = int(order, next) >> 1;
    const isBackward = (int(order, next) & 1) === 1;
    const stage = Math.trunc(work / count);
    const id = work - stage * count;
    const { laneOf, lanes } = stages[stage] ?? outside(stages, stage);
    const own = int(laneOf, id);
    const lane = int(firstLane, stage) + own;
    const size = int(sizes, id);
    const kind = 2 * lane + (size === first ? 0 : 1);
    const start = isBackward
      ? Math.max(float(free, lane) + float(ahead, kind), float(gradientAt, work))
      : Math.max(float(free, lane), float(inputAt, work));
    const seconds = isBackward ? float(backward, kind) : float(forward, kind);
    const resting = float(rest, lane);
    // Its outcome leaves before its peer has rested from it.
    const done = start + seconds * (1 - resting);
    if (resting > 0) rested[lane] = Math.max(float(rested, lane), start - SLACK_SECONDS) + seconds;
    free[lane] = Math.max(done, float(rested, lane));
    if (isBackward && stage > 0) {
      const { laneOf: before } = stages[stage - 1] ?? outside(stages, stage - 1);
      const link = int(firstLink, stage - 1) + int(before, id) * lanes + own;
      const turns = takesTurns[lane] === 1;
      const sent = Math.max(done, turns ? float(lineFree, lane) : float(homeFree, link)) + size * float(home, link);
      if (turns) lineFree[lane] = sent;
      else homeFree[link] = sent;
      gradientAt[work - count] = sent + float(latency, link);
    } else if (!isBackward && stage < last) {
      const after = stages[stage + 1] ?? outside(stages, stage + 1);
      const link = int(firstLink, stage) + own * after.lanes + int(after.laneOf, id);
      const turns = takesTurns[lane] === 1;
      const sent = Math.max(done, turns ? float(lineFree, lane) : float(thereFree, link)) + size * float(there, link);
      if (turns) lineFree[lane] = sent;
      else thereFree[link] = sent;
      inputAt[work + count] = sent + float(latency, link);
    }
  }
  return free;
}

/** A forward is twice the number of its stage and micro-batch, its backward one more. */
const codeOf = (stage: number, id: number, count: number, isBackward: boolean): number =>
  2 * (stage * count + id) + (isBackward ? 1 : 0);

/** All forwards, stage by stage, then all backwards from the last stage on. */
function orderByStage(count: number, stages: number, order: Int32Array): void {
  let filled = 0;
  for (let stage = 0; stage < stages; stage++)
    for (let id = 0; id < count; id++) order[filled++] = codeOf(stage, id, count, false);
  for (let stage = stages - 1; stage >= 0; stage--)
    for (let id = 0; id < count; id++) order[filled++] = codeOf(stage, id, count, true);
}

/** Tick by tick; of one tick the backwards come first. */
function orderByClock({ hop, perPlace, places }: Ticks, count: number, stages: number, order: Int32Array): void {
  let most = 0;
  for (let id = 0; id < count; id++) most = Math.max(most, int(places, id));
  // Micro-batches by their places, sorted by counting.
  const [from, filled, ids] = [column(2, most + 2), column(3, most + 2), column(4, count)];
  from.fill(0, 0, most + 2);
  for (let id = 0; id < count; id++) from[int(places, id) + 1] = int(from, int(places, id) + 1) + 1;
  for (let place = 0; place <= most; place++) {
    filled[place] = int(from, place);
    from[place + 1] = int(from, place + 1) + int(from, place);
  }
  for (let id = 0; id < count; id++) {
    const place = int(places, id);
    ids[int(filled, place)] = id;
    filled[place] = int(filled, place) + 1;
  }
  let next = 0;
  for (let tick = 0; next < 2 * count * stages; tick++)
    for (let kind = 1; kind >= 0; kind--)
      for (let stage = 0; stage < stages; stage++) {
        const twice = tick - (kind === 1 ? backwardAfter(stage, stages, hop, perPlace) : stage * hop);
        if (twice < 0 || twice > 2 * most || (twice & 1) === 1) continue;
        const end = int(from, (twice >> 1) + 1);
        for (let index = int(from, twice >> 1); index < end; index++)
          order[next++] = codeOf(stage, int(ids, index), count, kind === 1);
      }
}

/** The end of the work of who computes nothing: its slices begin with the work's ends of those who send them. */
const NO_WORK = -1;

/** Of each peer by its place, in seconds; the latencies are those to keepers of what it holds, and to holders of what it keeps. */
type Traffic = ReturnType<typeof trafficAmong>;

const knownTraffic = memo<Traffic>();

function trafficAmong(peers: number) {
  const column = () => new Float64Array(peers);
  return {
    ...{ end: column(), kept: column(), slicesOut: column(), slicesIn: column() },
    ...{ valuesOut: column(), valuesIn: column(), outLatency: column(), inLatency: column() },
  };
}

/** Zeros for these peers. */
function trafficOf(costs: ClusterCosts, places: readonly number[]): Traffic {
  const traffic = knownTraffic(costs, 0, () => trafficAmong(costs.peers.length));
  for (const column of Object.values(traffic)) for (const place of places) column[place] = 0;
  return traffic;
}

/**
 * The exchange of state in a draft's step. The step has one barrier, the commit: everyone's work and gradient slices come
 * before it, updates and new values after it, over one link after the other.
 *
 * Of a whole step, whose lanes' work ends then; nobody commits earlier than `least`.
 */
function exchangeSeconds(
  costs: ClusterCosts,
  draft: Draft,
  { stages }: Layout,
  { shares, hosted }: Pick<Fit, 'shares' | 'hosted'>,
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
      if (draft.gathered[stage]) continue;
      const bytes = part * elements * elementBytes;
      // The table comes first in the embedding.
      const table = stage === 0 ? Math.max(0, Math.min(to, sizes.table) - from) : 0;
      for (const [index, holder] of at(stages, stage).places.entries()) {
        const spared = table === 0 ? 0 : sparedOf(costs, stages, index, table) * elementBytes;
        exchange(costs, traffic, holder, keeper, { slices: bytes - spared, values: bytes });
      }
      if (stage > 0 || last === 0 || !costs.model.tied) continue;
      const ofHead = { slices: table * elementBytes, values: table * elementBytes };
      for (const holder of at(stages, last).places) exchange(costs, traffic, holder, keeper, ofHead);
    }
  }
  return exchangedSeconds(costs, traffic, taking, hosted, least);
}

/** Until all have what that traffic brings: the commit comes when all slices are in, then updates and new values. */
function exchangedSeconds(
  costs: ClusterCosts,
  traffic: Traffic,
  taking: readonly number[],
  hosted: Fit['hosted'],
  least: number,
): number {
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
function leastExchange(
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
      const spared = (index: number): number =>
        stage === 0 ? sparedOf(costs, stages, index, table) * costs.stateElementBytes : 0;
      const slices = bytes - Math.max(...own.places.map((_, index) => spared(index)));
      let latest = 0;
      for (let index = 0; index < lanes; index++) {
        const end = float(ends, lane + index);
        const later = (values * (lanes - 2)) / (lanes - 1);
        latest = Math.max(latest, end + slices / float(up, index) + later, end + slices / float(down, index));
      }
      most = Math.max(most, latest, least + Math.max(values, ((lanes - 1) * bytes) / downSum));
    }
    if (tableBytes > 0 && (stage === 0 || stage === last)) {
      let ups = 0;
      for (const [index, place] of own.places.entries()) {
        const { upload, download, line } = at(costs.peers, place);
        const [up, down] = line === null ? [upload, download] : [Infinity, Infinity];
        ups += up;
        if (stage === last) most = Math.max(most, float(ends, lane + index) + tableBytes / up + tableBytes / down);
      }
      if (stage === 0) most = Math.max(most, least + ((lanes - 1) * bytes + at(stages, last).lanes * tableBytes) / ups);
    }
    lane += lanes;
  }
  return most;
}

function bestRates(costs: ClusterCosts, stage: StageLanes): BestRates {
  const { known } = stage;
  if (known.rates) return known.rates;
  const { places, lanes } = stage;
  const [up, down] = [new Float64Array(lanes), new Float64Array(lanes)];
  let [upSum, downSum] = [0, 0];
  for (let index = 0; index < lanes; index++) {
    const place = at(places, index);
    const peer = at(costs.peers, place);
    for (let beside = 0; beside < lanes; beside++) {
      if (beside === index) continue;
      const other = at(costs.peers, at(places, beside));
      const limit = costs.linkAt(place, at(places, beside)).bytesPerSecond ?? Infinity;
      up[index] = Math.max(float(up, index), Math.min(limit, uploadTo(peer, other)));
      down[index] = Math.max(float(down, index), Math.min(limit, downloadFrom(peer, other)));
    }
    upSum += float(up, index);
    downSum += float(down, index);
  }
  known.rates = { up, down, upSum, downSum };
  return known.rates;
}

/** Elements of so many of the token table whose gradients a member of the first stage does not send: it sends rows (tokenRows.ts). */
function sparedOf({ model, batch }: ClusterCosts, stages: Layout['stages'], index: number, table: number): number {
  const isHeadsToo = model.tied && stages.length === 1;
  if (batch.stateWire || isHeadsToo) return 0;
  return Math.max(0, table - int(at(stages, 0).samples, index) * batch.sequence * model.width);
}

/** Bytes of slices of a gradient to who keeps the state, and of its new values back. */
interface Exchanged {
  readonly slices: number;
  readonly values: number;
}

function exchange(
  costs: ClusterCosts,
  traffic: Traffic,
  holder: number,
  keeper: number,
  { slices, values }: Exchanged,
): void {
  if (holder === keeper || values === 0) return;
  const { latencySeconds, bytesPerSecond } = costs.linkAt(holder, keeper);
  const limit = bytesPerSecond ?? Infinity;
  const [one, other] = [at(costs.peers, holder), at(costs.peers, keeper)];
  const { end, slicesOut, slicesIn, valuesOut, valuesIn, outLatency, inLatency } = traffic;
  slicesOut[holder] = float(slicesOut, holder) + slices / Math.min(limit, uploadTo(one, other));
  const begins =
    float(end, keeper) === NO_WORK ? Math.max(float(slicesIn, keeper), float(end, holder)) : float(slicesIn, keeper);
  slicesIn[keeper] = begins + slices / Math.min(limit, downloadFrom(other, one));
  valuesOut[keeper] = float(valuesOut, keeper) + values / Math.min(limit, uploadTo(other, one));
  valuesIn[holder] = float(valuesIn, holder) + values / Math.min(limit, downloadFrom(one, other));
  outLatency[holder] = Math.max(float(outLatency, holder), latencySeconds);
  inLatency[keeper] = Math.max(float(inLatency, keeper), latencySeconds);
}

const knownSizes = memo<ReturnType<typeof sizesOfBlocks>>();

const blockSizes = (costs: ClusterCosts) => knownSizes(costs, 0, () => sizesOfBlocks(costs.model));

function sizesOfBlocks({ blocks }: Model) {
  const found = (name: BlockName) => blocks.find((own) => own.name === name);
  const elements = (name: BlockName): number => found(name)?.elements ?? 0;
  return {
    layer: elements(layerBlock(0)),
    embedding: elements('embedding'),
    head: elements('head'),
    table: found('embedding')?.tensors[0]?.elements ?? 0,
  };
}
