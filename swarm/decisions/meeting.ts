/**
 * A meeting of several groups, as the server sees it: every keeper is told who keeps what in all groups, works out what comes
 * of the meeting, and says its digests. What the same ranges come to must be the same everywhere. Nothing of it counts
 * before all have said so; a meeting that fails is begun again, under a number of its own. Rules IS in SPEC.md.
 */
import { at, invariant, type PeerId } from '../base.ts';
import { allowedMs, DEADLINES } from '../coordinator/deadlines.ts';
import type { CoordinatorConfig, Pair } from '../coordinator/events.ts';
import { type CoordinatorState, type Duties, membersOf, type PlanInForce, shardKey } from '../coordinator/state.ts';
import { nextStepOf } from '../coordinator/stepsAhead.ts';
import { keepersLive, keepingState, living } from '../coordinator/successor.ts';
import { roundEnd, roundSteps, turnAt } from '../islands/rounds.ts';
import { type MeetingOwners, NO_EPOCH } from '../messages/meetingWords.ts';
import type { MetMessage, ServerMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { keepersOf, type Plan } from '../plan/plan.ts';
import { meetingCuts, meetingPartners } from '../ways/meeting.ts';
import type { Accusation, Late } from './meetingBlame.ts';
import type { OwnersTold } from './owned.ts';
import { isRoundOver, recordedEnd, recordedSteps } from './recordedRounds.ts';

/** Times that a meeting is begun again before it is somebody's fault. */
const TRIES = 2;

/** What is met about. */
interface RoundEnd {
  readonly round: number;
  /** So many steps stand committed when it is over. */
  readonly end: number;
  /** How many each island did. */
  readonly steps: readonly number[];
  /** Of each group. */
  readonly epochs: readonly number[];
}

export interface Meeting extends RoundEnd {
  /** Of all meetings begun so far. */
  readonly attempt: number;
  /** Null: every keeper has all that is shared of what it keeps. */
  readonly owners: MeetingOwners | null;
  /** All say what they hear of each other. */
  readonly isTraced: boolean;
  /** Of each group, how many were told. */
  readonly members: readonly number[];
  readonly met: readonly { readonly peer: PeerId; readonly said: MetMessage }[];
  readonly startedAt: number;
  readonly deadline: number;
}

/** What stays from one meeting of a run to the next. */
export interface Meetings {
  readonly current: Meeting | null;
  /** Begun so far. */
  readonly attempts: number;
  /** Of this round, that came to nothing. */
  readonly failures: number;
  /** What donors said of each other at this round's meetings, and some before. */
  readonly accused: readonly Accusation[];
  /** Null: none of this round was. */
  readonly late: Late | null;
  /** One of this round came to different things. */
  readonly isTraced: boolean;
  /** How long the last one took. */
  readonly lastMs: number | null;
  /**
   * Who said that it lost its link to whom: what they say to each other at meetings goes through the server. Of one group only
   * until the one beside its steps is over: then its plan says how they reach each other.
   */
  readonly relayed: readonly Pair[];
  /** Of which the islands have begun the next round (`overlap`), and have not all heard what came of it; null: they wait. */
  readonly beside: RoundEnd | null;
}

export const NO_MEETINGS: Meetings = {
  ...{ current: null, attempts: 0, failures: 0 },
  ...{ accused: [], late: null, isTraced: false, lastMs: null, relayed: [], beside: null },
};

/** The plans of groups that all stand at the end of the round; null: one does not. */
export function standing(groups: readonly CoordinatorState[]): PlanInForce[] | null {
  const plans = groups.flatMap((state) => {
    const { phase, met, config } = state;
    const hasEnded = phase.name === 'holding' && phase.awaits === 'groups' && !state.isSavedFirst;
    return hasEnded && met < config.steps && nextStepOf(state) === null ? phase.inForce : [];
  });
  if (groups.some(({ turn }) => turn !== null) && !isRoundOver(groups)) return null;
  return plans.length === groups.length ? plans : null;
}

/** All groups stand at the end of this round. */
export function roundEnded(groups: readonly CoordinatorState[], plans: readonly PlanInForce[]): RoundEnd {
  const { config, met, turn } = at(groups, 0);
  return {
    round: turn?.round ?? turnAt(config.train, met).round,
    end: endOf(groups),
    steps: turn === null ? roundSteps(config.train, met) : recordedSteps(groups),
    epochs: plans.map(({ epoch }) => epoch),
  };
}

export function begun(
  about: RoundEnd,
  plans: readonly PlanInForce[],
  told: OwnersTold | null,
  before: Meetings,
  now: number,
): Meetings {
  const { attempts, failures, lastMs, isTraced } = before;
  // What owners send on is not what it was at the last one.
  const sending = told === null ? 0 : allowedMs(DEADLINES.meeting, told.allowedMs);
  const allowed = 2 ** failures * Math.max(sending, allowedMs(DEADLINES.meeting, lastMs));
  const owners = told?.owners ?? null;
  const [attempt, members] = [attempts + 1, plans.map(sizeOf)];
  const current = { ...about, attempt, owners, isTraced, members, met: [], startedAt: now, deadline: now + allowed };
  return { ...before, attempts: attempts + 1, current };
}

const sizeOf = ({ duties }: PlanInForce): number => duties.length;

/** Somebody who was told of it has gone since. */
export const isWithoutSome = ({ members }: Meeting, plans: readonly PlanInForce[]): boolean =>
  plans.some((inForce, group) => sizeOf(inForce) !== members[group]);

/**
 * Of each group those who are left of who ended the round that is met about beside the next one, the first of them its
 * primaries; null: another plan is in force somewhere, or nobody has what some of its islands came to.
 */
export function enders(groups: readonly CoordinatorState[], { epochs }: RoundEnd): PlanInForce[] | null {
  const plans = groups.flatMap((state, group) => {
    const ended = keepingState(state);
    if (ended === null || ended.epoch !== epochs[group]) return [];
    if (keepersLive(state, ended)) return ended;
    const plan = living(state, ended);
    if (plan === null) return [];
    const keepers = new Set(keepersIn(plan));
    const isLeft = ({ peer, primary, replica }: Duties): boolean =>
      keepers.has(peer) || (primary.length + replica.length === 0 && state.donors.some((donor) => donor.peer === peer));
    return { ...ended, plan, duties: ended.duties.filter(isLeft) };
  });
  return plans.length === groups.length ? plans : null;
}

/** The count at which the round ends that all are in. */
const endOf = (states: readonly CoordinatorState[]): number => {
  const { met, config, turn } = at(states, 0);
  return turn === null ? roundEnd(config.train, met) : recordedEnd(states);
};

/** What each keeper, or once it is over each member, is told; and who owns something and is in no plan. */
export function invitations(
  plans: readonly PlanInForce[],
  { attempt, round, steps, end, owners, isTraced }: Meeting,
  { relayed: pairs, beside, late }: Pick<Meetings, 'relayed' | 'beside' | 'late'>,
  isRecorded: boolean,
): { readonly to: PeerId; readonly message: ServerMessage }[] {
  const groups = groupsOf(plans);
  const told = (to: PeerId, epoch: number): { readonly to: PeerId; readonly message: ServerMessage } => {
    const others = pairs.flatMap((pair) => (pair.includes(to) ? pair.filter((peer) => peer !== to) : []));
    const message = {
      ...{ type: 'meet' as const, epoch, round, attempt, steps: [...steps], groups },
      ...(isRecorded ? { end } : {}),
      ...(others.length > 0 ? { relayed: [...new Set(others)] } : {}),
      ...(late?.attempt === attempt - 1 ? { wasLate: true as const } : {}),
      ...(beside ? { beside: true as const } : {}),
      ...(isTraced ? { traced: true as const } : {}),
      ...(owners ? { owners } : {}),
    };
    return { to, message };
  };
  return [
    ...plans.flatMap((inForce) => {
      const { epoch, plan } = inForce;
      // Of a recorded round nobody else knows where it ends, and of one beside the next that it has ended.
      return (isRecorded || beside ? membersOf(inForce) : keepersIn(plan)).map((to) => told(to, epoch));
    }),
    ...idleOwners(owners, plans).map((to) => told(to, NO_EPOCH)),
  ];
}

function idleOwners(owners: MeetingOwners | null, plans: readonly PlanInForce[]): PeerId[] {
  const all = new Set(owners?.ranges.flatMap(({ have, keep }) => [...have, ...keep]));
  for (const inForce of plans) for (const member of membersOf(inForce)) all.delete(member);
  return [...all];
}

export const isOwner = (meeting: Meeting | null, peer: PeerId): boolean =>
  meeting?.owners?.ranges.some(({ have, keep }) => have.includes(peer) || keep.includes(peer)) === true;

/** Somebody who owns something is in no plan, and has gone since. */
export const isWithoutOwner = (
  { owners }: Meeting,
  plans: readonly PlanInForce[],
  isHere: (peer: PeerId) => boolean,
): boolean => !idleOwners(owners, plans).every(isHere);

const keepersIn = ({ state }: Plan): PeerId[] => [...new Set(state.flatMap(({ shards }) => shards.flatMap(keepersOf)))];

export const groupsOf = (plans: readonly PlanInForce[]): Extract<ServerMessage, { type: 'meet' }>['groups'] =>
  plans.map(({ epoch, plan: { islands, state } }) => {
    invariant(islands, 'a plan of one of several groups says which islands are its own');
    return { epoch, islands: [...islands], state: state as Plan['state'] };
  });

const farewell = (to: PeerId, epoch: number, { round, end }: Meeting, isRecorded: boolean) => ({
  to,
  message: { type: 'meetingOver' as const, epoch, round, ...(isRecorded ? { end } : {}) },
});

export const farewells = (
  plans: readonly PlanInForce[],
  meeting: Meeting,
  isRecorded: boolean,
): { readonly to: PeerId; readonly message: ServerMessage }[] => [
  ...plans.flatMap((inForce) => membersOf(inForce).map((to) => farewell(to, inForce.epoch, meeting, isRecorded))),
  ...farewellsOfOwners(plans, meeting, isRecorded),
];

/** Of those alone who are in no plan. */
export const farewellsOfOwners = (
  plans: readonly PlanInForce[],
  meeting: Meeting,
  isRecorded: boolean,
): { readonly to: PeerId; readonly message: ServerMessage }[] =>
  idleOwners(meeting.owners, plans).map((to) => farewell(to, NO_EPOCH, meeting, isRecorded));

/** With this word; the same where nobody can have asked for it now. */
export function withWord(meeting: Meeting, plans: readonly PlanInForce[], peer: PeerId, said: MetMessage): Meeting {
  const expected = expectedOf(meeting, plans).get(peer);
  const own = plans.find(({ plan }) =>
    plan.state.some(({ shards }) => shards.some((one) => keepersOf(one).includes(peer))),
  );
  const isOfNow =
    said.attempt === meeting.attempt && said.round === meeting.round && said.epoch === (own?.epoch ?? NO_EPOCH);
  const isKnown = meeting.met.some((one) => one.peer === peer);
  const keys = digestsOf(said).map(([key]) => key);
  const isWhole =
    keys.length === expected?.size && new Set(keys).size === keys.length && keys.every((key) => expected.has(key));
  return isOfNow && isWhole && !isKnown ? { ...meeting, met: [...meeting.met, { peer, said }] } : meeting;
}

/** What a keeper has of the model, and what an owner has of what is shared, are different things of one range. */
export const digestsOf = ({ digests, owned = [] }: MetMessage): (readonly [key: string, digest: string])[] => [
  ...digests.map(({ block, range, digest }) => [shardKey(block, range), digest] as const),
  ...owned.map(({ block, range, digest }) => [ownedKey(block, range), digest] as const),
];
const ownedKey = (...of: Parameters<typeof shardKey>): string => `owned ${shardKey(...of)}`;

/** Of each keeper its ranges, cut wherever any group cuts: then any two that have the same can be compared. */
export function expectedOf({ owners }: Meeting, plans: readonly PlanInForce[]): Map<PeerId, Set<string>> {
  const cuts = meetingCuts(groupsOf(plans), owners);
  const expected = new Map<PeerId, Set<string>>();
  const expect = (peer: PeerId, keys: readonly string[]): void =>
    void expected.set(peer, new Set([...(expected.get(peer) ?? []), ...keys]));
  for (const { plan } of plans)
    for (const { block, shards } of plan.state)
      for (const shard of shards) {
        const keys = cuts(block, shard.range).map((piece) => shardKey(block, piece));
        for (const peer of keepersOf(shard)) expect(peer, keys);
      }
  for (const { block, range, keep } of owners?.ranges ?? [])
    for (const peer of keep)
      expect(peer, [ownedKey(block, range), ...cuts(block, range).map((piece) => shardKey(block, piece))]);
  return expected;
}

/** Not both of these two have met, and one of them sends the other something at it. */
export function isWayAwaited(
  { met, owners }: Meeting,
  plans: readonly PlanInForce[],
  config: CoordinatorConfig,
  pair: Pair,
): boolean {
  const { islands } = config.train;
  if (islands === undefined || pair.every((peer) => met.some((one) => one.peer === peer))) return false;
  const partners = meetingPartners(acceptedModel(config), islands, groupsOf(plans), owners ?? undefined);
  return partners.get(pair[0])?.has(pair[1]) === true;
}

/**
 * Begun again, with another way between these two, of whom the first one says that the link is lost. The other one's word
 * of it changes nothing more. Null: it has said so before.
 */
export function relayedWith(meetings: Meetings, [from, about]: Pair): Meetings | null {
  const { relayed, current } = meetings;
  const isSaid = (by: PeerId, of: PeerId): boolean => relayed.some(([one, other]) => one === by && other === of);
  if (isSaid(from, about)) return null;
  return { ...meetings, current: isSaid(about, from) ? current : null, relayed: [...relayed, [from, about]] };
}

/** It came to nothing, and is begun again when all stand; true: often enough that it has to be somebody's fault. */
export const failed = (meetings: Meetings): Meetings => ({
  ...meetings,
  current: null,
  failures: meetings.failures + 1,
});
export const isTriedEnough = ({ failures }: Meetings): boolean => failures >= TRIES;

export const over = (meetings: Meetings, { startedAt }: Meeting, now: number): Meetings => ({
  ...meetings,
  ...{ current: null, failures: 0, late: null, isTraced: false, lastMs: now - startedAt },
});
