/**
 * Where there are as many islands as groups of donors, one ends alone: what it had not brought to a meeting never was, and
 * its numbers are free again. The others neither stop nor go back. See SPEC.md, IS85.
 */
import { at, type PeerId, totalOf } from '../base.ts';
import { stillGoing } from '../coordinator/audits.ts';
import { type CoordinatorState, type Donor, planInForce } from '../coordinator/state.ts';
import { DETAIL_LENGTH_LIMIT } from '../fields.ts';
import { counted } from '../quantityText.ts';
import { areMadeAtMeetings } from './anew.ts';
import { change, type Deciding, tellGroup, toCoordinator } from './deciding.ts';
import type { Group } from './group.ts';
import { auditsJoined, distinct, smallest } from './groups.ts';
import { islandOf, withoutIsland } from './recordedRounds.ts';

/** The others go on without this group. Not beside a meeting: then they began the next round at what it has a part in. */
export function mayEndAlone({ groups, apart }: Deciding, index: number): boolean {
  const { giving, meetings } = apart;
  if (giving === null || groups.length === 1 || meetings.beside !== null) return false;
  const { phase } = at(groups, index).coordinator;
  if (phase.name !== 'waiting' || phase.lack.of !== 'groups' || phase.lack.why === 'over') return false;
  const others = groups.filter((_, i) => i !== index).map(({ coordinator }) => coordinator);
  // Of groups that have only begun fewer are made, of all donors.
  return phase.lack.why === 'lost' ? others.some(isGoingOn) : others.some(hasTrained);
}

const isGoingOn = ({ phase }: CoordinatorState): boolean => phase.name !== 'waiting';
const hasTrained = ({ turn, committedSteps, met }: CoordinatorState): boolean =>
  committedSteps > met || (turn?.time ?? 0) > 0;

/**
 * lost: its state is. noPlan: none can be made for its donors alone, and they are of another group at once. late: others waited for it, and hold their meeting without it. met: what it did is in the meeting that
 * is over, and the next round has not begun.
 */
type Why = 'lost' | 'noPlan' | 'late' | 'met';

/** Its donors are with the smallest of the other groups then, and wait for a meeting. */
export function endIsland(deciding: Deciding, index: number, reason: string, why: Why) {
  const { apart, effects } = deciding;
  const ended = at(deciding.groups, index);
  const island = islandOf(ended.coordinator);
  const { met, turn, committedSteps } = ended.coordinator;
  letGo(deciding, ended.coordinator, reason);
  if (why !== 'met') {
    effects.push({ type: 'islandEnded', island, from: met });
    change(deciding, { ...apart.meetings, current: null });
    deciding.apart = { ...deciding.apart, giving: apart.giving && withoutIsland(apart.giving, turn?.numbers ?? []) };
  }
  const again = why === 'met' ? 0 : committedSteps - met;
  const undone = again === 0 ? '' : ` ${counted(again, 'step')} of it will be done by others.`;
  effects.push({
    type: 'log',
    level: why === 'met' ? 'info' : 'warn',
    text: `Island ${island + 1} has ended: ${reason}.${undone}`,
  });
  const others = deciding.groups.filter((_, i) => i !== index);
  const isApart = why !== 'noPlan' && areMadeAtMeetings(deciding.groups, apart.giving);
  const heir = smallest(others);
  const first = at(deciding.groups, 0).coordinator;
  deciding.groups = others.map((group, i) => {
    const heard =
      i === heir ? withDonorsOf(group, ended, why === 'met' ? [] : sinceMet(ended.coordinator), isApart) : group;
    return i === 0 && index === 0 ? asFirst(heard, first, apart.run.evaluation) : heard;
  });
  if (index === 0) saveInstead(deciding, first);
  tellGroup(deciding, heir, toCoordinator({ type: 'deadlineReached' }));
  // Who pressed a button has nothing to stay for.
  for (const { peer, wish } of ended.coordinator.donors)
    if (wish === 'leaving' || wish === 'pausing') {
      const type = wish === 'leaving' ? 'leave' : 'pause';
      tellGroup(deciding, heir, toCoordinator({ type: 'donorSaid', peer, message: { type } }));
    }
}

/** Nothing of its plan counts any more, and its donors wait for another one. */
function letGo({ effects }: Deciding, state: CoordinatorState, reason: string) {
  const inForce = planInForce(state);
  const detail = reason.slice(0, DETAIL_LENGTH_LIMIT);
  for (const { peer: to, wish } of state.donors) {
    if (inForce !== null)
      effects.push({ type: 'send', to, message: { type: 'abandon', epoch: inForce.epoch, detail } });
    if (wish === 'compute')
      effects.push({ type: 'send', to, message: { type: 'standby', state: 'spare', why: 'queued' } });
  }
}

const sinceMet = ({ unsaved, met }: CoordinatorState) => unsaved.filter(({ step }) => step >= met);

/** With the donors of another one, and what they earned; but for what is undone. */
function withDonorsOf(
  group: Group,
  { coordinator: ended, replanner }: Group,
  undone: CoordinatorState['unsaved'],
  isApart: boolean,
): Group {
  const { donors, unsaved, ...state } = group.coordinator;
  const entries = undone.flatMap(({ ledger }) => ledger);
  const lost = (peer: PeerId): number => totalOf(entries, (entry) => (entry.peer === peer ? entry.tokens : 0));
  const standing = ended.unsaved.filter((one) => !undone.includes(one));
  const come = ended.donors.map((donor): Donor => {
    const left = { ...donor, tokens: donor.tokens - lost(donor.peer) };
    return isApart ? { ...left, isApart } : left;
  });
  // Of what is undone no audit goes on.
  const audits = undone.length > 0 && ended.audits ? stillGoing(ended.audits, ended.met, () => true) : ended.audits;
  return {
    coordinator: {
      ...state,
      ...auditsJoined([state.audits, audits]),
      donors: [...donors, ...come],
      unsaved: distinct([...unsaved, ...standing]).toSorted((a, b) => a.step - b.step),
    },
    replanner: { ...group.replanner, donors: [...group.replanner.donors, ...replanner.donors] },
  };
}

/** The first group evaluates, and saves. */
const asFirst = (
  { coordinator, replanner }: Group,
  { evaluatedSteps, evaluationLoss }: CoordinatorState,
  evaluation: CoordinatorState['config']['evaluation'],
): Group => ({
  coordinator: { ...coordinator, config: { ...coordinator.config, evaluation }, evaluatedSteps, evaluationLoss },
  replanner,
});

/** What the first group was saving: where all wait for it another one does; else it is saved at the next meeting. */
function saveInstead(deciding: Deciding, { isSavedFirst }: CoordinatorState) {
  const { apart } = deciding;
  if (apart.saving === null) return;
  const { met: committedSteps, turn } = at(deciding.groups, 0).coordinator;
  if (isSavedFirst !== true || turn === null) {
    deciding.apart = { ...apart, saving: null };
    return;
  }
  deciding.apart = { ...apart, saving: { ...apart.saving, parts: [] } };
  tellGroup(deciding, 0, toCoordinator({ type: 'met', committedSteps, saved: 'first', turn, isBeside: false }));
}
