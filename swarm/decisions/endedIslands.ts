/**
 * Where there are as many islands as groups of donors, one ends alone: what it had not brought to a meeting never was, and
 * its numbers are free again. The others neither stop nor go back. Rules IS in SPEC.md.
 */
import { at } from '../base.ts';
import type { CoordinatorState } from '../coordinator/state.ts';
import { change, type Deciding, tellGroup, toCoordinator } from './deciding.ts';
import type { Group } from './group.ts';
import { distinct, smallest } from './groups.ts';
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

/** Its donors are with the smallest of the other groups then. */
export function endIsland(deciding: Deciding, index: number, reason: string) {
  const { apart, effects } = deciding;
  const ended = at(deciding.groups, index);
  const island = islandOf(ended.coordinator);
  const { met, turn, committedSteps } = ended.coordinator;
  effects.push({ type: 'islandEnded', island, from: met });
  const again = committedSteps - met;
  const undone =
    again === 0 ? '' : ` The last ${again === 1 ? 'step' : `${again} steps`} of it will be done by others.`;
  effects.push({ type: 'log', level: 'warn', text: `Island ${island} has ended: ${reason}.${undone}` });
  const others = deciding.groups.filter((_, i) => i !== index);
  const heir = smallest(others);
  const first = at(deciding.groups, 0).coordinator;
  deciding.groups = others.map((group, i) => {
    const heard = i === heir ? withDonorsOf(group, ended) : group;
    return i === 0 && index === 0 ? asFirst(heard, first, apart.run.evaluation) : heard;
  });
  change(deciding, { ...apart.meetings, current: null });
  deciding.apart = { ...deciding.apart, giving: apart.giving && withoutIsland(apart.giving, turn?.numbers ?? []) };
  if (index === 0) saveInstead(deciding, first);
  tellGroup(deciding, heir, toCoordinator({ type: 'deadlineReached' }));
}

/** With the donors of another one, and what they earned; but for what that had not brought to a meeting. */
function withDonorsOf(group: Group, { coordinator: ended, replanner }: Group): Group {
  const { donors, unsaved, ...state } = group.coordinator;
  const undone = ended.unsaved.filter(({ step }) => step >= ended.met).flatMap(({ ledger }) => ledger);
  const lost = (peer: string): number =>
    undone.reduce((sum, entry) => sum + (entry.peer === peer ? entry.tokens : 0), 0);
  const standing = ended.unsaved.filter(({ step }) => step < ended.met);
  const come = ended.donors.map((donor) => ({ ...donor, tokens: donor.tokens - lost(donor.peer) }));
  return {
    coordinator: {
      ...state,
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
