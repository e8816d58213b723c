/**
 * The server was killed, and is back from its store. Steps are committed that are in no checkpoint yet, but the donors who
 * did them may still be there with their state. They are waited for, each says what stands with it, and where every part of
 * the state is back the run goes on as if nothing had been. Else it goes back to the newest checkpoint. Where that has all of
 * it, they are waited for shortly all the same: else their places were whose page tries first. Rules RE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { ResumedMessage, Standing } from '../messages/messages.ts';
import { hasOwnEnds } from '../plan/ends.ts';
import { lateCopies } from '../plan/lateCopies.ts';
import { keepersOf, type Plan, peers } from '../plan/plan.ts';
import { DEADLINES, PLACES_KEPT } from './deadlines.ts';
import type { KeptPlan } from './events.ts';
import { lateKey } from './filling.ts';
import { newlyInForce, prepare } from './newEpoch.ts';
import { planAnew, stopNow, waitForPlan } from './planInForce.ts';
import { withStale } from './replicas.ts';
import {
  type CoordinatorState,
  expectedDonors,
  keeperKey,
  type PlanInForce,
  type Returning,
  shardKey,
} from './state.ts';
import { living, ownEndsIn } from './successor.ts';
import { change, donorOf, log, type Transition } from './transition.ts';

/** Whether this peer may have state that is waited for: it is let in under the name that it had. */
export const mayReturn = ({ phase }: CoordinatorState, peer: PeerId): boolean =>
  phase.name === 'returning' && phase.plans.some(({ plan }) => peers(plan).includes(peer));

/** One came who was here before the server began. */
export function wasAwayShortly(transition: Transition) {
  const { state, now } = transition;
  const { phase } = state;
  if (phase.name !== 'returning' || phase.wasShort) return;
  const told: Returning = { ...phase, wasShort: true };
  const isTimed = told.since !== null && isSaved(state);
  change(transition, { phase: isTimed ? { ...told, ...waitedFor(told, now, true) } : told });
}

/** False: it cannot have been asked. What comes too late is passed over. */
export function resumed(transition: Transition, peer: PeerId, said: ResumedMessage): boolean {
  const { phase, generation } = transition.state;
  if (phase.name !== 'returning') return said.generation <= generation;
  if (!mayReturn(transition.state, peer)) return false;
  const others = phase.back.filter((one) => one.peer !== peer);
  // Who says it again may have another word, but is no further one who is back.
  const isFirst = others.length === phase.back.length;
  const clock = isFirst ? waitedFor(phase, transition.now, isSaved(transition.state)) : {};
  change(transition, { phase: { ...phase, back: [...others, { peer, said }], ...clock } });
  const what = said.role === null ? 'no whole state' : `the state after ${said.role.step} steps`;
  log(transition, 'info', `${peer} is back with ${what}.`);
  return true;
}

/** After every event: goes on where all of a plan are back. */
export function considerReturn(transition: Transition) {
  const { state, now } = transition;
  const { phase } = state;
  if (phase.name !== 'returning') return;
  if (state.operator === 'stop') return stopNow(transition); // the next server waits for them as this one did
  const whole = phase.plans.map((kept) => whoIsBack(state, phase, kept)).filter(({ missing }) => missing.length === 0);
  // Who is the operator's own may have changed with the server: then they hand over.
  const own = ownEndsIn(state);
  const again = whole.findLast(({ plan, areInPlace }) => areInPlace && hasOwnEnds(plan, own));
  if (again) return goOnWith(transition, again);
  const handingOver = whole.at(-1);
  if (handingOver) return goOnFrom(transition, handingOver, 'the server is back, and everyone who has the state');
  const last = phase.plans.at(-1);
  // Nothing is lost with what they kept: it is enough that they are here.
  if (isSaved(state) && last && peers(last.plan).every((peer) => donorOf(transition, peer)))
    return planAnew(transition, 'the server is back, and everyone of the plan');
  const back = phase.back.filter(({ peer }) => donorOf(transition, peer));
  // Of several groups each waits as long as somebody is there in any (comingBack.ts).
  if (state.config.own !== undefined) {
    if (back.length < phase.back.length) change(transition, { phase: { ...phase, back } });
    return;
  }
  const isAlone = state.donors.length === 0;
  if (isAlone && phase.since !== null) change(transition, { phase: { ...phase, back, since: null, deadline: null } });
  else if (!isAlone && phase.since === null)
    change(transition, { phase: { ...phase, ...waitedFor(phase, now, isSaved(state)) } });
  else if (back.length < phase.back.length) change(transition, { phase: { ...phase, back } });
}

/** Who is not back by now is not waited for any more: others have what they kept, or the newest checkpoint has. */
export function missedReturn(transition: Transition, phase: Returning) {
  const { state } = transition;
  const left = phase.plans.map((kept) => whoIsBack(state, phase, kept)).findLast((one) => living(state, one) !== null);
  if (left === undefined) {
    if (state.config.own !== undefined) change(transition, { gathering: 'over' });
    return planAnew(transition, 'not everyone came back');
  }
  goOnFrom(transition, left, `${left.missing.join(', ')} did not come back`);
}

const isSaved = ({ config, committedSteps, newestCheckpointStep }: CoordinatorState): boolean =>
  config.own === undefined && committedSteps === newestCheckpointStep;

/** Since the first donor is here, and longer after each that is back. */
export function waitedFor(
  { since, wasShort }: Returning,
  now: number,
  saved = false,
): Pick<Returning, 'since' | 'deadline'> {
  const { leastMs, mostMs } = DEADLINES.returning;
  const from = since ?? now;
  if (saved) return { since: from, deadline: from + (wasShort ? PLACES_KEPT.mostMs : PLACES_KEPT.strangersMs) };
  return { since: from, deadline: Math.min(from + mostMs, now + leastMs) };
}

/** All of a plan's members have what they had: the same plan again. */
function goOnWith(transition: Transition, { plan, lacking }: Back) {
  const reason = 'the server is back, and everyone of the plan';
  gather(transition, plan);
  prepare(transition, { ...newlyInForce(transition.state, plan), lacking }, { from: 'kept' }, reason);
}

/** Every shard is with one of them: another plan, or the same one with nobody missing. */
function goOnFrom(transition: Transition, { plan, epoch, lacking }: Back, reason: string) {
  gather(transition, plan);
  const before = { ...newlyInForce(transition.state, plan), epoch, lacking, keptOnly: true };
  waitForPlan(transition, before, reason, 'everyone');
}

/** Where all who are expected are back nobody is missing; else fewer will do. */
function gather(transition: Transition, plan: Plan) {
  const { state } = transition;
  if (state.gathering !== 'open') return;
  const expected = state.donors.slice(0, expectedDonors(state)).map(({ peer }) => peer);
  const isWhole = expected.length === expectedDonors(state) && expected.every((peer) => peers(plan).includes(peer));
  change(transition, { gathering: isWhole ? 'whole' : 'over' });
}

interface Back extends Pick<PlanInForce, 'plan' | 'epoch' | 'lacking'> {
  /** Members who are not here, or not with their part of the state after the last committed step: what they keep is stale. */
  readonly missing: readonly PeerId[];
  /** None of the others has begun to hand it over. */
  readonly areInPlace: boolean;
}

function whoIsBack(state: CoordinatorState, { back, stale, plans }: Returning, { plan, epochs }: KeptPlan): Back {
  const here = new Set(state.donors.map(({ peer }) => peer));
  const said = new Map(back.flatMap((one) => (here.has(one.peer) ? [[one.peer, one.said] as const] : [])));
  const stands = (peer: PeerId, what: 'role' | 'handedOver'): Standing | null => {
    const word = said.get(peer);
    const standing = word?.generation === state.generation ? word[what] : null;
    if (state.config.own !== undefined && standing?.met !== state.met) return null;
    return standing?.step === state.committedSteps && epochs.includes(standing.epoch) ? standing : null;
  };
  const members = peers(plan);
  const away = members.filter((peer) => !stands(peer, 'role') && !stands(peer, 'handedOver'));
  const isPrimary = (peer: PeerId): boolean => plan.state.some(({ shards }) => shards.some((one) => one.peer === peer));
  // A replica alone may lag behind, and go on without what it kept.
  const missing = away.filter((peer) => isPrimary(peer) || !epochs.includes(said.get(peer)?.role?.epoch ?? -1));
  const copied = members.flatMap((peer) => (stands(peer, 'role') ? [] : (stands(peer, 'handedOver')?.epoch ?? [])));
  const lost = plan.state.flatMap(({ block, shards }) =>
    shards.flatMap((shard) =>
      keepersOf(shard)
        .filter((peer) => away.includes(peer))
        .map((peer) => keeperKey(peer, shardKey(block, shard.range))),
    ),
  );
  const isLast = epochs.includes(state.lastCommit?.epoch ?? -1);
  // Its first step was not committed: copies may have been on their way.
  const earlier = plans.findLast((other) => (other.epochs[0] ?? 0) < (epochs[0] ?? 0));
  const late = isLast || !earlier ? [] : lateCopies(earlier.plan, plan).map(lateKey);
  const epoch = copied[0] ?? epochs.at(-1) ?? 0;
  const lacking = withStale([], [...(isLast ? stale : late), ...lost]);
  return { plan, epoch, lacking, missing, areInPlace: copied.length === 0 };
}
