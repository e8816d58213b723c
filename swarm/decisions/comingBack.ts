/**
 * The server was killed, and is back from its store: several groups of donors had islands of their own. Each group is
 * waited for by itself (coordinator/returning.ts), goes on as soon as its donors are back, and proves its own last step;
 * where one cannot, all go back to the newest checkpoint. Rules IS in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import { begin } from '../coordinator/beginning.ts';
import type { CoordinatorConfig, GroupStart, StartState } from '../coordinator/events.ts';
import { mayReturn, waitedFor } from '../coordinator/returning.ts';
import type { CoordinatorState } from '../coordinator/state.ts';
import type { ServerMessage } from '../messages/messages.ts';
import { peers } from '../plan/plan.ts';
import type { Group } from './group.ts';
import { joined, SEARCHES_APART } from './groups.ts';

/** As they were, with nobody there yet. `replanner`: with what is known of donors. */
export function groupsAsStored(
  run: CoordinatorConfig,
  start: StartState,
  replanner: Group['replanner'],
): readonly Group[] {
  const { apart, ...whole } = start;
  if (apart === undefined) return [{ coordinator: begin(run, whole), replanner }];
  const { met, groups } = apart;
  // None has begun the next round: what they met with is saved before any of them does.
  const isSavedFirst = met > whole.newestCheckpointStep && groups.every((group) => group.committedSteps === met);
  return groups.map((group, index): Group => {
    const ofIts = (peer: PeerId): number => groups.findIndex(({ plans }) => isIn(plans, peer));
    return {
      coordinator: { ...asStored(run, { ...whole, ...group }, index), met, isSavedFirst },
      replanner: {
        ...replanner,
        donors: replanner.donors.filter(({ peer }) => Math.max(0, ofIts(peer)) === index),
        searches: replanner.searches + index * SEARCHES_APART,
      },
    };
  });
}

const isIn = (plans: GroupStart['plans'], peer: PeerId): boolean =>
  plans.some(({ plan }) => peers(plan).includes(peer));

function asStored(run: CoordinatorConfig, { own, ...start }: StartState & GroupStart, index: number): CoordinatorState {
  const { plans, credit, applied } = start;
  const expected = plans.at(-1);
  const isOpen = run.expectedDonors !== null && expected !== undefined;
  const config = {
    ...{ ...run, own, evaluation: index === 0 ? run.evaluation : null },
    expectedDonors: isOpen ? peers(expected.plan).length : null,
  };
  const clock = { since: null, deadline: null };
  return {
    ...begin(config, start),
    phase: { name: 'returning', plans, credit, stale: applied?.stale ?? [], back: [], ...clock },
  };
}

/** The group that waits for this donor; null: none does. */
export function awaitingGroup(groups: readonly Group[], peer: PeerId): number | null {
  const index = groups.findIndex(({ coordinator }) => mayReturn(coordinator, peer));
  return index < 0 ? null : index;
}

/** What a donor is told that comes: of the group that waits for it, or of the run. */
export function greetingOf(
  groups: readonly Group[],
  run: CoordinatorConfig,
  peer: PeerId,
): Pick<Extract<ServerMessage, { type: 'welcome' }>, 'generation' | 'epoch' | 'committedSteps' | 'lastCommit' | 'met'> {
  const awaiting = groups[awaitingGroup(groups, peer) ?? -1];
  const [only] = groups;
  const of = awaiting ?? (groups.length === 1 && only ? only : joined(groups, run, [], ''));
  const { generation, epoch, committedSteps, lastCommit, met, config } = of.coordinator;
  const isApart = config.own !== undefined;
  return { generation, epoch, committedSteps, lastCommit, ...(isApart ? { met } : {}) };
}

/** While somebody is there in any group, those that are waited for have so long. */
export function waitForGroups(groups: readonly Group[], now: number): readonly Group[] {
  if (groups.length === 1) return groups;
  const isSomebodyThere = groups.some(({ coordinator }) => coordinator.donors.length > 0);
  return groups.map((group) => {
    const { phase } = group.coordinator;
    if (phase.name !== 'returning' || (phase.since !== null) === isSomebodyThere) return group;
    const clock = isSomebodyThere ? waitedFor(phase, now) : { since: null, deadline: null };
    return { ...group, coordinator: { ...group.coordinator, phase: { ...phase, ...clock } } };
  });
}
