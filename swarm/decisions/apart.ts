/**
 * What happens between the groups of a run: each event goes to the group that it is about; a run is divided into groups
 * where a plan is wanted from a checkpoint; they meet, and save, together; and where one cannot go on, or all are at an
 * end, they are one group again.
 */
import { at, type PeerId } from '../base.ts';
import type { CoordinatorConfig, CoordinatorEvent, StartState, StoredShard } from '../coordinator/events.ts';
import { type CoordinatorState, membersOf, planInForce } from '../coordinator/state.ts';
import { unsavedLimit } from '../coordinator/stepsAhead.ts';
import { interruption } from '../coordinator/successor.ts';
import { DETAIL_LENGTH_LIMIT } from '../fields.ts';
import type { MetMessage, PeerMessage, ServerMessage } from '../messages/messages.ts';
import type { LossScale } from '../precision.ts';
import { awaitingGroup, waitForGroups } from './comingBack.ts';
import { type DecisionEffect, forCoordinator, forReplanner, type ToldEvent } from './events.ts';
import { decideGroup, type Group, type GroupEffect, type GroupEvent } from './group.ts';
import { committedIn, divided, groupCount, groupOf, isTogether, joined, smallest } from './groups.ts';
import {
  begun,
  endOf,
  failed,
  farewells,
  invitations,
  isTriedEnough,
  type Meetings,
  NO_MEETINGS,
  outcomeOf,
  over,
  relayedWith,
  standing,
  withWord,
} from './meeting.ts';
import {
  afterRound,
  beginGiving,
  type Giving,
  goneBack,
  keptAt,
  keptFrom,
  nextGiven,
  nextTurn,
  sentTo,
} from './recordedRounds.ts';

type FaultMessage = Extract<PeerMessage, { type: 'fault' }>;

export interface Apart {
  /** Of all groups together. */
  readonly run: CoordinatorConfig;
  /** Donors as they came; kept while there are several groups. */
  readonly order: readonly PeerId[];
  /** No plan could be made for more groups. */
  readonly mostGroups: number;
  readonly meetings: Meetings;
  /** Null: rounds follow from the run file. */
  readonly giving: Giving | null;
  /** A checkpoint on its way: the parts that are whole, by group. */
  readonly saving: { readonly step: number; readonly parts: readonly Part[] } | null;
}

interface Part {
  readonly group: number;
  readonly shards: readonly StoredShard[];
  readonly generation: number;
  readonly lossScale: LossScale | null;
}

/** One event being handled. */
export interface Deciding {
  groups: readonly Group[];
  apart: Apart;
  readonly effects: DecisionEffect[];
  readonly now: number;
}

const together = (run: CoordinatorConfig, start: StartState): Apart => ({
  run,
  order: [],
  mostGroups: Number.MAX_SAFE_INTEGER,
  meetings: NO_MEETINGS,
  giving: beginGiving(run.train, start),
  saving: null,
});

/** As the store has it. */
export function apartAsStored(run: CoordinatorConfig, start: StartState, groups: readonly Group[]): Apart {
  const { met, isSavedFirst } = at(groups, 0).coordinator;
  return { ...together(run, start), saving: isSavedFirst ? { step: met, parts: [] } : null };
}

export const apartDeadline = ({ meetings }: Apart): number | null => meetings.current?.deadline ?? null;

const statesOf = ({ groups }: Deciding): CoordinatorState[] => groups.map(({ coordinator }) => coordinator);

export function tell(deciding: Deciding, event: ToldEvent) {
  const { groups, apart } = deciding;
  if (event.type === 'sentBack' && apart.giving && event.recorded)
    deciding.apart = { ...apart, giving: sentTo(apart.giving, event.recorded, event.toStep) };
  if (isTogether(groups)) return tellGroup(deciding, 0, both(event));
  switch (event.type) {
    case 'donorJoined':
      deciding.apart = { ...apart, order: [...apart.order.filter((peer) => peer !== event.peer), event.peer] };
      return tellGroup(deciding, awaitingGroup(groups, event.peer) ?? smallest(groups), both(event));
    case 'donorSaid': {
      const { peer, message } = event;
      if (message.type === 'met') return heardOf(deciding, peer, message);
      if (message.type === 'fault' && isBetweenGroups(deciding, peer, message)) return lostWay(deciding, peer, message);
      return tellGroup(deciding, groupOf(groups, peer), both(event));
    }
    case 'uploading':
      return tellGroup(deciding, groupOf(groups, event.peer), both(event));
    case 'copyCompared':
      return tellGroup(deciding, groupOf(groups, event.replica), both(event));
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

const both = (event: ToldEvent): GroupEvent => ({ replanner: forReplanner(event), coordinator: forCoordinator(event) });
const toCoordinator = (coordinator: CoordinatorEvent): GroupEvent => ({ replanner: null, coordinator });

function tellGroup(deciding: Deciding, index: number, event: GroupEvent) {
  const { groups, apart, now } = deciding;
  const usedEpoch = Math.max(...statesOf(deciding).map(({ epoch }) => epoch));
  const isHeldBack = (group: Group): boolean => groupCount(group, apart.mostGroups) !== null;
  const [group, effects] = decideGroup(at(groups, index), event, now, usedEpoch, isHeldBack);
  deciding.groups = groups.map((other, i) => (i === index ? group : other));
  for (const effect of effects) keep(deciding, index, effect);
}

/** What is of the run, and not of a group, is done once. */
function tellAll(deciding: Deciding, event: GroupEvent) {
  const before = deciding.effects.length;
  for (const index of deciding.groups.keys()) tellGroup(deciding, index, event);
  const words = new Set<string>();
  const caused = deciding.effects.splice(before).filter((effect) => {
    if (effect.type !== 'log' && effect.type !== 'storePaused') return true;
    const text = JSON.stringify(effect);
    return !words.has(text) && words.add(text);
  });
  deciding.effects.push(...caused);
}

/** A group's checkpoint is a part of the run's. */
function keep(deciding: Deciding, group: number, effect: GroupEffect) {
  const { groups, apart, effects } = deciding;
  if (effect.type === 'storeCommit' && apart.giving)
    effects.push({ ...effect, record: { ...effect.record, step: committedIn(groups) - 1 } });
  else if (isTogether(groups) || effect.type !== 'storeCheckpoint') effects.push(effect);
  else if (effect.step === apart.saving?.step) {
    const { shards, generation, lossScale } = effect;
    const islands = at(groups, group).coordinator.config.own ?? [];
    const part = {
      group,
      generation,
      lossScale,
      shards: apart.giving ? shards : shards.map((shard) => ({ ...shard, islands })),
    };
    deciding.apart = { ...apart, saving: { ...apart.saving, parts: [...apart.saving.parts, part] } };
  }
}

/** Whatever comes of an event between groups, until nothing more does. */
export function settle(deciding: Deciding) {
  while (divide(deciding) || end(deciding) || store(deciding) || give(deciding) || meet(deciding));
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
  deciding.groups = divided(whole, count, giving);
  deciding.apart = {
    ...apart,
    order: donors.map(({ peer }) => peer),
    giving: giving && { ...giving, nextIsland: giving.nextIsland + count },
  };
  // Each asks for a plan of its own.
  tellAll(deciding, toCoordinator({ type: 'deadlineReached' }));
  return true;
}

/** One of them cannot go on without the others, or all are at an end. */
function end(deciding: Deciding): boolean {
  const { groups, apart } = deciding;
  if (isTogether(groups)) return false;
  const ended = statesOf(deciding).flatMap(({ phase }) =>
    phase.name === 'waiting' && phase.lack.of === 'groups' ? phase.lack : [],
  );
  const first = ended.find(({ why }) => why !== 'over') ?? (ended.length === groups.length ? ended[0] : undefined);
  // One alone waits for others.
  if (first === undefined || (first.why === 'noPlan' && groups.length === 1)) return false;
  if (first.why === 'noPlan') deciding.apart = { ...apart, mostGroups: groups.length - 1 };
  goOnTogether(deciding, first.reason);
  return true;
}

function goOnTogether(deciding: Deciding, reason: string) {
  join(deciding, reason);
  tellGroup(deciding, 0, toCoordinator({ type: 'groupsEnded', reason }));
}

function join(deciding: Deciding, reason: string) {
  const { groups, apart, effects } = deciding;
  const detail = reason.slice(0, DETAIL_LENGTH_LIMIT);
  for (const state of statesOf(deciding)) {
    const inForce = planInForce(state);
    const here = new Set(state.donors.map(({ peer }) => peer));
    for (const to of inForce === null ? [] : membersOf(inForce))
      if (here.has(to))
        effects.push({ type: 'send', to, message: { type: 'abandon', epoch: inForce?.epoch ?? 0, detail } });
  }
  deciding.groups = [joined(groups, apart.run, apart.order, reason)];
  const giving = apart.giving && goneBack(apart.giving, at(groups, 0).coordinator.newestCheckpointStep);
  deciding.apart = { ...apart, giving, saving: null, meetings: { ...apart.meetings, current: null, failures: 0 } };
}

/** Every group has saved its part. */
function store(deciding: Deciding): boolean {
  const { groups, apart, effects } = deciding;
  const { saving } = apart;
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
  });
  effects.push({ type: 'log', level: 'info', text: `Checkpoint ${step} is stored.` });
  deciding.apart = { ...apart, giving: apart.giving && keptFrom(apart.giving, step), saving: null };
  tellAll(deciding, toCoordinator({ type: 'allSaved', step, lossScale }));
  return true;
}

/** A group stands ready, and there is a number for it. */
function give(deciding: Deciding): boolean {
  const { groups, apart, now } = deciding;
  if (apart.giving === null || isTogether(groups) || apart.meetings.current !== null) return false;
  const found = nextGiven(apart.giving, statesOf(deciding), apart.run.train, now);
  if (found === null) return false;
  const [group, number, giving] = found;
  deciding.apart = { ...apart, giving };
  tellGroup(deciding, group, toCoordinator({ type: 'given', number }));
  return true;
}

/** The next thing that there is to do about a meeting. */
function meet(deciding: Deciding): boolean {
  const { apart, now } = deciding;
  const { current } = apart.meetings;
  const states = statesOf(deciding);
  const plans = isTogether(deciding.groups) ? null : standing(states);
  const isOld = current !== null && (plans === null || plans.some(({ epoch }, i) => epoch !== current.epochs[i]));
  if (isOld) change(deciding, { ...apart.meetings, current: null });
  if (isOld) return true;
  if (plans === null) return false;
  if (current === null) {
    const meetings = begun(states, plans, apart.meetings, now);
    change(deciding, meetings);
    if (meetings.current !== null) send(deciding, invitations(states, plans, meetings.current, meetings.relayed));
    return false;
  }
  const outcome = outcomeOf(current, plans);
  if (outcome.of === 'whole') {
    change(deciding, over(apart.meetings, current, now));
    hold(
      deciding,
      current.met.map(({ said }) => said),
      farewells(plans, current, apart.giving && endOf(states)),
    );
    return true;
  }
  if (outcome.of === 'open' && now < current.deadline) return false;
  const isLate = outcome.of === 'open';
  const blamed = isLate ? outcome.missing : outcome.few;
  fail(
    deciding,
    blamed,
    isLate ? `${blamed.join(', ')} did not meet in time` : 'keepers did not come to the same in a meeting',
  );
  return true;
}

function change(deciding: Deciding, meetings: Meetings) {
  deciding.apart = { ...deciding.apart, meetings };
}

function send({ effects }: Deciding, all: readonly { readonly to: PeerId; readonly message: ServerMessage }[]): void {
  for (const { to, message } of all) effects.push({ type: 'send', to, message });
}

/** It stands: whatever each group did before counts from now on, and so does what is saved of it. */
function hold(deciding: Deciding, words: readonly MetMessage[], told: ReturnType<typeof farewells>) {
  const { apart, effects } = deciding;
  const states = statesOf(deciding);
  const { newestCheckpointStep, config } = at(states, 0);
  const committedSteps = endOf(states);
  const sum = (of: (word: MetMessage) => number): number => words.reduce((all, word) => all + of(word), 0);
  effects.push({
    ...{ type: 'storeMeeting', committedSteps },
    ...{ bytesDirect: sum(({ bytesDirect }) => bytesDirect), bytesRelayed: sum(({ bytesRelayed }) => bytesRelayed) },
  });
  send(deciding, told);
  const { checkpointEverySteps: every } = config;
  const unsaved = committedSteps - newestCheckpointStep;
  const isEnd = committedSteps >= config.steps || states.some((state) => mustStand(state));
  const isDue = apart.giving ? unsaved >= every : committedSteps % every === 0 || unsaved > every;
  const saved = isEnd || unsaved >= unsavedLimit(config) ? 'first' : isDue && apart.saving === null ? 'beside' : 'no';
  const giving = apart.giving && afterRound(apart.giving, states);
  const saving = saved === 'no' ? apart.saving : { step: committedSteps, parts: [] };
  deciding.apart = { ...apart, saving, giving: giving && (saved === 'no' ? giving : keptAt(giving, committedSteps)) };
  if (giving === null) return tellAll(deciding, toCoordinator({ type: 'met', committedSteps, saved }));
  for (const [group, state] of states.entries()) {
    const here = group === 0 || saved === 'no' ? saved : saved === 'first' ? 'elsewhere' : 'no';
    const turn = nextTurn(giving, state);
    tellGroup(deciding, group, toCoordinator({ type: 'met', committedSteps, saved: here, turn }));
  }
}

/** What it has is saved before somebody goes. */
function mustStand(state: CoordinatorState): boolean {
  const stop = interruption(state);
  return stop !== null && stop.successor === null;
}

function heardOf(deciding: Deciding, peer: PeerId, message: MetMessage) {
  const { apart } = deciding;
  const { current } = apart.meetings;
  const plans = standing(statesOf(deciding));
  if (current === null || plans === null) return;
  change(deciding, { ...apart.meetings, current: withWord(current, plans, peer, message) });
}

/** What is said of a donor of another group is of a meeting. */
function isBetweenGroups({ groups }: Deciding, peer: PeerId, { about }: FaultMessage): boolean {
  const isHere = groups.some(({ coordinator }) => coordinator.donors.some((donor) => donor.peer === about));
  return about !== undefined && isHere && groupOf(groups, about) !== groupOf(groups, peer);
}

/** It is nobody's fault at first: the meeting is begun again, through the server where their link was lost. */
function lostWay(deciding: Deciding, peer: PeerId, { about, reason }: FaultMessage): void {
  const { meetings } = deciding.apart;
  if (meetings.current === null) return;
  const again = reason === 'linkLost' && about !== undefined ? relayedWith(meetings, [peer, about]) : null;
  if (again !== null) {
    change(deciding, again);
    if (again.current !== null) return;
    const text = `${peer} and ${about} lost their link: what they say to each other at meetings goes through the server.`;
    deciding.effects.push({ type: 'log', level: 'warn', text });
    return;
  }
  fail(deciding, [peer], `${peer} and ${about} could not meet: ${reason}`);
}

/** Again; after some times without those who are to blame, or from the checkpoint where nobody is. */
function fail(deciding: Deciding, blamed: readonly PeerId[], reason: string) {
  deciding.effects.push({ type: 'log', level: 'warn', text: `${reason}.` });
  change(deciding, failed(deciding.apart.meetings));
  if (!isTriedEnough(deciding.apart.meetings)) return;
  change(deciding, { ...deciding.apart.meetings, failures: 0 });
  const places = new Set(blamed.map((peer) => groupOf(deciding.groups, peer)));
  if (blamed.length === 0) return goOnTogether(deciding, reason);
  for (const index of places) {
    const peers = blamed.filter((peer) => groupOf(deciding.groups, peer) === index);
    tellGroup(deciding, index, toCoordinator({ type: 'failedMeeting', peers, reason }));
  }
}
