/**
 * Who is held to account when a step cannot be committed. A donor's word counts against itself; against another one only
 * what two say, or what the server saw of it. So a lost link is its pair's, until the same donor loses one with another
 * donor too; and who sent a tensor that is not sound is found by what all say of it in a checked epoch (`verdictOf`).
 */
import type { PeerId } from '../base.ts';
import type { UnsoundTensor } from '../messages/messages.ts';
import type { Pair } from './events.ts';
import { lose, tryAgain } from './planInForce.ts';
import { change, donorOf, log, refuse, type Transition } from './transition.ts';
import type { Fault, Sighting } from './trouble.ts';

/** Faults of its own within so many committed steps, after which a donor has to go. */
const FAULTS_LIMIT = 3;
const FAULTS_KEPT_STEPS = 20;
/** Of those that only a checkpoint shows. */
const FAULTS_KEPT_CHECKPOINTS = 4;
/** Of those that only an evaluation shows. */
const FAULTS_KEPT_EVALUATIONS = 20;
/** A link that was lost so often within these is not tried again. */
const LINK_LOSSES_LIMIT = 2;

/** A member of the plan said, or showed, that this epoch cannot go on; nobody's state is lost. */
export function faulty(transition: Transition, culprit: PeerId, detail: string) {
  const times = rememberedTimes(transition, 'itself', culprit);
  log(transition, 'warn', `Fault ${times} of ${culprit}: ${detail}`);
  if (times < FAULTS_LIMIT) return tryAgain(transition, detail);
  throwOut(transition, culprit, detail, `${culprit} failed ${times} times`);
}

/** A link is gone, or of no use, by the word of one end. */
export function linkLost(transition: Transition, peer: PeerId, about: PeerId, detail: string) {
  if (isPair(transition.state.relayed, peer, about))
    return faulty(transition, peer, `${detail}: but it goes through the server`);
  const lost = remember(transition, 'link', peer, about).filter((fault) => fault.of === 'link');
  log(transition, 'warn', `${detail}.`);
  const culprit = [peer, about].find((one) => partnersOf(lost, one).size > 1);
  if (culprit !== undefined) {
    const others = [...partnersOf(lost, culprit)].join(' and to ');
    return throwOut(transition, culprit, detail, `${culprit} lost its links to ${others}`);
  }
  if (lost.filter((fault) => isBetween(fault, peer, about)).length >= LINK_LOSSES_LIMIT)
    relay(transition, [[peer, about]]);
  tryAgain(transition, detail);
}

/** What one handed over cannot be state, by the word of who got it: where the server saw it, by what it saw. */
export function badState(transition: Transition, peer: PeerId, about: PeerId, detail: string) {
  const wasSeen = transition.state.sightings.some(({ from, to }) => from === about && to === peer);
  if (wasSeen) return throwOut(transition, about, detail, `the server saw it too: ${detail}`);
  linkLost(transition, peer, about, detail);
}

/** Its place goes to others. `isProven`: it was shown to harm the run. */
export function throwOut(transition: Transition, culprit: PeerId, detail: string, reason: string, isProven = false) {
  refuse(transition, culprit, 'faulty', detail, isProven);
  lose(transition, culprit, reason);
}

/** For those who did not answer in time, or whom nothing proves to be wrong. */
export function dismiss(
  transition: Transition,
  lost: readonly PeerId[],
  reason: string,
  refusal: 'tooLate' | 'faulty' = 'tooLate',
) {
  for (const peer of lost) if (donorOf(transition, peer)) refuse(transition, peer, refusal, reason);
}

/** From the next epoch on these reach each other through the server, which then sees what goes between them. */
export function relay(transition: Transition, pairs: readonly Pair[]) {
  for (const [one, other] of pairs) {
    const { relayed } = transition.state;
    if (isPair(relayed, one, other)) continue;
    change(transition, { relayed: [...relayed, [one, other]] });
    log(transition, 'info', `What ${one} and ${other} send each other goes through the server.`);
  }
}

/** All faults of the newest steps, with this one. */
export function remember(
  transition: Transition,
  of: Fault['of'],
  peer: PeerId,
  about: PeerId | null,
): readonly Fault[] {
  const { faults, config, committedSteps: step } = transition.state;
  const keptSteps: Partial<Record<Fault['of'], number>> = {
    state: FAULTS_KEPT_CHECKPOINTS * config.checkpointEverySteps,
    wait: FAULTS_KEPT_EVALUATIONS * (config.evaluation?.everySteps ?? 1),
    numbers: Number.POSITIVE_INFINITY,
  };
  const isNew = (fault: Fault) => step - fault.step < (keptSteps[fault.of] ?? FAULTS_KEPT_STEPS);
  const kept = [...faults.filter(isNew), { of, peer, about, step }];
  change(transition, { faults: kept });
  return kept;
}

/** How often it is remembered with this one, of a donor's own. */
export const rememberedTimes = (transition: Transition, of: Fault['of'], peer: PeerId): number =>
  remember(transition, of, peer, null).filter((fault) => fault.of === of && fault.peer === peer).length;

const isBetween = ({ peer, about }: Fault, one: PeerId, other: PeerId): boolean =>
  (peer === one && about === other) || (peer === other && about === one);

export const isPair = (pairs: readonly Pair[], one: PeerId, other: PeerId): boolean =>
  pairs.some((pair) => pair.includes(one) && pair.includes(other));

export function partnersOf(lost: readonly Fault[], one: PeerId): Set<PeerId> {
  return new Set(
    lost.flatMap(({ peer, about }) => (peer === one && about !== null ? about : about === one ? peer : [])),
  );
}

/** What a member says of a step, or an evaluation, whose outcome is not finite. */
interface Testimony {
  readonly peer: PeerId;
  /** Of the first tensor that was not sound; undefined: all were. */
  readonly unsound: UnsoundTensor | undefined;
  /** A number of its own is not finite. */
  readonly hasReportedIt: boolean;
}

type Verdict =
  /** It is shown to have sent or said what is not so. */
  | { readonly verdict: 'liar'; readonly peer: PeerId; readonly why: string }
  /** By its own word it made it out of what was sound. */
  | { readonly verdict: 'maker'; readonly peer: PeerId; readonly tensor: UnsoundTensor }
  /** Two ends of a link contradict each other: the server has to see what goes between them. */
  | { readonly verdict: 'open'; readonly pairs: readonly Pair[] }
  /** Several made it out of what was sound, or nobody says anything of it. */
  | { readonly verdict: 'nobody' };

/** Where what is not finite began: pure, of all members' words and of what the server saw. */
export function verdictOf(
  testimonies: readonly Testimony[],
  relayed: readonly Pair[],
  sightings: readonly Sighting[],
): Verdict {
  const words = new Map(testimonies.map(({ peer, unsound }) => [peer, unsound]));
  const seen = sightings.find(({ from }) => words.has(from));
  if (seen !== undefined) return sentBy(seen, words, relayed);
  const makers = new Map<PeerId, UnsoundTensor>();
  /** By who sent what was not sound, and says that all was sound: who says so. */
  const accusers = new Map<PeerId, PeerId[]>();
  const circle: Pair[] = [];
  for (const { peer, unsound } of testimonies) {
    if (unsound === undefined) continue;
    if (unsound.from === undefined) makers.set(peer, unsound);
    else if (unsound.from === peer || !words.has(unsound.from))
      return { verdict: 'liar', peer, why: `it names ${unsound.from}, who sent it nothing` };
    else if (words.get(unsound.from) === undefined)
      accusers.set(unsound.from, [...(accusers.get(unsound.from) ?? []), peer]);
    else circle.push([unsound.from, peer]);
  }
  for (const [sender, receivers] of accusers) {
    if (receivers.length > 1)
      return { verdict: 'liar', peer: sender, why: `${receivers.join(' and ')} got from it what is not finite` };
    const [receiver] = receivers;
    if (receiver !== undefined && isPair(relayed, sender, receiver))
      return { verdict: 'liar', peer: receiver, why: `what ${sender} sent it was finite, as the server saw` };
  }
  const [maker, ...others] = makers;
  if (maker !== undefined)
    return others.length > 0 ? { verdict: 'nobody' } : { verdict: 'maker', peer: maker[0], tensor: maker[1] };
  const open = [...accusers].flatMap(([sender, receivers]) => receivers.map((receiver): Pair => [sender, receiver]));
  if (open.length > 0) return { verdict: 'open', pairs: open };
  if (circle.length > 0) return ofCircle(circle, relayed);
  const silent = testimonies.find(({ hasReportedIt }) => hasReportedIt);
  return silent === undefined
    ? { verdict: 'nobody' }
    : {
        verdict: 'liar',
        peer: silent.peer,
        why: 'it reported a number that is not finite, although it says that all it received and computed was',
      };
}

/** The first frame that the server saw: nothing before it, on any way that goes through the server, was unsound. */
function sentBy(
  { from: sender, to }: Sighting,
  words: ReadonlyMap<PeerId, UnsoundTensor | undefined>,
  relayed: readonly Pair[],
): Verdict {
  const word = words.get(sender);
  const why = `the server saw that it sent ${to} what is not finite`;
  if (word === undefined) return { verdict: 'liar', peer: sender, why };
  if (word.from === undefined) return { verdict: 'maker', peer: sender, tensor: word };
  if (isPair(relayed, sender, word.from) || !words.has(word.from) || word.from === sender)
    return { verdict: 'liar', peer: sender, why };
  return { verdict: 'open', pairs: [[word.from, sender]] };
}

/** Each says that it came from the next: where the server sees a way and saw nothing, who says so lies. */
function ofCircle(circle: readonly Pair[], relayed: readonly Pair[]): Verdict {
  const contradicted = circle.find(([sender, receiver]) => isPair(relayed, sender, receiver));
  if (contradicted === undefined) return { verdict: 'open', pairs: circle };
  const [sender, receiver] = contradicted;
  return { verdict: 'liar', peer: receiver, why: `what ${sender} sent it was finite, as the server saw` };
}
