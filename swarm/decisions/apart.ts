/**
 * What happens between the groups of a run: each event goes to the group that it is about; a run is divided into groups
 * where a plan is wanted from a checkpoint; they meet, and save, together; and where one cannot go on, or all are at an
 * end, they are one group again.
 */
import { at } from '../base.ts';
import { undoable } from '../coordinator/checkpoint.ts';
import type { CoordinatorConfig, StartState } from '../coordinator/events.ts';
import { NO_EPOCH } from '../messages/meetingWords.ts';
import { areMadeAtMeetings, NOTHING_ANEW } from './anew.ts';
import { awaitingGroup, waitForGroups } from './comingBack.ts';
import {
  type Apart,
  both,
  type Deciding,
  goOnTogether,
  join,
  statesOf,
  tellAll,
  tellGroup,
  toCoordinator,
} from './deciding.ts';
import { endIsland, mayEndAlone } from './endedIslands.ts';
import type { ToldEvent } from './events.ts';
import type { Group, GroupEvent } from './group.ts';
import { committedIn, divided, groupCount, groupOf, isTogether, smallest } from './groups.ts';
import { leaveOut } from './lateIslands.ts';
import { isOwner, NO_MEETINGS } from './meeting.ts';
import { isLateWord } from './meetingBlame.ts';
import { heardOf, isBetweenGroups, isOfGone, lostWay, lostWithin, meet, saidOfLate } from './meetingsHeld.ts';
import { beginIslands, groupsFound, isOfOldGroup, seek } from './newGroups.ts';
import { canSave, ownersFrom, turnText, UNSAVED } from './owners.ts';
import { beginGiving, keptFrom, nextGiven, sentTo } from './recordedRounds.ts';

const together = (run: CoordinatorConfig, start: StartState): Apart => ({
  run,
  order: [],
  mostGroups: Number.MAX_SAFE_INTEGER,
  meetings: NO_MEETINGS,
  giving: beginGiving(run.train, start),
  anew: NOTHING_ANEW,
  ...{ saving: null, owners: null, turns: false },
});

/** As the store has it. */
export function apartAsStored(run: CoordinatorConfig, start: StartState, groups: readonly Group[]): Apart {
  const { met, isSavedFirst } = at(groups, 0).coordinator;
  return { ...together(run, start), saving: isSavedFirst ? { step: met, parts: [] } : null };
}

export function apartDeadline({ meetings, anew }: Apart): number | null {
  const deadlines = [meetings.current?.deadline ?? [], anew.late?.untilMs ?? []].flat();
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}

export function tell(deciding: Deciding, event: ToldEvent) {
  const { groups, apart } = deciding;
  if (event.type === 'groupsFound') return groupsFound(deciding, event.search, event.found);
  if (event.type === 'sentBack' && apart.giving && event.recorded)
    deciding.apart = { ...apart, giving: sentTo(apart.giving, event.recorded, event.toStep) };
  // Of a meeting alone.
  if (event.type === 'donorSaid' && event.message.type === 'fault' && isLateWord(event.message))
    return saidOfLate(deciding, event.peer, event.message);
  if (isTogether(groups)) return tellGroup(deciding, 0, both(event));
  switch (event.type) {
    case 'donorJoined':
      deciding.apart = { ...apart, order: [...apart.order.filter((peer) => peer !== event.peer), event.peer] };
      return tellGroup(deciding, awaitingGroup(groups, event.peer) ?? smallest(groups), comes(deciding, event));
    case 'donorSaid': {
      const { peer, message } = event;
      if (message.type === 'met') return heardOf(deciding, peer, message);
      // Of a donor that is in no plan: of a meeting at which it owns something.
      if (message.type === 'fault' && message.epoch === NO_EPOCH) {
        if (isOwner(apart.meetings.current, peer)) lostWay(deciding, peer, message);
        return;
      }
      if (isOfOldGroup(deciding, peer, message)) return;
      if (message.type === 'fault' && isOfGone(deciding, message)) return;
      if (message.type === 'fault' && isBetweenGroups(deciding, peer, message)) return lostWay(deciding, peer, message);
      tellGroup(deciding, groupOf(groups, peer), both(event));
      if (message.type === 'fault') lostWithin(deciding, peer, message);
      return;
    }
    case 'uploading':
      return tellGroup(deciding, groupOf(groups, event.peer), both(event));
    case 'copyCompared':
      return tellGroup(deciding, groupOf(groups, event.keeper), both(event));
    case 'sliceRelayed':
    case 'unsoundRelayed':
      return tellGroup(deciding, groupOf(groups, event.from), both(event));
    case 'sentBack':
      if (event.toStep >= committedIn(groups)) return;
      join(deciding, event.reason);
      return tellGroup(deciding, 0, both(event));
    case 'stateLost':
      join(deciding, event.reason);
      return tellGroup(deciding, 0, both(event));
    default:
      return tellAll(deciding, both(event));
  }
}

/** Where groups are made at meetings it is in no plan before. */
function comes(deciding: Deciding, event: Extract<ToldEvent, { type: 'donorJoined' }>): GroupEvent {
  const { replanner, coordinator } = both(event);
  const waits = areMadeAtMeetings(deciding.groups, deciding.apart.giving) && coordinator?.type === 'donorJoined';
  return { replanner, coordinator: waits ? { ...coordinator, isApart: true } : coordinator };
}

/** Whatever comes of an event between groups, until nothing more does. */
export function settle(deciding: Deciding) {
  while (
    divide(deciding) ||
    end(deciding) ||
    store(deciding) ||
    give(deciding) ||
    leaveOut(deciding) ||
    seek(deciding) ||
    meet(deciding)
  );
  deciding.groups = waitForGroups(deciding.groups, deciding.now);
}

/** A plan is wanted from a checkpoint, and nobody was asked for one: groups are. */
function divide(deciding: Deciding): boolean {
  const { groups, apart } = deciding;
  const whole = at(groups, 0);
  const { ask, donors } = whole.coordinator;
  const isOpen = isTogether(groups) && ask !== null && ask.answer === null;
  const count = isOpen ? groupCount(whole, apart.mostGroups) : null;
  if (count === null) return false;
  const { giving } = apart;
  const apartFrom = divided(whole, count, giving);
  const owners = ownersFrom(apartFrom, apart.run, whole.coordinator.committedSteps);
  deciding.groups = owners === null ? apartFrom : apartFrom.map(withOwners);
  deciding.apart = {
    ...apart,
    owners,
    order: donors.map(({ peer }) => peer),
    giving: giving && { ...giving, nextIsland: giving.nextIsland + count },
  };
  // Each asks for a plan of its own.
  tellAll(deciding, toCoordinator({ type: 'deadlineReached' }));
  return true;
}

const withOwners = ({ coordinator, replanner }: Group): Group => ({
  coordinator: { ...coordinator, config: { ...coordinator.config, owned: true } },
  replanner,
});

/** One of them cannot go on without the others, or all are at an end. */
function end(deciding: Deciding): boolean {
  const { groups, apart } = deciding;
  if (isTogether(groups)) return false;
  const ended = statesOf(deciding).flatMap(({ phase }, index) =>
    phase.name === 'waiting' && phase.lack.of === 'groups' ? { ...phase.lack, index } : [],
  );
  const alone = ended.find(({ index }) => mayEndAlone(deciding, index));
  if (alone !== undefined) {
    endIsland(deciding, alone.index, alone.reason, alone.why === 'noPlan' ? 'noPlan' : 'lost');
    return true;
  }
  const first = ended.find(({ why }) => why !== 'over') ?? (ended.length === groups.length ? ended[0] : undefined);
  // One alone waits for others.
  if (first === undefined || (first.why === 'noPlan' && groups.length === 1)) return false;
  if (first.why === 'noPlan') deciding.apart = { ...apart, mostGroups: groups.length - 1 };
  goOnTogether(deciding, first.reason);
  return true;
}

/** Every group has saved its part. */
function store(deciding: Deciding): boolean {
  const { groups, apart, effects } = deciding;
  const { saving } = apart;
  if (saving !== null && !canSave(deciding, saving)) {
    goOnTogether(deciding, UNSAVED);
    return true;
  }
  // Where rounds are recorded one of them saves what all share, and nothing else is kept.
  const wanted = apart.giving ? 1 : groups.length;
  if (saving === null || new Set(saving.parts.map(({ group }) => group)).size < wanted) return false;
  const newest = [...groups.keys()].flatMap((group) => saving.parts.findLast((part) => part.group === group) ?? []);
  const { step } = saving;
  const { generation, lossScale } = at(newest, 0);
  effects.push({
    type: 'storeCheckpoint',
    step,
    generation,
    lossScale,
    shards: newest.flatMap(({ shards }) => shards),
    ...undoable(statesOf(deciding)),
  });
  effects.push({ type: 'log', level: 'info', text: `Checkpoint ${step} is stored.` });
  deciding.apart = { ...apart, giving: apart.giving && keptFrom(apart.giving, step), saving: null };
  tellAll(deciding, toCoordinator({ type: 'allSaved', step, lossScale }));
  if (apart.turns) goOnTogether(deciding, turnText(apart));
  else if (statesOf(deciding).every(({ met }) => met === step)) beginIslands(deciding);
  return true;
}

/** A group stands ready, and there is a number for it. */
function give(deciding: Deciding): boolean {
  const { groups, apart, now } = deciding;
  if (apart.giving === null || isTogether(groups)) return false;
  if (apart.meetings.current !== null && apart.meetings.beside === null) return false;
  const found = nextGiven(apart.giving, statesOf(deciding), apart.run.train, now);
  if (found === null) return false;
  const [group, number, giving] = found;
  deciding.apart = { ...apart, giving };
  tellGroup(deciding, group, toCoordinator({ type: 'given', number }));
  return true;
}
