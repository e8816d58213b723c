/**
 * A draft of a plan: who is in which stage, how many layers each, how many micro-batches. And what follows from it: who
 * carries which micro-batch, in which order everyone works, and how many are in flight; all in numbers, for drafts are
 * judged by the thousand.
 */
import { at, evenRanges } from '../base.ts';
import type { Gathered, ScheduleName } from '../plan/plan.ts';
import { clockPlaces, type Lanes } from '../schedule/oneForwardOneBackward.ts';
import type { ClusterCosts, StageShape } from './clusterCosts.ts';
import { sizedMicroBatches } from './laneSizes.ts';
import type { Placement } from './stageFit.ts';

/** A stage's members, in the order of their first micro-batches. */
export interface StageLanes extends Lanes {
  readonly places: readonly number[];
  /** Of each lane. */
  readonly largest: Int32Array;
}

export interface Layout {
  /** Samples of each micro-batch. */
  readonly sizes: Int32Array;
  readonly stages: readonly StageLanes[];
  /** All forwards and backwards, none before what it needs: see `actionCode`. */
  readonly order: Int32Array;
  /** Micro-batches in flight at once, of each stage's lanes. */
  readonly slots: readonly Int32Array[];
}

export interface Draft {
  /** Peers of each stage, as places in the costs' list. */
  readonly groups: readonly (readonly number[])[];
  /** Layers of each stage. */
  readonly layers: readonly number[];
  /** Equal ones; 'sized' (of one stage): each peer's own size. */
  readonly microBatches: number | 'sized';
  readonly schedule: ScheduleName;
  /** By room, where it is absent. */
  readonly placement?: Placement;
  /** Peers who compute nothing, and keep what members have no room for. */
  readonly keepers?: readonly number[];
  /** How many blocks of each stage are whole at a time; 0, or absent: all of them. */
  readonly gathered?: readonly (Gathered | 0)[];
}

export const shapesOf = ({ groups, layers }: Draft): StageShape[] =>
  groups.map((_, stage) => ({ first: stage === 0, last: stage === groups.length - 1, layers: at(layers, stage) }));

/** Null where the draft is none: too few layers or samples. */
export function layoutOf(costs: ClusterCosts, draft: Draft, count = draft.microBatches): Layout | null {
  const { groups, microBatches, schedule } = draft;
  const { samples } = costs.batch;
  if (groups.length > costs.model.layers) return null;
  if (microBatches === 'sized' || count === 'sized') {
    const sized =
      groups.length === 1
        ? sizedMicroBatches(costs, at(groups, 0), at(shapesOf(draft), 0), draft.gathered?.[0] ?? 0)
        : null;
    if (sized === null) return null;
    const { sizes, ...lanes } = sized;
    return inOrder(sizes, [{ places: at(groups, 0), lanes: at(groups, 0).length, ...lanes }], schedule);
  }
  if (microBatches > samples) return null;
  // A part of the step's micro-batches, each the largest.
  const sizes =
    count === microBatches ? evenSizes(samples, count) : new Int32Array(count).fill(Math.ceil(samples / microBatches));
  return inOrder(
    sizes,
    groups.map((group) => lanesOf(costs, group, sizes)),
    schedule,
  );
}

/** Lists of places are never changed, and moves hand on those that they do not touch: a list is its own key. */
const knownLanes = new WeakMap<ClusterCosts, WeakMap<readonly number[], Map<number, StageLanes>>>();

function lanesOf(costs: ClusterCosts, group: readonly number[], sizes: Int32Array): StageLanes {
  const groups = knownLanes.get(costs) ?? new WeakMap<readonly number[], Map<number, StageLanes>>();
  knownLanes.set(costs, groups);
  const own = groups.get(group) ?? new Map<number, StageLanes>();
  groups.set(group, own);
  const key = sizes.length * (costs.batch.samples + 1) + at(sizes, 0) + at(sizes, sizes.length - 1) / 2 ** 20;
  const lanes = own.get(key) ?? dealt(costs, group, sizes);
  own.set(key, lanes);
  return lanes;
}

/** As equal as can be. */
const evenSizes = (samples: number, count: number): Int32Array =>
  Int32Array.from(evenRanges(samples, count), ([from, to]) => to - from);

const codeOf = (id: number, stage: number, stages: number, isBackward: boolean): number =>
  2 * (id * stages + stage) + (isBackward ? 1 : 0);

function inOrder(sizes: Int32Array, stages: readonly StageLanes[], schedule: ScheduleName): Layout {
  const order = schedule === 'gpipe' ? gpipeOrder(sizes.length, stages.length) : clockOrder(sizes.length, stages);
  return { sizes, stages, order, slots: slotsOf(stages, order) };
}

/** Each micro-batch to the member that would end it first. Who gets none is left out. */
function dealt(costs: ClusterCosts, group: readonly number[], sizes: Int32Array): StageLanes {
  const seconds = new Float64Array(group.length);
  const own = new Float64Array(group.length);
  const laneOfMember = new Int32Array(group.length).fill(-1);
  const places: number[] = [];
  const largest: number[] = [];
  const laneOf = new Int32Array(sizes.length);
  let size = -1;
  for (let id = 0; id < sizes.length; id++) {
    if (at(sizes, id) !== size) {
      size = at(sizes, id);
      for (const [member, place] of group.entries()) own[member] = costs.passSeconds(at(costs.peers, place), size);
    }
    let best = 0;
    let end = Number.POSITIVE_INFINITY;
    for (let member = 0; member < group.length; member++) {
      const after = at(seconds, member) + at(own, member);
      if (after < end) [best, end] = [member, after];
    }
    seconds[best] = end;
    if (at(laneOfMember, best) < 0) {
      laneOfMember[best] = places.length;
      places.push(at(group, best));
      largest.push(0);
    }
    const lane = at(laneOfMember, best);
    laneOf[id] = lane;
    largest[lane] = Math.max(at(largest, lane), size);
  }
  return { places, laneOf, lanes: places.length, largest: Int32Array.from(largest) };
}

/** All forwards, stage by stage, then all backwards from the last stage on. */
function gpipeOrder(count: number, stages: number): Int32Array {
  const order = new Int32Array(2 * count * stages);
  let filled = 0;
  for (let stage = 0; stage < stages; stage++)
    for (let id = 0; id < count; id++) order[filled++] = codeOf(id, stage, stages, false);
  for (let stage = stages - 1; stage >= 0; stage--)
    for (let id = 0; id < count; id++) order[filled++] = codeOf(id, stage, stages, true);
  return order;
}

/** By the clock of 1F1B (oneForwardOneBackward.ts); of one tick the backwards come first. Sorted by counting. */
function clockOrder(count: number, stages: readonly StageLanes[]): Int32Array {
  const { places, perPlace } = clockPlaces(count, stages);
  const last = stages.length - 1;
  const keys = new Int32Array(2 * count * stages.length);
  let most = 0;
  for (let id = 0; id < count; id++)
    for (let stage = 0; stage <= last; stage++) {
      const forward = 2 * at(places, id) + stage * perPlace;
      const backward = forward + (stage === last ? 1 : (2 * (last - stage) + 1) * perPlace);
      keys[codeOf(id, stage, stages.length, false)] = 2 * forward + 1;
      keys[codeOf(id, stage, stages.length, true)] = 2 * backward;
      most = Math.max(most, 2 * backward);
    }
  const from = new Int32Array(most + 2);
  for (const key of keys) from[key + 1] = at(from, key + 1) + 1;
  for (let key = 0; key <= most; key++) from[key + 1] = at(from, key + 1) + at(from, key);
  const order = new Int32Array(keys.length);
  for (let code = 0; code < keys.length; code++) {
    const key = at(keys, code);
    const place = at(from, key);
    order[place] = code;
    from[key] = place + 1;
  }
  return order;
}

function slotsOf(stages: readonly StageLanes[], order: Int32Array): Int32Array[] {
  const flying = stages.map(({ lanes }) => new Int32Array(lanes));
  const most = stages.map(({ lanes }) => new Int32Array(lanes));
  for (const code of order) {
    const work = code >> 1;
    const stage = work % stages.length;
    const [own, peak] = [at(flying, stage), at(most, stage)];
    const lane = at(at(stages, stage).laneOf, (work - stage) / stages.length);
    const now = at(own, lane) + (code & 1 ? -1 : 1);
    own[lane] = now;
    if (now > at(peak, lane)) peak[lane] = now;
  }
  return most;
}
