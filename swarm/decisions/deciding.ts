/**
 * One event being handled where a run may have several groups: who is told what, and how all of them become one group again.
 */
import { at, type PeerId } from '../base.ts';
import type { CoordinatorConfig, CoordinatorEvent, StoredShard } from '../coordinator/events.ts';
import { type CoordinatorState, membersOf, planInForce } from '../coordinator/state.ts';
import { DETAIL_LENGTH_LIMIT } from '../fields.ts';
import type { ServerMessage } from '../messages/messages.ts';
import type { LossScale } from '../precision.ts';
import { type Anew, NOTHING_ANEW } from './anew.ts';
import { type DecisionEffect, forCoordinator, forReplanner, type ToldEvent } from './events.ts';
import { decideGroup, type Group, type GroupEffect, type GroupEvent } from './group.ts';
import { committedIn, groupCount, isTogether, joined } from './groups.ts';
import type { Meetings } from './meeting.ts';
import type { Owners } from './owned.ts';
import { type Giving, goneBack } from './recordedRounds.ts';

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
  readonly anew: Anew;
  /** A checkpoint on its way: the parts that are whole, by group. */
  readonly saving: Saving | null;
  /** Of what all islands share; null: every keeper has all of what it keeps. */
  readonly owners: Owners | null;
  /** Owners are to be there, or no more: all begin anew at what is saved next. */
  readonly turns: boolean;
}

export interface Saving {
  readonly step: number;
  readonly parts: readonly Part[];
  /** Islands whose keepers have all that is saved; absent: each. */
  readonly by?: readonly number[];
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

export const statesOf = ({ groups }: Deciding): CoordinatorState[] => groups.map(({ coordinator }) => coordinator);

export const both = (event: ToldEvent): GroupEvent => ({
  replanner: forReplanner(event),
  coordinator: forCoordinator(event),
});
export const toCoordinator = (coordinator: CoordinatorEvent): GroupEvent => ({ replanner: null, coordinator });

export function tellGroup(deciding: Deciding, index: number, event: GroupEvent) {
  const { groups, apart, now } = deciding;
  const all = { count: groups.length, usedEpoch: Math.max(...statesOf(deciding).map(({ epoch }) => epoch)) };
  const isHeldBack = (group: Group): boolean => groupCount(group, apart.mostGroups) !== null;
  const [group, effects] = decideGroup(at(groups, index), event, now, all, isHeldBack);
  deciding.groups = groups.map((other, i) => (i === index ? group : other));
  for (const effect of effects) keep(deciding, index, effect);
}

/** What is of the run, and not of a group, is done once. */
export function tellAll(deciding: Deciding, event: GroupEvent) {
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

export function goOnTogether(deciding: Deciding, reason: string) {
  join(deciding, reason);
  tellGroup(deciding, 0, toCoordinator({ type: 'groupsEnded', reason }));
}

export function join(deciding: Deciding, reason: string) {
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
  deciding.apart = {
    ...apart,
    giving,
    anew: { ...NOTHING_ANEW, searches: apart.anew.searches },
    ...{ saving: null, owners: null, turns: false },
    meetings: { ...apart.meetings, current: null, beside: null, failures: 0 },
  };
}

export function change(deciding: Deciding, meetings: Meetings) {
  deciding.apart = { ...deciding.apart, meetings };
}

export function send(
  { effects }: Deciding,
  all: readonly { readonly to: PeerId; readonly message: ServerMessage }[],
): void {
  for (const { to, message } of all) effects.push({ type: 'send', to, message });
}
