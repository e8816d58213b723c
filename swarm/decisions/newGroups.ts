/**
 * Where there are as many islands as groups of donors, groups are made anew at meetings. A newcomer, and whose island has
 * ended, is in no plan until one is over. Then it begins a new island, with the next number and at what the meeting came to,
 * as soon as that is saved, or is taken into a group; and where other groups of all donors would do enough more to pay for
 * it, islands end there.
 */
import { type Groups, type GroupsFound, groupsWorth, haveDrifted } from '../autoplan/groupsAnew.ts';
import { searchProblem } from '../autoplan/knownDonors.ts';
import { at, type PeerId, type Result } from '../base.ts';
import { type CoordinatorState, planInForce } from '../coordinator/state.ts';
import { interruption, membersInvolved } from '../coordinator/successor.ts';
import { MOST_ISLANDS } from '../run/runFile.ts';
import { type Anew, areMadeAtMeetings } from './anew.ts';
import { type Deciding, statesOf, tellGroup, toCoordinator } from './deciding.ts';
import { endIsland } from './endedIslands.ts';
import type { DecisiveMessage } from './events.ts';
import { groupOf, newGroup, stateOf, withDonor, withoutDonor } from './groups.ts';
import { pacesNow } from './paces.ts';
import { freeIn, membersIn } from './parts.ts';
import { islandOf } from './recordedRounds.ts';

function changeAnew(deciding: Deciding, part: Partial<Anew>) {
  const { apart } = deciding;
  deciding.apart = { ...apart, anew: { ...apart.anew, ...part } };
}

const waitForMeetings = ({ groups, apart }: Deciding): boolean => areMadeAtMeetings(groups, apart.giving);

/** After a meeting: where donors or their lines are not what they were, groups are sought again. */
export function lookAgain(deciding: Deciding) {
  const { sought, paces, search } = deciding.apart.anew;
  if (sought === null || search !== null || !waitForMeetings(deciding)) return;
  const states = statesOf(deciding);
  const peers = [...states.flatMap(membersIn), ...freeIn(states)];
  if (haveDrifted(paces, pacesNow(deciding.groups, peers))) changeAnew(deciding, { sought: null });
}

/** Other donors are at hand than groups were sought for, or these are not what they were. */
export function seek(deciding: Deciding): boolean {
  const { groups, apart, effects } = deciding;
  const states = statesOf(deciding);
  if (!waitForMeetings(deciding) || states.some((state) => planInForce(state) === null)) return false;
  const standing = states.map(membersIn);
  const all = [...standing.flat(), ...freeIn(states)];
  const sought = all.toSorted().join(' ');
  if (sought === apart.anew.sought) return false;
  const { searches } = apart.anew;
  const paces = pacesNow(deciding.groups, all);
  changeAnew(deciding, { sought, paces, found: null, search: searches, searches: searches + 1 });
  const known = groups.flatMap(({ replanner }) => replanner.donors);
  const problem = searchProblem(at(groups, 0).replanner.config, known, all);
  if (problem.cluster.peers.length === 0) groupsFound(deciding, searches, null);
  else effects.push({ type: 'searchGroups', search: searches, problem: { problem, standing } });
  return true;
}

/** What the search came to; null, or a refusal: whoever has no group is taken to have room alone. */
export function groupsFound(deciding: Deciding, search: number, came: Result<GroupsFound> | null) {
  if (deciding.apart.anew.search !== search) return;
  const states = statesOf(deciding);
  const kept = {
    groups: [...states.map(membersIn), ...freeIn(states).map((peer) => [peer])],
    stepSeconds: null,
  };
  changeAnew(deciding, { search: null, found: came?.ok ? came.value : { kept, best: kept, costSeconds: 0 } });
}

/** What becomes of groups, by their islands. */
interface Change {
  readonly ends: readonly number[];
  readonly starts: Groups;
  readonly joins: readonly { readonly peer: PeerId; readonly island: number }[];
}

function changeAt(deciding: Deciding, committedSteps: number): Change | null {
  const { found, starts } = deciding.apart.anew;
  const { steps } = deciding.apart.run;
  const states = statesOf(deciding);
  const isOver = committedSteps >= steps || states.some(({ operator }) => operator !== 'run');
  if (found === null || isOver || !waitForMeetings(deciding)) return null;
  const members = states.map(membersIn);
  const waiting = new Set(starts.flat());
  const free = freeIn(states).filter((peer) => !waiting.has(peer));
  const worth = groupsWorth(found, steps - committedSteps);
  // One group at least goes on as it is, and has what all share.
  const target = staying(members, worth).size > 0 ? worth : found.kept.groups;
  const stays = staying(members, target);
  const ended = [...members.keys()].filter((index) => at(members, index).length > 0 && !stays.has(index));
  const moving = new Set([...free, ...ended.flatMap((index) => at(members, index))]);
  const islandAt = (index: number): number => islandOf(at(states, index));
  const smallest = [...stays.keys()].toSorted((a, b) => at(members, a).length - at(members, b).length || a - b)[0];
  // Who is of no use elsewhere may be of some to the smallest group: that is judged there.
  const placed = new Set(target.flat());
  const rest = smallest === undefined ? [] : [...moving].filter((peer) => !placed.has(peer));
  return {
    ends: ended.map(islandAt),
    starts: target.filter((group) => group.length > 0 && group.every((peer) => moving.has(peer))),
    joins: [
      ...[...stays].flatMap(([index, group]) =>
        group.flatMap((peer) => (moving.has(peer) ? { peer, island: islandAt(index) } : [])),
      ),
      ...rest.map((peer) => ({ peer, island: islandAt(smallest ?? 0) })),
    ],
  };
}

/** Groups whose members stay together: the largest in each new one, which takes in the others of it. */
function staying(members: Groups, target: Groups): Map<number, readonly PeerId[]> {
  const stays = new Map<number, readonly PeerId[]>();
  for (const group of target) {
    const within = [...members.keys()].filter((index) => {
      const own = at(members, index);
      return own.length > 0 && own.every((peer) => group.includes(peer));
    });
    const [first] = within.toSorted((a, b) => at(members, b).length - at(members, a).length || a - b);
    if (first !== undefined) stays.set(first, group);
  }
  return stays;
}

/** Something is to change at this meeting, or waits for what it comes to. */
export function isDueAnew(deciding: Deciding, committedSteps: number): boolean {
  if (deciding.apart.anew.starts.length > 0) return true;
  const { ends = [], starts = [] } = changeAt(deciding, committedSteps) ?? {};
  return ends.length + starts.length > 0;
}

/** Islands that end when this meeting is over, as far as it is known before. */
export function endingAt(deciding: Deciding, committedSteps: number): number[] {
  const leaving = statesOf(deciding).filter((state) => isLeaving(deciding, state));
  return [...leaving.map(islandOf), ...(changeAt(deciding, committedSteps)?.ends ?? [])];
}

/** All have met, and the next round has not begun. */
export function makeAnew(deciding: Deciding, committedSteps: number) {
  endForLeaving(deciding);
  const change = changeAt(deciding, committedSteps);
  if (change === null) return;
  for (const island of change.ends) {
    const index = statesOf(deciding).findIndex((state) => islandOf(state) === island);
    endIsland(deciding, index, 'its donors do more in other groups', 'met');
  }
  for (const { peer, island } of change.joins) {
    const from = groupOf(deciding.groups, peer);
    const isThere = at(deciding.groups, from).coordinator.donors.some((one) => one.peer === peer && !one.isApart);
    const to = statesOf(deciding).findIndex((state) => islandOf(state) === island);
    const [without, moved] = withoutDonor(at(deciding.groups, from), peer);
    if (moved === null || (isThere && from === to)) continue;
    deciding.groups = deciding.groups.map((group, index) => (index === from ? without : group));
    deciding.groups = deciding.groups.map((group, index) => (index === to ? withDonor(group, moved) : group));
  }
  if (change.starts.length > 0) startAnew(deciding, change.starts, committedSteps);
}

/** A donor wants to go, and its group cannot go on without it: what it did is in the meeting. */
function endForLeaving(deciding: Deciding) {
  for (const state of statesOf(deciding)) {
    const index = statesOf(deciding).findIndex((one) => islandOf(one) === islandOf(state));
    if (isLeaving(deciding, state) && deciding.groups.length > 1)
      endIsland(deciding, index, 'its donors are needed for it and go', 'met');
  }
}

const isLeaving = (deciding: Deciding, state: CoordinatorState): boolean =>
  waitForMeetings(deciding) && state.operator === 'run' && mustStand(state);

/** What it has is saved before somebody goes. */
export function mustStand(state: CoordinatorState): boolean {
  const stop = interruption(state);
  return stop !== null && stop.successor === null;
}

/** They begin as islands when what a meeting came to is saved. */
export function startAnew(deciding: Deciding, starts: Groups, committedSteps: number) {
  const { anew } = deciding.apart;
  changeAnew(deciding, {
    starts: [...anew.starts, ...starts],
    waitingSince: anew.waitingSince ?? committedSteps,
  });
}

/** Whether what this meeting comes to is saved for those who wait for it: all wait where it was not in time before. */
export function savedForStarts({ starts, waitingSince }: Anew, committedSteps: number): 'first' | 'beside' | 'no' {
  if (starts.length === 0) return 'no';
  return waitingSince !== null && waitingSince < committedSteps ? 'first' : 'beside';
}

/** What the last meeting came to is saved, and the round after it is under way. */
export function beginIslands(deciding: Deciding) {
  const { starts } = deciding.apart.anew;
  changeAnew(deciding, { starts: [], waitingSince: null });
  for (const group of starts) {
    const { groups, apart } = deciding;
    const free = new Set(freeIn(statesOf(deciding)));
    const peers = group.filter((peer) => free.has(peer));
    const { giving } = apart;
    if (peers.length === 0 || giving === null || groups.length >= MOST_ISLANDS) continue;
    const donors = peers.flatMap((peer) => withoutDonor(at(groups, groupOf(groups, peer)), peer)[1] ?? []);
    const others = groups.map((one) => peers.reduce((left, peer) => withoutDonor(left, peer)[0], one));
    const island = giving.nextIsland;
    deciding.groups = [...others, newGroup(others, island, donors, giving)];
    deciding.apart = { ...apart, giving: { ...giving, nextIsland: island + 1 } };
    const text = `Island ${island + 1} begins with ${peers.join(', ')}.`;
    deciding.effects.push({ type: 'log', level: 'info', text });
    tellGroup(deciding, others.length, toCoordinator({ type: 'deadlineReached' }));
  }
}

/** Words of a plan that its group is not in any more: they were true when they were said. */
export function isOfOldGroup({ groups, apart }: Deciding, peer: PeerId, message: DecisiveMessage): boolean {
  if (apart.giving === null || !('epoch' in message)) return false;
  if (membersInvolved(stateOf(groups, peer)).includes(peer)) return false;
  return message.epoch <= Math.max(...groups.map(({ coordinator }) => coordinator.epoch));
}
