/**
 * How the meetings of several groups go: when one begins, what comes of the keepers' words, what is done where it fails, and
 * what each group does from then on. Rules IS in SPEC.md.
 */
import { at, type PeerId, totalOf } from '../base.ts';
import type { Pair } from '../coordinator/events.ts';
import { staleOf } from '../coordinator/replicas.ts';
import { type PlanInForce, planInForce } from '../coordinator/state.ts';
import { evaluationDue, unsavedLimit } from '../coordinator/stepsAhead.ts';
import { interruption } from '../coordinator/successor.ts';
import type { MetMessage } from '../messages/messages.ts';
import { change, type Deciding, goOnTogether, send, statesOf, tellAll, tellGroup, toCoordinator } from './deciding.ts';
import type { FaultMessage } from './events.ts';
import { groupOf, isTogether } from './groups.ts';
import { heardDifferently, tooMuchHeard } from './heard.ts';
import {
  begun,
  enders,
  failed,
  farewells,
  farewellsOfOwners,
  invitations,
  isTriedEnough,
  isWayAwaited,
  isWithoutOwner,
  isWithoutSome,
  type Meeting,
  over,
  relayedWith,
  roundEnded,
  standing,
  withWord,
} from './meeting.ts';
import { culpritsIn, isLateWord, silentIn, withAccusation } from './meetingBlame.ts';
import { type Outcome, outcomeOf } from './meetingOutcome.ts';
import { endingAt, isDueAnew, lookAgain, makeAnew, mustStand, savedForStarts } from './newGroups.ts';
import { canSave, isTurnDue, meetingOwners, ownersAfter, UNSAVED } from './owners.ts';
import { afterRound, islandOf, keptAt, nextTurn } from './recordedRounds.ts';
import { soonestFirst } from './savers.ts';

/** The next thing that there is to do about a meeting. */
export function meet(deciding: Deciding): boolean {
  const { apart } = deciding;
  const { current, beside } = apart.meetings;
  if (isTogether(deciding.groups) && current === null) return false;
  const states = statesOf(deciding);
  const plans = isTogether(deciding.groups) ? null : beside ? enders(states, beside) : standing(states);
  const about = beside ?? current;
  const isOld = about !== null && (plans === null || plans.some(({ epoch }, i) => epoch !== about.epochs[i]));
  if (isOld && beside) {
    // What its islands did of the next round began at values that nobody has any more.
    goOnTogether(deciding, 'nobody is left who has what a group met with');
    return true;
  }
  // Who pauses owns nothing any more.
  const isHere = (peer: PeerId): boolean =>
    states.some(({ donors }) => donors.some((donor) => donor.peer === peer && donor.wish === 'compute'));
  const isShort =
    current !== null && plans !== null && (isWithoutSome(current, plans) || isWithoutOwner(current, plans, isHere));
  if (isOld || isShort) {
    const text = `The meeting after round ${about?.round} is begun again without who left it.`;
    if (isShort) deciding.effects.push({ type: 'log', level: 'warn', text });
    change(deciding, { ...apart.meetings, current: null });
    return true;
  }
  if (plans === null) return false;
  return current === null ? begin(deciding, plans) : goOn(deciding, plans, current);
}

function begin(deciding: Deciding, plans: readonly PlanInForce[]): boolean {
  const { apart, now } = deciding;
  const { meetings, giving, run } = apart;
  const states = statesOf(deciding);
  const about = meetings.beside ?? roundEnded(states, plans);
  const isBeside = meetings.beside === null && run.train.islands?.overlap === true && isFree(deciding, about.end);
  const isFirst = meetings.beside === null;
  const mayChoose = isFirst && giving !== null && apart.saving === null && savedAt(deciding, about.end) !== 'no';
  if (mayChoose && soonestFirst(deciding, plans, endingAt(deciding, about.end))) return true;
  const isNeeded = (pair: Pair): boolean => isOfTwo(deciding, pair) && pair.every((peer) => isIn(deciding, peer));
  const relayed = isFirst ? meetings.relayed.filter(isNeeded) : meetings.relayed;
  const before = { ...meetings, relayed, beside: isBeside ? about : meetings.beside };
  deciding.apart = { ...apart, meetings: before, turns: isTurnDue(deciding) };
  const owners = meetingOwners(deciding, plans, saversOf(deciding, about.end));
  if (owners === 'lost') {
    goOnTogether(deciding, 'nobody is left who has all that islands share');
    return true;
  }
  const after = begun(about, plans, owners, before, now);
  change(deciding, after);
  if (after.current !== null) send(deciding, invitations(plans, after.current, after, giving !== null));
  if (isBeside) beginRound(deciding, about.end, null);
  return isBeside;
}

const isOfTwo = ({ groups }: Deciding, [one, other]: Pair): boolean => groupOf(groups, one) !== groupOf(groups, other);

/** Nothing waits for what comes of this meeting: the next round may begin before. */
function isFree(deciding: Deciding, end: number): boolean {
  return (
    savedAt(deciding, end) === 'no' &&
    !isDueAnew(deciding, end) &&
    statesOf(deciding).every((state) => {
      const inForce = planInForce(state);
      const isDue = evaluationDue({ ...state, committedSteps: end, met: end });
      const isWhole = inForce !== null && inForce.filling === null && staleOf(inForce.lacking).length === 0;
      return isWhole && !isDue && interruption(state) === null;
    })
  );
}

function goOn(deciding: Deciding, plans: readonly PlanInForce[], current: Meeting): boolean {
  const { apart, now } = deciding;
  const { beside } = apart.meetings;
  const outcome = outcomeOf(current, plans);
  if (outcome.of === 'whole') {
    const savedBy = current.owners?.savedBy ?? [];
    if (saversOf(deciding, current.end).some((saver) => !savedBy.includes(saver))) {
      // Since it began it has come to be saved, or by another one, who has not been sent all of it.
      change(deciding, { ...apart.meetings, current: null });
      return true;
    }
    const savers = islandsAt(plans, current.owners?.savedBy);
    change(deciding, over({ ...apart.meetings, beside: null }, current, now));
    if (current.owners)
      deciding.apart = { ...deciding.apart, owners: ownersAfter(current.owners, deciding.groups, plans) };
    keep(deciding, current);
    if (beside) {
      tellAll(deciding, toCoordinator({ type: 'cameOf', round: current.round }));
      send(deciding, farewellsOfOwners(plans, current, apart.giving !== null));
    } else {
      send(deciding, farewells(plans, current, apart.giving !== null));
      beginRound(deciding, current.end, savers);
    }
    return true;
  }
  if (outcome.of === 'open' && now < current.deadline) return false;
  if (outcome.of === 'open') late(deciding, current, outcome.missing);
  else unequal(deciding, plans, current, outcome);
  return true;
}

/** Nobody is judged by it before all have said what they heard of each other: who was told something else comes to something else. */
function unequal(
  deciding: Deciding,
  plans: readonly PlanInForce[],
  meeting: Meeting,
  { few, against, atOdds }: Extract<Outcome, { of: 'unequal' }>,
): void {
  const { isTraced } = meeting;
  const heard = isTraced ? heardDifferently(meeting.met, plans) : [];
  const misled = new Set(heard.map(([by]) => by));
  const alike = isTraced && heard.length === 0 ? atOdds : [];
  // Who had too much to say may have heard something else.
  const unheard = alike.length > 0 ? tooMuchHeard(meeting, plans) : [];
  const pairs = [...heard, ...against, ...alike.filter((pair) => !pair.some((peer) => unheard.includes(peer)))];
  for (const [by, about] of pairs) accuse(deciding, by, about, { reason: 'badFrame' });
  change(deciding, { ...deciding.apart.meetings, isTraced: true });
  const own = few.filter((peer) => !misled.has(peer));
  fail(
    deciding,
    isTraced ? own : null,
    'keepers did not come to the same in a meeting',
    (peers) => `${peers.join(', ')} differed from others at a meeting`,
  );
}

/** It stands: whatever each group did before counts from now on. */
function keep({ effects }: Deciding, { end: committedSteps, met }: Meeting) {
  const sum = (of: (word: MetMessage) => number): number => totalOf(met, ({ said }) => of(said));
  effects.push({
    ...{ type: 'storeMeeting', committedSteps },
    ...{ bytesDirect: sum(({ bytesDirect }) => bytesDirect), bytesRelayed: sum(({ bytesRelayed }) => bytesRelayed) },
  });
}

/** Whether what comes of a meeting is saved: before anything else, beside the next steps, or not. */
function savedAt(deciding: Deciding, committedSteps: number): 'first' | 'beside' | 'no' {
  const { apart } = deciding;
  const states = statesOf(deciding);
  const { newestCheckpointStep, config } = at(states, 0);
  const { checkpointEverySteps: every } = config;
  const unsaved = committedSteps - newestCheckpointStep;
  const isEnd = committedSteps >= config.steps || states.some((state) => mustStand(state));
  const isDue = apart.giving ? unsaved >= every : committedSteps % every === 0 || unsaved > every;
  const forStarts = savedForStarts(apart.anew, committedSteps);
  // Where rounds are recorded all go back only when nobody has what islands share: a slow upload is not waited for.
  const isTooMuch = !apart.giving && unsaved >= unsavedLimit(config);
  if (isEnd || isTooMuch || forStarts === 'first' || deciding.apart.turns) return 'first';
  return (isDue || forStarts === 'beside') && apart.saving === null ? 'beside' : 'no';
}

/** Who is sent all that is to be saved of a meeting: none of it is saved, or every keeper has it. Places of groups. */
function saversOf(deciding: Deciding, end: number): number[] {
  const { owners, meetings } = deciding.apart;
  if (owners === null || meetings.beside !== null) return [];
  const saved = savedAt(deciding, end);
  if (saved === 'no' && !isDueAnew(deciding, end)) return [];
  const ending = endingAt(deciding, end);
  const states = statesOf(deciding);
  const staying = [...states.keys()].filter((group) => !ending.includes(islandOf(at(states, group))));
  // Where all wait and the first one is lost the other one does it. Of groups that all end the last one does not.
  return staying.length > 0 ? staying.slice(0, saved === 'first' ? 2 : 1) : [states.length - 1];
}

const islandsAt = (plans: readonly PlanInForce[], places: readonly number[] = []): number[] =>
  places.flatMap((place) => at(plans, place).plan.islands ?? []);

/** The next one. `savers`: islands that were sent what is saved; null: what comes of the meeting is not here yet. */
function beginRound(deciding: Deciding, committedSteps: number, savers: readonly number[] | null) {
  const isBeside = savers === null;
  const { giving: before } = deciding.apart;
  const giving = before && afterRound(before, statesOf(deciding));
  deciding.apart = { ...deciding.apart, giving };
  if (!isBeside) makeAnew(deciding, committedSteps);
  lookAgain(deciding);
  const { apart } = deciding;
  const states = statesOf(deciding);
  const by = apart.owners === null ? {} : { by: savers ?? [] };
  const mayBeSaved = canSave(deciding, by);
  const due = isBeside ? 'no' : savedAt(deciding, committedSteps);
  if (due === 'first' && !mayBeSaved) return goOnTogether(deciding, UNSAVED);
  const saved = due === 'beside' && !mayBeSaved ? 'no' : due;
  const saving = saved === 'no' ? apart.saving : { step: committedSteps, parts: [], ...by };
  deciding.apart = { ...apart, saving, giving: giving && (saved === 'no' ? giving : keptAt(giving, committedSteps)) };
  const met = { type: 'met', committedSteps, isBeside } as const;
  if (giving === null) return tellAll(deciding, toCoordinator({ ...met, saved }));
  for (const [group, state] of states.entries()) {
    const here = group === 0 || saved === 'no' ? saved : saved === 'first' ? 'elsewhere' : 'no';
    const turn = nextTurn(giving, state);
    tellGroup(deciding, group, toCoordinator({ ...met, saved: here, turn }));
  }
}

export function heardOf(deciding: Deciding, peer: PeerId, message: MetMessage) {
  const { apart } = deciding;
  const { current, beside } = apart.meetings;
  const states = statesOf(deciding);
  const plans = beside ? enders(states, beside) : standing(states);
  if (current === null || plans === null) return;
  change(deciding, { ...apart.meetings, current: withWord(current, plans, peer, message) });
}

const isIn = ({ groups }: Deciding, peer: PeerId): boolean =>
  groups.some(({ coordinator }) => coordinator.donors.some((donor) => donor.peer === peer));

/** What is said of a donor of another group is of a meeting. */
export function isBetweenGroups(deciding: Deciding, peer: PeerId, { about }: FaultMessage): boolean {
  return about !== undefined && isIn(deciding, about) && isOfTwo(deciding, [about, peer]);
}

/** Of an attempt, about who has gone since: it is begun again without that one anyhow, and the plan in force goes on. */
export const isOfGone = (deciding: Deciding, { about, attempt }: FaultMessage): boolean =>
  about !== undefined && attempt !== undefined && !isIn(deciding, about);

/** Of two in one group: no other epoch begins its meeting again where that is beside the steps. */
export function lostWithin(deciding: Deciding, peer: PeerId, message: FaultMessage): void {
  const { epoch, reason, about } = message;
  const { run, meetings } = deciding.apart;
  const { current, beside } = meetings;
  if (reason !== 'linkLost' || about === undefined || current === null || beside === null) return;
  const plans = enders(statesOf(deciding), beside);
  if (plans === null || epoch !== beside.epochs[groupOf(deciding.groups, peer)]) return;
  if (isWayAwaited(current, plans, run, [peer, about])) lostWay(deciding, peer, message);
}

/** It is nobody's fault at first: the meeting is begun again, through the server where their link was lost. */
export function lostWay(deciding: Deciding, peer: PeerId, { about, reason, attempt }: FaultMessage): void {
  const { meetings } = deciding.apart;
  if (meetings.current === null) return;
  const again = reason === 'linkLost' && about !== undefined ? relayedWith(meetings, [peer, about]) : null;
  if (again !== null && about !== undefined) {
    change(deciding, again);
    if (again.current !== null) return;
    const which = isOfTwo(deciding, [peer, about]) ? 'at meetings' : 'at this meeting';
    const text = `${peer} and ${about} lost their link: what they say to each other ${which} goes through the server.`;
    deciding.effects.push({ type: 'log', level: 'warn', text });
    return;
  }
  const isOfFrame = reason === 'badFrame' && about !== undefined;
  if (isOfFrame) accuse(deciding, peer, about, { reason });
  // Of one link both ends tell, of one bad packet all who got it: what is of an attempt before has counted against that.
  if (attempt !== undefined && attempt !== meetings.current.attempt) return;
  fail(deciding, isOfFrame ? [] : [peer], `${peer} and ${about} could not meet: ${reason}`);
}

/** Said by one that had not met when an attempt's time was over, of who had not sent it all. */
export function saidOfLate(deciding: Deciding, peer: PeerId, { about, reason, attempt }: FaultMessage): void {
  const { late } = deciding.apart.meetings;
  if (!isLateWord({ reason }) || late === null || late.attempt !== attempt || !late.missing.includes(peer)) return;
  if (about !== undefined) accuse(deciding, peer, about, { reason });
}

function accuse(deciding: Deciding, by: PeerId, about: PeerId, { reason }: Pick<FaultMessage, 'reason'>): void {
  const { meetings } = deciding.apart;
  if (meetings.current === null || by === about) return;
  const { round } = meetings.current;
  change(deciding, { ...meetings, accused: withAccusation(meetings.accused, { by, about, round, reason }) });
}

/** Once nobody is asked why; the second time what they said of the first one counts. */
function late(deciding: Deciding, { attempt, round }: Meeting, missing: readonly PeerId[]): void {
  const { meetings } = deciding.apart;
  const silent = meetings.late && silentIn(missing, meetings.late, meetings.accused, round);
  change(deciding, { ...meetings, late: { attempt, missing } });
  fail(
    deciding,
    silent,
    `${missing.join(', ')} did not meet in time`,
    (peers) => `${peers.join(', ')} held the meeting up`,
    true,
  );
}

/** Again; after some times without those who are to blame, or from the checkpoint where nobody is. `own`: what failed is theirs alone; null: that is not known yet. */
function fail(
  deciding: Deciding,
  own: readonly PeerId[] | null,
  reason: string,
  why = (_blamed: readonly PeerId[]): string => reason,
  areLate = false,
) {
  deciding.effects.push({ type: 'log', level: 'warn', text: `${reason}.` });
  const round = deciding.apart.meetings.current?.round ?? 0;
  change(deciding, failed(deciding.apart.meetings));
  if (own === null || !isTriedEnough(deciding.apart.meetings)) return;
  change(deciding, { ...deciding.apart.meetings, failures: 0, late: null });
  const here = donorsInOrder(deciding);
  const blamed = culpritsIn(deciding.apart.meetings.accused, round, here, own);
  const places = new Set(blamed.map((peer) => groupOf(deciding.groups, peer)));
  if (blamed.length === 0) return goOnTogether(deciding, reason);
  for (const index of places) {
    const peers = blamed.filter((peer) => groupOf(deciding.groups, peer) === index);
    tellGroup(deciding, index, toCoordinator({ type: 'failedMeeting', peers, areLate, reason: why(peers) }));
  }
}

function donorsInOrder({ groups, apart }: Deciding): PeerId[] {
  const here = new Set(groups.flatMap(({ coordinator }) => coordinator.donors.map(({ peer }) => peer)));
  return apart.order.filter((peer) => here.has(peer));
}
