/** Places for micro-batches in flight that a schedule needs. */
import { got, type PeerId, totalOf } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { Action, MicroAction, Schedule } from './action.ts';
import { gpipe } from './gpipe.ts';

/**
 * Most micro-batches that each peer has of each stage at once: the slots that the stage needs there. A slot is taken by the
 * forward and free after the backward; where the stage before is the same peer's after that one's, which reads the gradient
 * where it lies. A micro-batch without a backward (an evaluation's) is over with its forward.
 */
export function slots(schedule: Schedule): ReadonlyMap<PeerId, ReadonlyMap<number, number>> {
  return new Map([...schedule].map(([peer, actions]) => [peer, slotsOfPeer(actions)]));
}

function slotsOfPeer(actions: readonly Action[]): Map<number, number> {
  const isOver = withoutBackward(actions);
  const freed = freedBy(actions);
  // By stage.
  const [flying, peak]: [number[], number[]] = [[], []];
  const change = (stage: number, by: number) => {
    const now = (flying[stage] ?? 0) + by;
    flying[stage] = now;
    peak[stage] = Math.max(peak[stage] ?? 0, now);
  };
  for (const action of actions) {
    if (action.op === 'F') {
      change(action.stage, 1);
      if (isOver(action)) change(action.stage, -1);
    }
    if (action.op === 'B') for (const stage of freed(action)) change(stage, -1);
  }
  return new Map(peak.flatMap((most, stage) => (most === undefined ? [] : [[stage, most] as const])));
}

/** The same of a plan whose schedule is built: varuna goes past its list's as far as its plan lets it (SC26). */
export function planSlots(plan: Plan, schedule: Schedule): ReturnType<typeof slots> {
  const listed = slots(schedule);
  if (plan.schedule !== 'varuna') return listed;
  const all = slots(gpipe(plan));
  const most = plan.maxInFlight ?? Infinity;
  return new Map(
    [...listed].map(([peer, stages]) => [
      peer,
      new Map(
        [...stages].map(([stage, count]) => [stage, Math.max(count, Math.min(got(got(all, peer), stage), most))]),
      ),
    ]),
  );
}

/** Of which stages of this peer a backward frees the micro-batch's slot. */
export function freedBy(actions: readonly Action[]): (backward: MicroAction) => readonly number[] {
  const stages = new Set(actions.flatMap((action) => ('microBatch' in action ? [action.stage] : [])));
  if (![...stages].some((stage) => stages.has(stage - 1))) return ({ stage }) => [stage];
  const own = new Set(actions.flatMap((action) => (action.op === 'B' ? [keyOf(action)] : [])));
  return ({ stage, microBatch }) => [
    ...(own.has(keyOf({ op: 'B', stage: stage - 1, microBatch })) ? [] : [stage]),
    ...(own.has(keyOf({ op: 'B', stage: stage + 1, microBatch })) ? [stage + 1] : []),
  ];
}

/** Which forwards have no backward. Mostly none: as many of both need no closer look. */
function withoutBackward(actions: readonly Action[]): (action: MicroAction) => boolean {
  const count = (wanted: Action['op']): number => totalOf(actions, ({ op }) => (op === wanted ? 1 : 0));
  if (count('F') === count('B')) return () => false;
  const backwards = new Set(actions.flatMap((action) => (action.op === 'B' ? keyOf(action) : [])));
  return (action) => !backwards.has(keyOf(action));
}

const keyOf = ({ stage, microBatch }: MicroAction): string => `${stage} ${microBatch}`;
