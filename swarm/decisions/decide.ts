/**
 * All that is decided about a run, as one pure function `decide(state, event, now) → [state, effects]`: the coordinator,
 * who runs the steps, and the replanner, who makes its plans, each told what the other one does. A server, a test with a clock
 * of its own, a fuzzer and a replay are shells around it. State, events and effects are plain data: written as JSON and read
 * again they decide the same.
 */

import type { PlanningConfig } from '../autoplan/knownDonors.ts';
import { stepSeconds } from '../autoplan/pace.ts';
import type { PeerProfile } from '../autoplan/peerProfile.ts';
import { beginReplanning, replan, replannerDeadline } from '../autoplan/replanner.ts';
import type { Found, ReplannerEffect, ReplannerEvent, ReplannerState } from '../autoplan/replannerState.ts';
import type { PeerId } from '../base.ts';
import type { CoordinatorConfig, CoordinatorEvent, DonorMessage, Effect, StartState } from '../coordinator/events.ts';
import { begin as beginCoordinator, type CoordinatorState, nextDeadline, planInForce } from '../coordinator/state.ts';
import { step } from '../coordinator/step.ts';
import { offerOf } from '../coordinator/successor.ts';
import type { Limits } from '../limits.ts';
import type { PeerMessage } from '../messages/messages.ts';
import type { AdapterProfile, Profile } from '../messages/profile.ts';
import type { Snapshot } from '../messages/snapshot.ts';

export interface DecisionConfig {
  readonly run: CoordinatorConfig;
  readonly planning: PlanningConfig;
}

export interface DecisionState {
  readonly coordinator: CoordinatorState;
  readonly replanner: ReplannerState;
}

/** What a donor says that something is decided by. */
export type DecisiveMessage = DonorMessage | Extract<PeerMessage, { type: 'limits' | 'probed' }>;

export type DecisionEvent =
  | Exclude<CoordinatorEvent, { type: 'donorJoined' | 'donorSaid' | 'planned' }>
  /** A donor was admitted: it has its `welcome`, and its GPU passed the check. */
  | {
      readonly type: 'donorJoined';
      readonly peer: PeerId;
      readonly adapter: AdapterProfile;
      readonly limits: Limits;
      /** What its admission measured; null: nothing is known of it. */
      readonly profile: Profile | null;
      /** By which its profile is kept for its next visit, and what the last one left. */
      readonly rememberedAs: string | null;
      readonly remembered: PeerProfile | null;
      /** An opaque name of its network: two donors that have the same one may be one person. */
      readonly address: string;
      /** This server opened it itself. */
      readonly isOwn: boolean;
    }
  | { readonly type: 'donorSaid'; readonly peer: PeerId; readonly message: DecisiveMessage }
  /** The answer to the effect `search`. */
  | { readonly type: 'searched'; readonly search: number; readonly found: Found }
  /** The run begins again from what the store knows, with nobody there yet; what is known of donors stays. */
  | { readonly type: 'restarted'; readonly start: StartState };

/** Performed by the shell in order, each done before the next: what was answered is then always stored. */
export type DecisionEffect = Exclude<Effect, { type: 'planWanted' }> | Exclude<ReplannerEffect, { type: 'planned' }>;

export const begin = ({ run, planning }: DecisionConfig, start: StartState): DecisionState => ({
  coordinator: beginCoordinator(run, start),
  replanner: beginReplanning(planning),
});

/** When the shell has to send `deadlineReached`, or null. */
export function nextDecision({ coordinator, replanner }: DecisionState): number | null {
  const deadlines = [nextDeadline(coordinator), replannerDeadline(replanner)].flatMap((deadline) => deadline ?? []);
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}

/** For the operator: the plan in force, and what is thought of it; null before the first one. */
export const planningOf = ({
  replanner: { appraisal, pace },
}: DecisionState): NonNullable<Snapshot['planning']> | null =>
  appraisal && { ...appraisal, measuredSeconds: stepSeconds(pace) };

export function decide(before: DecisionState, event: DecisionEvent, now: number): [DecisionState, DecisionEffect[]] {
  if (event.type === 'restarted') {
    const { config, asks, warmUps } = before.coordinator;
    // What was asked before may still be answered: that is no answer to what is asked from now on.
    const coordinator = { ...beginCoordinator(config, event.start), asks, warmUps };
    return [{ ...before, coordinator }, [{ type: 'publish' }]];
  }
  let state = before;
  const effects: DecisionEffect[] = [];
  // What one is told because of the other waits until all effects of the other stand: they are performed in this order.
  const waiting: (() => void)[] = [];
  const toReplanner = (told: ReplannerEvent): void => {
    const { coordinator } = state;
    const { epoch } = coordinator;
    const view = { offer: offerOf(coordinator), plan: planInForce(coordinator)?.plan ?? null, epoch };
    const [next, caused] = replan(state.replanner, told, now, view);
    state = { ...state, replanner: next };
    for (const effect of caused)
      if (effect.type === 'planned') waiting.push(() => toCoordinator(effect));
      else effects.push(effect);
  };
  const toCoordinator = (told: CoordinatorEvent): void => {
    const [next, caused] = step(state.coordinator, told, now);
    state = { ...state, coordinator: next };
    // Of a start that goes to a thousand donors one is enough.
    const start = caused.find(isStart);
    for (const effect of caused) {
      if (effect.type === 'planWanted') waiting.push(() => toReplanner(effect));
      else effects.push(effect);
      if (effect === start || isProgress(effect)) waiting.push(() => toReplanner({ type: 'doing', effect }));
    }
  };
  const settle = (): void => {
    for (let next = waiting.shift(); next; next = waiting.shift()) next();
  };
  // What is known of a donor is known before its word changes anything.
  const known = forReplanner(event);
  if (known !== null) toReplanner(known);
  settle();
  const told = forCoordinator(event);
  if (told !== null) toCoordinator(told);
  settle();
  toReplanner({ type: 'settled' });
  settle();
  return [state, publishedOnce(effects)];
}

function forReplanner(event: Exclude<DecisionEvent, { type: 'restarted' }>): ReplannerEvent | null {
  switch (event.type) {
    case 'donorJoined': {
      const { adapter, profile } = event;
      return profile && { ...event, profile, hasHalves: adapter.halves === true };
    }
    case 'donorSaid':
    case 'donorGone':
    case 'searched':
    case 'deadlineReached':
      return event;
    default:
      return null;
  }
}

export function forCoordinator(event: Exclude<DecisionEvent, { type: 'restarted' }>): CoordinatorEvent | null {
  switch (event.type) {
    case 'donorJoined': {
      const { type, peer, adapter, limits, address, isOwn } = event;
      return {
        type,
        peer,
        adapter,
        address,
        isOwn,
        ...(limits.memoryBytes === null ? {} : { memoryBytes: limits.memoryBytes }),
      };
    }
    case 'donorSaid': {
      const { type, peer, message } = event;
      return message.type === 'limits' || message.type === 'probed' ? null : { type, peer, message };
    }
    case 'searched':
      return null;
    default:
      return event;
  }
}

const isStart = (effect: Effect): boolean => effect.type === 'send' && effect.message.type === 'start';

/** What the replanner measures the plan in force by. */
const isProgress = ({ type }: Effect): boolean => type !== 'send' && type !== 'log' && type !== 'publish';

/** At most once, as the last effect. */
function publishedOnce(effects: readonly DecisionEffect[]): DecisionEffect[] {
  const others = effects.filter(({ type }) => type !== 'publish');
  return others.length === effects.length ? others : [...others, { type: 'publish' }];
}
