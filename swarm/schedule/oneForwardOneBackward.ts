/**
 * 1F1B (PipeDream-flush, Narayanan et al. 2021): a peer of stage s of p runs min(m, p − s) forwards of the m micro-batches
 * it carries there, then backward and forward in turn, then the backwards that are left. It takes as long as GPipe and
 * keeps p − s micro-batches in flight where GPipe keeps all of them.
 *
 * Its one idea: that order is the order of a clock. With x = 0, 1, 2, … the micro-batch's place among the peer's own,
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
import { type Plan, peers } from '../plan.ts';
import type { MicroAction, Schedule } from './action.ts';

interface Timed {
  readonly action: MicroAction;
  readonly tick: number;
}

/**
 * `overlap` (Zhuang et al. 2023) runs min(m, 2(p − s) − 1) forwards first, so that each transfer has an action's time to
 * hide in, for up to twice the micro-batches in flight. On the clock each hop from stage to stage takes two ticks.
 */
export type WarmUp = 'normal' | 'overlap';

export function oneForwardOneBackward(plan: Plan, warmUp: WarmUp = 'normal'): Schedule {
  const hop = warmUp === 'overlap' ? 2 : 1;
  const stages = plan.stages.length;
  const { places, perPlace } = placesOf(plan);
  const timed = (stage: number, microBatch: number): Timed[] => {
    const forward = 2 * (places.get(microBatch) ?? 0) + hop * stage * perPlace;
    // The last stage's backward needs nothing but its forward, and follows it at once.
    const backward = stage === stages - 1 ? forward + 1 : forward + (2 * hop * (stages - 1 - stage) + 1) * perPlace;
    return [
      { action: { op: 'F', stage, microBatch }, tick: forward },
      { action: { op: 'B', stage, microBatch }, tick: backward },
    ];
  };
  const lists = new Map(peers(plan).map((peer): [typeof peer, Timed[]] => [peer, []]));
  plan.stages.forEach(({ members }, stage) => {
    for (const { peer, microBatches } of members)
      for (const microBatch of microBatches) lists.get(peer)?.push(...timed(stage, microBatch));
  });
  return new Map(
    [...lists].map(([peer, list]) => [peer, list.toSorted(byTick).map(({ action }): MicroAction => action)]),
  );
}

/** At one tick a backward goes first: it makes room. */
const byTick = (a: Timed, b: Timed): number =>
  a.tick - b.tick ||
  (a.action.op < b.action.op ? -1 : a.action.op > b.action.op ? 1 : 0) ||
  a.action.microBatch - b.action.microBatch ||
  a.action.stage - b.action.stage;

/**
 * Each micro-batch's place x, in units of 1/`perPlace`: lanes of the widest stage are that far apart, so that a peer
 * which feeds them all takes turns. Micro-batches of one peer have different places, in the order of their ids.
 */
function placesOf(plan: Plan): { readonly places: ReadonlyMap<number, number>; readonly perPlace: number } {
  const lists = plan.stages.map(({ members }) =>
    members.map(({ microBatches }) => microBatches.toSorted((a, b) => a - b)).toSorted(([a = 0], [b = 0]) => a - b),
  );
  const widest = lists.reduce((most, lanes) => (lanes.length > most.length ? lanes : most), []);
  const lane = new Map(widest.flatMap((ids, index) => ids.map((id) => [id, index] as const)));
  const place = new Map<number, number>();
  const before = new Map<number, number[]>();
  for (const ids of lists.flat()) {
    for (const [index, id] of ids.entries()) {
      place.set(id, Math.min(index, place.get(id) ?? index));
      const previous = ids[index - 1];
      if (previous === undefined) continue;
      const known = before.get(id);
      if (known) known.push(previous);
      else before.set(id, [previous]);
    }
  }
  const perPlace = widest.length;
  const places = new Map<number, number>();
  for (const id of [...place.keys()].sort((a, b) => a - b)) {
    const own = (place.get(id) ?? 0) * perPlace + (lane.get(id) ?? 0);
    places.set(id, Math.max(own, ...(before.get(id) ?? []).map((previous) => (places.get(previous) ?? 0) + 1)));
  }
  return { places, perPlace };
}
