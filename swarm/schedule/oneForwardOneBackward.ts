/**
 * 1F1B (PipeDream-flush, Narayanan et al. 2021): a peer of stage s of p runs min(m, p − s) forwards of the m micro-batches
 * it carries there, then backward and forward in turn, then the backwards that are left. It takes as long as GPipe and
 * keeps p − s micro-batches in flight where GPipe keeps all of them.
 *
 * That order is the order of a clock. With x = 0, 1, 2, … the micro-batch's place among the peer's own,
 *   F(s, x) at 2x + s        B(s, x) at 2x + 2p − s − 1:
 * B(s, x) falls between F(s, x + p − s − 1) and F(s, x + p − s), as the rule says, and every need is earlier than what
 * needs it. Whatever x each micro-batch is given, lists sorted by such a clock never wait for each other in a circle,
 * as long as x is the same in all stages.
 *
 * With unequal lanes it cannot be the place in every stage: one peer of stage 0 before three of stage 1 carries 0, 1, 2
 * while the first of those carries 0, 3, 6, and the plain rule would have it wait for 3, which waits for 0's backward.
 * So x is the least of the places that the micro-batch has in the stages: the busiest lanes are as the rule says, and a
 * peer that feeds several of them keeps all of them fed, having the more in flight. See SPEC.md, SC12.
 */
import { at, got, int, outside } from '../base.ts';
import { type Plan, peers, type WarmUp } from '../plan/plan.ts';
import type { MicroAction, Schedule } from './action.ts';

export function oneForwardOneBackward(plan: Plan, warmUp: WarmUp = plan.warmup ?? 'normal'): Schedule {
  const hop = hopTicks(warmUp);
  const stages = plan.stages.length;
  const { places, perPlace } = placesOf(plan);
  const forward = (stage: number, microBatch: number): number => 2 * places(microBatch) + hop * stage * perPlace;
  // The last stage's backward needs nothing but its forward, and follows it at once.
  const backward = (stage: number, microBatch: number): number =>
    forward(stage, microBatch) + (stage === stages - 1 ? 1 : (2 * hop * (stages - 1 - stage) + 1) * perPlace);
  const tick = ({ op, stage, microBatch }: MicroAction): number =>
    op === 'F' ? forward(stage, microBatch) : backward(stage, microBatch);
  // At one tick a backward goes first: it makes room.
  const byTick = (a: MicroAction, b: MicroAction): number =>
    tick(a) - tick(b) || (a.op < b.op ? -1 : a.op > b.op ? 1 : 0) || a.microBatch - b.microBatch || a.stage - b.stage;
  const lists = new Map(peers(plan).map((peer): [typeof peer, MicroAction[]] => [peer, []]));
  plan.stages.forEach(({ members }, stage) => {
    for (const { peer, microBatches } of members) {
      const list = lists.get(peer);
      // All of a kind one after the other: runs in order, which are quick to sort.
      for (const microBatch of microBatches) list?.push({ op: 'F', stage, microBatch });
      for (const microBatch of microBatches) list?.push({ op: 'B', stage, microBatch });
    }
  });
  for (const list of lists.values()) list.sort(byTick);
  return lists;
}

/** Ticks of the clock from a stage's forward to the next one's: with `overlap` a transfer has one to itself. */
export const hopTicks = (warmUp: WarmUp = 'normal'): number => (warmUp === 'overlap' ? 2 : 1);

/** Of a stage: which of its lanes carries each micro-batch; lanes in the order of their first ones. */
export interface Lanes {
  readonly laneOf: Int32Array;
  readonly lanes: number;
}

/**
 * Each micro-batch's place x, in units of 1/`perPlace`: lanes of the widest stage are that far apart, so that a peer
 * which feeds them all takes turns. Micro-batches of one peer have different places, in the order of their ids.
 */
export function clockPlaces(
  count: number,
  all: readonly Lanes[],
): { readonly places: Int32Array; readonly perPlace: number } {
  const widest = all.reduce((most, stage) => (stage.lanes > most.lanes ? stage : most));
  const perPlace = widest.lanes;
  // Stages of one lane each have the same places.
  const single = all.find((stage) => stage.lanes === 1);
  const stages = all.filter((stage) => stage.lanes > 1 || stage === single);
  // Of each stage's lanes, one after the other: how many each has had, and the place of the last one.
  let lanes = 0;
  const firsts = stages.map((stage) => {
    lanes += stage.lanes;
    return lanes - stage.lanes;
  });
  const counts = new Int32Array(lanes);
  const latest = new Int32Array(lanes).fill(-1);
  const places = new Int32Array(count);
  for (let index = 0; index < count; index++) {
    let least = count;
    let after = 0;
    for (let stage = 0; stage < stages.length; stage++) {
      const lane = at(firsts, stage) + int((stages[stage] ?? outside(stages, stage)).laneOf, index);
      const had = int(counts, lane);
      counts[lane] = had + 1;
      least = Math.min(least, had);
      after = Math.max(after, int(latest, lane) + 1);
    }
    const place = Math.max(least * perPlace + int(widest.laneOf, index), after);
    for (let stage = 0; stage < stages.length; stage++)
      latest[at(firsts, stage) + int((stages[stage] ?? outside(stages, stage)).laneOf, index)] = place;
    places[index] = place;
  }
  return { places, perPlace };
}

function placesOf(plan: Plan): { readonly places: (id: number) => number; readonly perPlace: number } {
  const ids = plan.microBatches.map(({ id }) => id).sort((a, b) => a - b);
  const rank = rankIn(ids);
  const stages = plan.stages.map(({ members }): Lanes => {
    const firsts = members.map(({ microBatches }) => microBatches.reduce((least, id) => Math.min(least, id)));
    const order = [...members.keys()].sort((a, b) => at(firsts, a) - at(firsts, b));
    const laneOf = new Int32Array(ids.length);
    for (const [lane, member] of order.entries())
      for (const id of at(members, member).microBatches) laneOf[rank(id)] = lane;
    return { laneOf, lanes: members.length };
  });
  const { places, perPlace } = clockPlaces(ids.length, stages);
  return { places: (id) => at(places, rank(id)), perPlace };
}

/** A micro-batch's place in the sorted ids. Mostly that is its id. */
function rankIn(ids: readonly number[]): (id: number) => number {
  if (ids.every((id, index) => id === index)) return (id) => id;
  const ranks = new Map(ids.map((id, index) => [id, index]));
  return (id) => got(ranks, id);
}
