/**
 * Where nothing forces a change of plan, the one in force trains on while the members of the next one get ready: they
 * compile, fetch tokens and open links, and hold no state yet. When all of them are warm it takes over at the next
 * boundary. Who is late is let go alone, so that nobody can make the others stand by never getting ready.
 */
import { doubledMs, type PeerId } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { peers } from '../plan/plan.ts';
import { allowedFor, baseAllowedMs, withSeen } from './deadlines.ts';
import type { Proposal } from './events.ts';
import { considerInterruption, lose } from './planInForce.ts';
import { isFor, membersInvolved, successorOf } from './successor.ts';
import { change, changeDonor, donorOf, log, noteVisit, refuse, send, type Transition } from './transition.ts';

/** Who was late has no part in any plan for so long. */
const ASIDE_MS = 60_000;
const MOST_ASIDE_MS = 3_600_000;

/** After every event: the plan that would take over next is the one that donors get ready for. */
export function considerWarmUp(transition: Transition) {
  const { warmingUp } = transition.state;
  const next = successorOf(transition.state);
  if (next !== null) {
    if (warmingUp === null || !isFor(warmingUp, next.plan)) warmUp(transition, next);
  } else if (warmingUp !== null) change(transition, { warmingUp: null });
}

function warmUp(transition: Transition, { plan }: Proposal) {
  const { now, state } = transition;
  const { warmUps: number, epoch, committedSteps: step, seen, config } = state;
  const members = peers(plan);
  const deadline = now + allowedFor('warmUp', seen) + baseAllowedMs(acceptedModel(config), plan);
  change(transition, {
    warmUps: number + 1,
    warmingUp: { number, plan, waitingFor: members, startedAt: now, deadline },
  });
  send(transition, members, { type: 'warm', number, epoch: epoch + 1, step, plan });
}

/** What it says of an older plan is passed over. False: nobody asked it. */
export function warmed(transition: Transition, peer: PeerId, number: number): boolean {
  const { warmingUp, warmUps, seen } = transition.state;
  if (number !== warmingUp?.number) return number < warmUps;
  const waitingFor = warmingUp.waitingFor.filter((other) => other !== peer);
  if (waitingFor.length === warmingUp.waitingFor.length) return false;
  change(transition, {
    warmingUp: { ...warmingUp, waitingFor },
    seen: withSeen(seen, 'warmUp', transition.now - warmingUp.startedAt),
  });
  changeDonor(transition, peer, { wasLate: false });
  if (waitingFor.length === 0) considerInterruption(transition);
  return true;
}

/** The others go on with the plan in force, and another one is asked for: at first without who was late, then it goes. */
export function lateToWarmUp(transition: Transition) {
  const { warmingUp } = transition.state;
  if (warmingUp === null || warmingUp.waitingFor.length === 0 || transition.now < warmingUp.deadline) return;
  const late = warmingUp.waitingFor;
  const reason = `${late.join(', ')} did not get ready for the next plan in time`;
  log(transition, 'warn', `${reason}.`);
  const involved = membersInvolved(transition.state);
  for (const peer of late) {
    if (donorOf(transition, peer)?.wasLate) {
      refuse(transition, peer, 'tooLate', reason);
      continue;
    }
    // One whom the others need now works on, and is asked once more.
    changeDonor(transition, peer, { wasLate: true });
    if (!involved.includes(peer)) setAside(transition, peer);
  }
  change(transition, { warmingUp: null, proposal: null, ask: null });
  transition.effects.push({ type: 'offerChanged', reason });
  const lost = involved.find((peer) => late.includes(peer) && !donorOf(transition, peer));
  if (lost !== undefined) lose(transition, lost, reason);
  else considerInterruption(transition);
}

/** For a minute no plan has it; it is in none. */
function setAside(transition: Transition, peer: PeerId) {
  noteVisit(transition, peer);
  changeDonor(transition, peer, { asideUntilMs: transition.now + ASIDE_MS });
  send(transition, [peer], { type: 'standby', state: 'spare', why: 'mustWait' });
}

/**
 * No plan has it for a minute, twice as long each time, an hour at most: it may be what something comes of, and nothing is
 * proven. Returns for how long, in words. Whoever needs nothing more of it tells it so.
 */
export function rest(transition: Transition, peer: PeerId): string {
  noteVisit(transition, peer);
  const rests = (donorOf(transition, peer)?.rests ?? 0) + 1;
  const restMs = doubledMs(ASIDE_MS, MOST_ASIDE_MS, rests - 1);
  changeDonor(transition, peer, { rests, asideUntilMs: transition.now + restMs });
  // From now on fewer have to do.
  if (transition.state.gathering === 'whole') change(transition, { gathering: 'over' });
  return restMs === ASIDE_MS ? 'a minute' : `${restMs / ASIDE_MS} minutes`;
}

export function bringBack(transition: Transition) {
  const { donors } = transition.state;
  const back = donors.filter(({ asideUntilMs }) => asideUntilMs !== null && transition.now >= asideUntilMs);
  for (const { peer } of back) changeDonor(transition, peer, { asideUntilMs: null });
  if (back.length === 0) return;
  const names = back.map(({ peer }) => peer).join(', ');
  transition.effects.push({ type: 'offerChanged', reason: `${names} may be used again` });
  considerInterruption(transition);
}
