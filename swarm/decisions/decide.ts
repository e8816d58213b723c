/**
 * All that is decided about a run, as one pure function `decide(state, event, now) → [state, effects]`. It is told to the
 * group of donors that it is about (group.ts); where a run with islands has several (groups.ts) they are made, meet
 * (meeting.ts) and are given up here. A server, a test with a clock of its own, a fuzzer and a replay are shells around it.
 * State, events and effects are plain data: written as JSON and read again they decide the same.
 */

import { stepSeconds } from '../autoplan/pace.ts';
import { beginReplanning, replannerDeadline } from '../autoplan/replanner.ts';
import { at, invariant, type PeerId, total } from '../base.ts';
import type { StartState } from '../coordinator/events.ts';
import { isMeeting, snapshot } from '../coordinator/snapshot.ts';
import { nextDeadline } from '../coordinator/state.ts';
import type { Snapshot } from '../messages/snapshot.ts';
import { apartAsStored, apartDeadline, settle, tell } from './apart.ts';
import { groupsAsStored } from './comingBack.ts';
import type { Apart, Deciding } from './deciding.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from './events.ts';
import type { Group } from './group.ts';
import { joined } from './groups.ts';

export interface DecisionState {
  /** One, but where a run with islands has several. */
  readonly groups: readonly Group[];
  readonly apart: Apart;
}

export function begin({ run, planning }: DecisionConfig, start: StartState): DecisionState {
  const groups = groupsAsStored(run, start, beginReplanning(planning));
  return { groups, apart: apartAsStored(run, start, groups) };
}

/** The run as if one group had all its donors: what there is to ask of all of it. */
export function wholeRun({ groups, apart }: DecisionState): Group {
  if (groups.length === 1) return at(groups, 0);
  const whole = joined(groups, apart.run, apart.order, '');
  const phases = groups.map(({ coordinator }) => coordinator.phase);
  const phase = phases.find(({ name }) => name === 'training') ?? at(phases, 0);
  const { committedSteps: step } = whole.coordinator;
  return {
    ...whole,
    coordinator: { ...whole.coordinator, phase: phase.name === 'training' ? { ...phase, step } : phase },
  };
}

/** What the pages show of it. */
export function snapshotOf(state: DecisionState, now: number): Snapshot {
  const all = state.groups.map(({ coordinator }) => snapshot(coordinator, now));
  const [first, ...others] = all;
  invariant(first, 'a run has a group');
  if (others.length === 0) return first;
  const { epoch, committedSteps, loss } = wholeRun(state).coordinator;
  const place = (peer: PeerId): number => state.apart.order.indexOf(peer);
  const speeds = all.flatMap(({ tokensPerSecond }) => tokensPerSecond ?? []);
  const uncopied = [...new Set(all.flatMap((one) => one.uncopied ?? []))];
  return {
    ...first,
    ...{ epoch, committedSteps, loss },
    phase: all.find(({ phase }) => phase === 'training')?.phase ?? first.phase,
    sentence: `${all.length} groups of donors have islands of their own. ${whereTheyAre(state.groups, all)}`,
    tokensPerSecond: speeds.length === 0 ? null : total(speeds),
    donors: all.flatMap(({ donors }) => donors).toSorted((a, b) => place(a.peer) - place(b.peer)),
    groups: all.flatMap((one) => one.groups ?? []),
    ...(uncopied.length > 0 ? { uncopied } : {}),
  };
}

/** Of the group that the others wait for. */
function whereTheyAre(groups: DecisionState['groups'], all: readonly Snapshot[]): string {
  const behind = all.filter((_, i) => !isMeeting(at(groups, i).coordinator));
  const [first, ...others] = behind;
  if (!first) return at(all, 0).sentence;
  const last = others.reduce((one, other) => (other.committedSteps < one.committedSteps ? other : one), first);
  return `Farthest behind: ${last.sentence}`;
}

/** When the shell has to send `deadlineReached`, or null. */
export function nextDecision({ groups, apart }: DecisionState): number | null {
  const deadlines = groups.flatMap(({ coordinator, replanner }) => [
    nextDeadline(coordinator) ?? [],
    replannerDeadline(replanner) ?? [],
  ]);
  const all = [...deadlines, apartDeadline(apart) ?? []].flat();
  return all.length === 0 ? null : Math.min(...all);
}

/** For the operator: the plan in force, and what is thought of it; null before the first one. */
export function planningOf({ groups }: DecisionState): NonNullable<Snapshot['planning']> | null {
  const { appraisal, pace } = at(groups, 0).replanner;
  return appraisal && { ...appraisal, measuredSeconds: stepSeconds(pace) };
}

export function decide(before: DecisionState, event: DecisionEvent, now: number): [DecisionState, DecisionEffect[]] {
  if (event.type === 'restarted') {
    const { coordinator, replanner } = wholeRun(before);
    const { asks, warmUps } = coordinator;
    const { run, meetings } = before.apart;
    const groups = groupsAsStored(run, event.start, replanner);
    // What was asked before may still be answered: that is no answer to what is asked from now on.
    const again = groups.map((group) => ({ ...group, coordinator: { ...group.coordinator, asks, warmUps } }));
    const apart = apartAsStored(run, event.start, groups);
    const anew = { ...apart.anew, searches: before.apart.anew.searches };
    return [{ groups: again, apart: { ...apart, meetings, anew } }, [{ type: 'publish' }]];
  }
  const deciding: Deciding = { ...before, effects: [], now };
  tell(deciding, event);
  settle(deciding);
  const { groups, apart, effects } = deciding;
  return [{ groups, apart }, publishedOnce(effects)];
}

/** At most once, as the last effect. */
function publishedOnce(effects: readonly DecisionEffect[]): DecisionEffect[] {
  const others = effects.filter(({ type }) => type !== 'publish');
  return others.length === effects.length ? others : [...others, { type: 'publish' }];
}
