/**
 * An island that is late, where there are as many as groups of donors: the others have waited past a grace that is measured
 * from what they took themselves. They meet without it, its steps are done by others, and its donors begin a new island.
 * See SPEC.md, IS85.
 */
import { at } from '../base.ts';
import type { CoordinatorState } from '../coordinator/state.ts';
import { areMadeAtMeetings } from './anew.ts';
import { type Deciding, statesOf } from './deciding.ts';
import { endIsland } from './endedIslands.ts';
import { startAnew } from './newGroups.ts';
import { doneBy, isReady } from './recordedRounds.ts';

/** Nobody is late by less, nor by less than so much of what the others took for the round. */
const [LEAST_GRACE_MS, GRACE_SHARE] = [10_000, 0.5];

/** Who holds the others up, all of whom stand ready and may have no more numbers; empty: nobody does. */
function lateOnes(states: readonly CoordinatorState[]): number[] {
  const late = [...states.keys()].filter((index) => !isReady(at(states, index)));
  const isCommon = 2 * late.length > states.length;
  const hasMore = states.some((state) => isReady(state) && doneBy(state) > 0);
  return hasMore && !isCommon && late.every((index) => mayBeLate(at(states, index))) ? late : [];
}

/** Who gets ready for the first time, evaluates or saves is waited for: that has deadlines of its own. */
const mayBeLate = ({ phase, turn, committedSteps, met }: CoordinatorState): boolean =>
  phase.name === 'training' ||
  ((phase.name === 'planning' || phase.name === 'preparing') && (committedSteps > met || (turn?.time ?? 0) > 0));

/** After nobody may have another number. */
export function leaveOut(deciding: Deciding): boolean {
  const { groups, apart, now } = deciding;
  const { giving, meetings, anew } = apart;
  const isOpen = areMadeAtMeetings(groups, giving) && meetings.current === null && meetings.beside === null;
  const states = statesOf(deciding);
  const late = isOpen ? lateOnes(states) : [];
  if (giving === null || giving.startedAt === null || late.length === 0) {
    if (anew.late !== null) deciding.apart = { ...apart, anew: { ...anew, late: null } };
    return false;
  }
  if (anew.late === null) {
    // A round that ended early, as its numbers were few, is no measure of who is slow.
    const tookMs = Math.max(now - giving.startedAt, giving.terms?.lastsMs ?? 0);
    const untilMs = giving.startedAt + tookMs + Math.max(LEAST_GRACE_MS, GRACE_SHARE * tookMs);
    deciding.apart = { ...apart, anew: { ...anew, late: { untilMs } } };
    return false;
  }
  if (now < anew.late.untilMs) return false;
  const index = at(late, 0);
  const { donors, met } = at(states, index);
  endIsland(deciding, index, 'the others had waited for it long enough, and met without it', 'late');
  const staying = donors.flatMap(({ peer, wish }) => (wish === 'compute' ? peer : []));
  if (staying.length > 0) startAnew(deciding, [staying], met);
  return true;
}
