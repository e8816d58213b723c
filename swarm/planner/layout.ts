/**
 * A draft of a plan: who is in which stage, how many layers each, how many micro-batches. And what follows from it: who
 * carries which micro-batch, in which order everyone works, and how many are in flight; all in numbers, for drafts are
 * judged by the thousand.
 */
import { at, evenRanges, float, int } from '../base.ts';
import type { Gathered, WarmUp } from '../plan/plan.ts';
import { clockPlaces, hopTicks, type Lanes } from '../schedule/oneForwardOneBackward.ts';
import { type ClusterCosts, remembered, type StageShape } from './clusterCosts.ts';
import { sizedMicroBatches } from './laneSizes.ts';

/** A stage's members, in the order of their first micro-batches. */
export interface StageLanes extends Lanes {
  readonly places: readonly number[];
  /** Of each lane: samples of its largest micro-batch, how many micro-batches it carries, and samples of all. */
  readonly largest: Int32Array;
  readonly carried: Int32Array;
  readonly samples: Int32Array;
  /** Of each micro-batch: the next one of its lane. */
  readonly next: Int32Array;
}

export interface Layout {
  /** Samples of each micro-batch. */
  readonly sizes: Int32Array;
  readonly stages: readonly StageLanes[];
}

/** In which order everyone works. */
export interface Order {
  /** Of 1F1B; null: gpipe's. */
  readonly clock: Clock | null;
  /** Micro-batches in flight at once, of each stage's lanes. */
  readonly slots: readonly Int32Array[];
  /** The work one piece after the other (stepTime.ts), where it is written out already: for many drafts of the same shape. */
  readonly list?: Int32Array;
}

/** The clock of 1F1B (oneForwardOneBackward.ts), and the micro-batches by their places on it. */
export interface Clock {
  /** Ticks from a stage to the next one. */
  readonly hop: number;
  /** Between neighbouring places. */
  readonly perPlace: number;
  /** Of each micro-batch. */
  readonly places: Int32Array;
}

/** The orders that drafts have: one stage a peer. */
export const DRAFT_SCHEDULES = ['gpipe', '1f1b'] as const;
type DraftSchedule = (typeof DRAFT_SCHEDULES)[number];

/** Where a stage's state lies with its members (stageFit.ts). */
export type Placement = 'room' | 'links' | 'hub';

export interface Draft {
  /** Peers of each stage, as places in the costs' list. */
  readonly groups: readonly (readonly number[])[];
  /** Layers of each stage. */
  readonly layers: readonly number[];
  /** Equal ones; 'sized' (of one stage): each peer's own size. */
  readonly microBatches: number | 'sized';
  readonly schedule: DraftSchedule;
  readonly warmup?: WarmUp;
  /** By room, where it is absent. */
  readonly placement?: Placement;
  /** Peers who compute nothing, and keep what members have no room for. */
  readonly keepers?: readonly number[];
  /** Main memory takes what has no room before layers are computed twice for it; else only what is left over then. */
  readonly inHost?: boolean;
  /** How many blocks of each stage are whole at a time; 0, or absent: all of them. */
  readonly gathered?: readonly (Gathered | 0)[];
  /** Of one stage that gathers, under gpipe: once for all micro-batches of a pass. */
  readonly layered?: true;
}

export const shapesOf = ({ groups, layers }: Draft): StageShape[] =>
  groups.map((_, stage) => ({ first: stage === 0, last: stage === groups.length - 1, layers: at(layers, stage) }));

/** Null where the draft is none: too few layers or samples. */
export function layoutOf(costs: ClusterCosts, draft: Draft, count = draft.microBatches): Layout | null {
  const { groups, microBatches } = draft;
  const { samples } = costs.batch;
  if (groups.length > costs.model.layers) return null;
  if (microBatches === 'sized' || count === 'sized') {
    const places = at(groups, 0);
    const sized =
      groups.length === 1 ? sizedMicroBatches(costs, places, at(shapesOf(draft), 0), draft.gathered?.[0] ?? 0) : null;
    if (sized === null) return null;
    const { sizes, laneOf } = sized;
    return { sizes, stages: [withSums({ places, laneOf, lanes: places.length }, sizes)] };
  }
  if (microBatches > samples) return null;
  const sizes = evenSizes(costs, microBatches, count);
  return { sizes, stages: groups.map((group) => lanesOf(costs, group, sizes)) };
}

/** Stages of a long search that are remembered: some 20 MB of them. */
const MOST_KNOWN = 10_000;

interface KnownLanes {
  /** Lists of places are never changed, and moves hand on those that they do not touch: a list is its own key. */
  readonly byList: WeakMap<readonly number[], StageLanes>;
  /** Many moves come by the same places again. */
  readonly byPlaces: Map<string, StageLanes>;
}

const knownLanes = new WeakMap<Int32Array, KnownLanes>();

export function lanesOf(costs: ClusterCosts, group: readonly number[], sizes: Int32Array): StageLanes {
  const known = knownLanes.get(sizes) ?? { byList: new WeakMap(), byPlaces: new Map<string, StageLanes>() };
  knownLanes.set(sizes, known);
  const own = known.byList.get(group);
  if (own) return own;
  const key = group.join();
  const lanes = known.byPlaces.get(key) ?? dealt(costs, group, sizes);
  known.byList.set(group, lanes);
  if (known.byPlaces.size >= MOST_KNOWN) known.byPlaces.clear();
  known.byPlaces.set(key, lanes);
  return lanes;
}

const knownSizes = remembered<Int32Array>();

/** As equal as can be; of a part of the step's micro-batches each the largest. */
const evenSizes = (costs: ClusterCosts, microBatches: number, count: number): Int32Array => {
  const { samples } = costs.batch;
  return knownSizes(costs, microBatches * (samples + 1) + count, () =>
    count === microBatches
      ? Int32Array.from(evenRanges(samples, count), ([from, to]) => to - from)
      : new Int32Array(count).fill(Math.ceil(samples / microBatches)),
  );
};

/** Each micro-batch to the member that would end it first. Who gets none is left out. */
function dealt(costs: ClusterCosts, group: readonly number[], sizes: Int32Array): StageLanes {
  const seconds = new Float64Array(group.length);
  const own = new Float64Array(group.length);
  const laneOfMember = new Int32Array(group.length).fill(-1);
  const places: number[] = [];
  const laneOf = new Int32Array(sizes.length);
  let size = -1;
  for (let id = 0; id < sizes.length; id++) {
    if (int(sizes, id) !== size) {
      size = int(sizes, id);
      for (const [member, place] of group.entries()) own[member] = costs.passSeconds(at(costs.peers, place), size);
    }
    let best = 0;
    let end = Number.POSITIVE_INFINITY;
    for (let member = 0; member < group.length; member++) {
      const after = float(seconds, member) + float(own, member);
      if (after < end) [best, end] = [member, after];
    }
    seconds[best] = end;
    if (int(laneOfMember, best) < 0) {
      laneOfMember[best] = places.length;
      places.push(at(group, best));
    }
    laneOf[id] = int(laneOfMember, best);
  }
  return withSums({ places, laneOf, lanes: places.length }, sizes);
}

function withSums(stage: Lanes & Pick<StageLanes, 'places'>, sizes: Int32Array): StageLanes {
  const { laneOf, lanes } = stage;
  const [largest, carried, samples] = [new Int32Array(lanes), new Int32Array(lanes), new Int32Array(lanes)];
  const latest = new Int32Array(lanes).fill(-1);
  const next = new Int32Array(sizes.length).fill(-1);
  for (let id = 0; id < sizes.length; id++) {
    const [lane, size] = [int(laneOf, id), int(sizes, id)];
    largest[lane] = Math.max(int(largest, lane), size);
    carried[lane] = int(carried, lane) + 1;
    samples[lane] = int(samples, lane) + size;
    if (int(latest, lane) >= 0) next[int(latest, lane)] = id;
    latest[lane] = id;
  }
  return { ...stage, largest, carried, samples, next };
}

export function orderOf({ sizes, stages }: Layout, { schedule, warmup }: Pick<Draft, 'schedule' | 'warmup'>): Order {
  if (schedule === 'gpipe') return { clock: null, slots: stages.map(({ carried }) => carried) };
  const { places, perPlace } = clockPlaces(sizes.length, stages);
  const hop = hopTicks(warmup) * perPlace;
  const slots = stages.map((stage, index) =>
    inFlight(stage, places, backwardAfter(index, stages.length, hop, perPlace) - index * hop),
  );
  return { clock: { hop, perPlace, places }, slots };
}

/** Ticks from a micro-batch's place to its backward. */
export const backwardAfter = (stage: number, stages: number, hop: number, perPlace: number): number =>
  stage === stages - 1 ? stage * hop + 1 : (2 * (stages - 1 - stage) + stage) * hop + perPlace;

const columns: Int32Array[] = [];

/** Room for so many numbers, of any value, that whoever asks for this column the next time takes over: nothing is allocated for a draft. */
export function column(which: number, length: number): Int32Array {
  const known = columns[which];
  if (known && known.length >= length) return known;
  const made = new Int32Array(2 * length);
  columns[which] = made;
  return made;
}

/** Of each lane: of the micro-batches so far those whose backwards come so many ticks after their forwards, or later. */
function inFlight({ laneOf, lanes, next }: StageLanes, places: Int32Array, ticks: number): Int32Array {
  const most = new Int32Array(lanes);
  const [flying, oldest] = [column(0, lanes), column(1, lanes)];
  for (let lane = 0; lane < lanes; lane++) {
    flying[lane] = 0;
    oldest[lane] = -1;
  }
  for (let id = 0; id < places.length; id++) {
    const lane = int(laneOf, id);
    if (int(oldest, lane) < 0) oldest[lane] = id;
    let now = int(flying, lane) + 1;
    for (; 2 * (int(places, id) - int(places, int(oldest, lane))) >= ticks; now--)
      oldest[lane] = int(next, int(oldest, lane));
    flying[lane] = now;
    if (now > int(most, lane)) most[lane] = now;
  }
  return most;
}
