/**
 * Who is held to account when a step cannot be committed. A donor's word counts against itself; against another one only what
 * the server saw of it: where two words differ, what these two send each other goes through the server from then on. So it is
 * with a lost link, and with a tensor that is not sound (`verdictOf`).
 */
import type { PeerId } from '../base.ts';
import type { UnsoundTensor } from '../messages/messages.ts';
import type { Pair } from './events.ts';
import { lose, planOn, tryAgain } from './planInForce.ts';
import { membersInvolved } from './successor.ts';
import { change, donorOf, log, refuse, type Transition } from './transition.ts';
import type { Fault, Sighting } from './trouble.ts';
import { rest } from './warmUp.ts';

/** Faults of its own within so many committed steps, after which a donor has to go. */
const FAULTS_LIMIT = 3;
const FAULTS_KEPT_STEPS = 20;
/** Of those that only a checkpoint shows. */
const FAULTS_KEPT_CHECKPOINTS = 4;

/**
 * A member of the plan said, or showed, that this epoch cannot go on; nobody's state is lost. Where several of one network do
 * so by turns, and others are at work, it rests: else none of them would ever have enough faults of its own.
 */
export function faulty(transition: Transition, culprit: PeerId, detail: string) {
  const times = rememberedTimes(transition, 'itself', culprit);
  log(transition, 'warn', `Fault ${times} of ${culprit}: ${detail}`);
  if (times >= FAULTS_LIMIT) return throwOut(transition, culprit, detail, `${culprit} failed ${times} times`);
  const network = addressOf(transition, culprit);
  const itsNetworks = transition.state.faults.filter(({ of, networks }) => of === 'itself' && networks[0] === network);
  const areOthers = membersInvolved(transition.state).some((peer) => addressOf(transition, peer) !== network);
  if (itsNetworks.length < FAULTS_LIMIT || !areOthers || donorOf(transition, culprit)?.isOwn === true)
    return tryAgain(transition, detail);
  const rests = `${culprit} rests for ${rest(transition, culprit)}, since its network failed ${itsNetworks.length} times`;
  planOn(transition, `${detail}; ${rests}`);
}

/** A link is gone, or of no use, by the word of one end: what the two send each other goes through the server, which sees what comes. */
export function linkLost(transition: Transition, peer: PeerId, about: PeerId, detail: string) {
  if (isPair(transition.state.relayed, peer, about))
    return faulty(transition, peer, `${detail}: but it goes through the server`);
  log(transition, 'warn', `${detail}.`);
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
  // What it said of others' copies counts no more.
  const { faults } = transition.state;
  change(transition, {
    faults: faults.filter(({ of, peer, about }) => of !== 'state' || ![peer, about].includes(culprit)),
  });
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
  const keptSteps = (fault: Fault): number =>
    fault.of === 'state' ? FAULTS_KEPT_CHECKPOINTS * config.checkpointEverySteps : FAULTS_KEPT_STEPS;
  const networks = [peer, about].map((one) => addressOf(transition, one));
  const kept = [...faults.filter((fault) => step - fault.step < keptSteps(fault)), { of, peer, about, step, networks }];
  change(transition, { faults: kept });
  return kept;
}

const addressOf = (transition: Transition, peer: PeerId | null): string | null =>
  (peer !== null && donorOf(transition, peer)?.address) || null;

/** How often it is remembered with this one, of a donor's own. */
export const rememberedTimes = (transition: Transition, of: Fault['of'], peer: PeerId): number =>
  remember(transition, of, peer, null).filter((fault) => fault.of === of && fault.peer === peer).length;

export const isPair = (pairs: readonly Pair[], one: PeerId, other: PeerId): boolean =>
  pairs.some((pair) => pair.includes(one) && pair.includes(other));

/** Of how many networks those are with whom it is not at one: what one network says is one word, and its own counts for nothing. */
export function networksAgainst(faults: readonly Fault[], one: PeerId): number {
  const against = faults.flatMap(({ peer, about, networks: [own, other] }) =>
    peer === one ? [[own, other]] : about === one ? [[other, own]] : [],
  );
  return new Set(against.flatMap(([own, other]) => (own === other ? [] : other))).size;
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
  /** Two ends of a link contradict each other: the server has to see what goes between them. */
  | { readonly verdict: 'open'; readonly pairs: readonly Pair[] }
  /** By their own words, or what they reported, they made it out of what was sound. */
  | { readonly verdict: 'makers'; readonly peers: readonly PeerId[] };

/** Where what is not finite began: pure, of all members' words and of what the server saw. */
export function verdictOf(
  testimonies: readonly Testimony[],
  relayed: readonly Pair[],
  sightings: readonly Sighting[],
): Verdict {
  const words = new Map(testimonies.map(({ peer, unsound }) => [peer, unsound]));
  const seen = sightings.find(({ from }) => words.has(from));
  if (seen !== undefined) return sentBy(seen, words, relayed);
  const makers: PeerId[] = [];
  /** Who sent what was not sound, and says that all was sound, and who says so. */
  const accused: Pair[] = [];
  const circle: Pair[] = [];
  for (const { peer, unsound, hasReportedIt } of testimonies) {
    if (unsound === undefined) {
      if (hasReportedIt) makers.push(peer);
    } else if (unsound.from === undefined) makers.push(peer);
    else if (unsound.from === peer || !words.has(unsound.from))
      return { verdict: 'liar', peer, why: `it names ${unsound.from}, who sent it nothing` };
    else if (words.get(unsound.from) === undefined) accused.push([unsound.from, peer]);
    else circle.push([unsound.from, peer]);
  }
  const contradicted = accused.find(([sender, receiver]) => isPair(relayed, sender, receiver));
  if (contradicted !== undefined) return sawOtherwise(contradicted);
  if (accused.length > 0) return { verdict: 'open', pairs: accused };
  if (makers.length > 0) return { verdict: 'makers', peers: makers };
  return circle.length > 0 ? ofCircle(circle, relayed) : { verdict: 'makers', peers: [] };
}

const sawOtherwise = ([sender, receiver]: Pair): Verdict => ({
  ...{ verdict: 'liar', peer: receiver, why: `what ${sender} sent it was finite, as the server saw` },
});

/** The first frame that the server saw: nothing before it, on any way that goes through the server, was unsound. */
function sentBy(
  { from: sender, to }: Sighting,
  words: ReadonlyMap<PeerId, UnsoundTensor | undefined>,
  relayed: readonly Pair[],
): Verdict {
  const word = words.get(sender);
  const why = `the server saw that it sent ${to} what is not finite`;
  if (word === undefined) return { verdict: 'liar', peer: sender, why };
  if (word.from === undefined) return { verdict: 'makers', peers: [sender] };
  if (isPair(relayed, sender, word.from) || !words.has(word.from) || word.from === sender)
    return { verdict: 'liar', peer: sender, why };
  return { verdict: 'open', pairs: [[word.from, sender]] };
}

/** Each says that it came from the next: where the server sees a way and saw nothing, who says so lies. */
function ofCircle(circle: readonly Pair[], relayed: readonly Pair[]): Verdict {
  const contradicted = circle.find(([sender, receiver]) => isPair(relayed, sender, receiver));
  return contradicted === undefined ? { verdict: 'open', pairs: circle } : sawOtherwise(contradicted);
}
