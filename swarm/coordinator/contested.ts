/** What comes of a checkpoint that is whole: it counts, or its keepers have not the same state, and somebody is to blame. */
import type { PeerId } from '../base.ts';
import { networksAgainst, remember, throwOut } from './blame.ts';
import { settleCheckpoint } from './checkpoint.ts';
import { type Difference, differencesIn } from './copies.ts';
import { boundary, considerInterruption, planAnew, planOn } from './planInForce.ts';
import { withStale } from './replicas.ts';
import { dutiesIn, keeperKey, type PendingCheckpoint } from './state.ts';
import { keepersLive, offerOf } from './successor.ts';
import { change, donorOf, log, send, type Transition } from './transition.ts';
import type { Fault } from './trouble.ts';
import { rest } from './warmUp.ts';

/**
 * After whatever may make a checkpoint whole, or show that it does not count. `isWaived`: its time is over, and copies that
 * nobody told of are not waited for.
 */
export function considerCheckpoint(transition: Transition, isWaived = false) {
  const [outcome, checkpoint] = settleCheckpoint(transition, isWaived);
  if (checkpoint === null) return;
  if (checkpoint.copies.some(({ verdict }) => verdict === 'differs') && blameCopies(transition, checkpoint)) return;
  const { phase } = transition.state;
  const waits = phase.name === 'saving' || (outcome === 'contested' && phase.name === 'holding');
  if (!waits) return considerInterruption(transition);
  if (outcome === 'stored' || keepersLive(transition.state, phase.inForce)) return boundary(transition);
  planOn(transition, `checkpoint ${checkpoint.step} does not count, and not everyone is there to save it again`);
}

/**
 * Two have not the same state of a shard. Who differs from donors of two other networks goes, where none of these differs from
 * as many: of two sides that are as large nobody knows which is right. Else the replica, of two
 * replicas the later one, gets the shard anew. The second time nobody knows whose is right: both rest where others are at
 * hand, else the one who came last, and the run goes back to what counts. After that, and where two others differ twice
 * too, only the one who came last rests, and the other's copy counts, so that several strangers cannot set aside all who
 * were here before them. True: the plan in force is over.
 */
function blameCopies(transition: Transition, checkpoint: PendingCheckpoint): boolean {
  const differing = differencesIn(checkpoint);
  const pairs = new Map(differing.map((one) => [`${one.senior} ${one.junior}`, one]));
  for (const { senior, junior } of pairs.values()) {
    remember(transition, 'state', senior, junior);
    log(transition, 'warn', `${detailOf(senior, junior)}.`);
  }
  const { donors, faults } = transition.state;
  const found = faults.filter(({ of }) => of === 'state');
  for (const { senior, junior } of pairs.values()) {
    const detail = detailOf(senior, junior);
    const culprit = [senior, junior].find((peer) => isAlone(found, peer) && donorOf(transition, peer));
    if (culprit !== undefined) {
      throwOut(transition, culprit, detail, `${culprit} differs from several: ${detail}`);
      return true;
    }
    const times = timesDiffered(found, senior, junior);
    if (times < 2 || !donorOf(transition, junior)) continue;
    const othersDifferToo = found.some(({ peer, about }) => about !== junior && timesDiffered(found, peer, about) > 1);
    const last = donors.findLast(({ peer }) => peer === senior || peer === junior)?.peer ?? junior;
    if (times === 2 && !othersDifferToo) goBack(transition, [senior, junior], detail);
    else {
      lay(transition, differing, last);
      planOn(transition, `${detail}: ${last} rests for ${rest(transition, last)}`);
    }
    return true;
  }
  lay(transition, differing);
  return false;
}

const detailOf = (senior: PeerId, junior: PeerId): string =>
  `${senior} and ${junior} have different copies of the same part of the state`;

const timesDiffered = (found: readonly Fault[], one: PeerId, other: PeerId | null): number =>
  found.filter(({ peer, about }) => peer === one && about === other).length;

/** It differs from donors of two other networks, and from nobody who differs from as many. */
function isAlone(found: readonly Fault[], one: PeerId): boolean {
  const against = networksAgainst(found, one);
  const others = found.flatMap(({ peer, about }) => (peer === one ? (about ?? []) : about === one ? peer : []));
  return against > 1 && others.every((other) => networksAgainst(found, other) < against);
}

function goBack(transition: Transition, two: readonly PeerId[], detail: string) {
  const { donors } = transition.state;
  const here = donors.filter(({ peer }) => two.includes(peer)).map(({ peer }) => peer);
  const resting = offerOf(transition.state).every((peer) => two.includes(peer)) ? here.slice(1) : here;
  const rests = resting.map((peer) => `${peer} rests for ${rest(transition, peer)}`);
  planAnew(transition, [`${detail}, and nothing shows whose is right`, ...rests].join('; '));
  send(transition, resting, { type: 'standby', state: 'spare', why: 'mustWait' });
}

/** What juniors keep of these is asked for no more, until they have it anew; so is what `untrusted` keeps, also as the primary. */
function lay(transition: Transition, differing: readonly Difference[], untrusted: PeerId | null = null) {
  const { phase } = transition.state;
  if (!('inForce' in phase)) return;
  const { inForce } = phase;
  const lost = differing.flatMap(({ key, senior, junior }) => {
    const keeper = senior === untrusted ? senior : junior;
    const { primary = [], replica = [] } = dutiesIn(inForce, keeper) ?? {};
    return [...primary, ...replica].includes(key) ? keeperKey(keeper, key) : [];
  });
  change(transition, { phase: { ...phase, inForce: { ...inForce, lacking: withStale(inForce.lacking, lost) } } });
}
