/** What comes of a checkpoint that is whole: it counts, or its keepers have not the same state, and somebody is to blame. */
import { partnersOf, remember, throwOut } from './blame.ts';
import { settleCheckpoint } from './checkpoint.ts';
import { type Difference, differencesIn } from './copies.ts';
import { boundary, considerInterruption, planOn } from './planInForce.ts';
import { withStale } from './replicas.ts';
import { dutiesIn, keeperKey, type PendingCheckpoint } from './state.ts';
import { keepersLive } from './successor.ts';
import { change, donorOf, log, type Transition } from './transition.ts';

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
 * Two have not the same state of a shard. Whoever differs from two goes. Else the replica, of two replicas the later one,
 * gets the shard anew; the second time it goes. True: somebody went.
 */
function blameCopies(transition: Transition, checkpoint: PendingCheckpoint): boolean {
  const differing = differencesIn(checkpoint);
  const pairs = new Map(differing.map((one) => [`${one.senior} ${one.junior}`, one]));
  for (const { senior, junior } of pairs.values()) {
    const before = transition.state.faults.some(
      ({ of, peer, about }) => of === 'state' && peer === senior && about === junior,
    );
    const found = remember(transition, 'state', senior, junior).filter(({ of }) => of === 'state');
    const detail = `${senior} and ${junior} have different copies of the same part of the state`;
    log(transition, 'warn', `${detail}.`);
    const culprit = [senior, junior].find((peer) => partnersOf(found, peer).size > 1 && donorOf(transition, peer));
    const goes = culprit ?? (before && donorOf(transition, junior) ? junior : undefined);
    if (goes === undefined) continue;
    throwOut(transition, goes, detail, culprit === undefined ? detail : `${goes} differs from several: ${detail}`);
    return true;
  }
  lay(transition, differing);
  return false;
}

/** What they keep of these is asked for no more, until they have it anew. */
function lay(transition: Transition, differing: readonly Difference[]) {
  const { phase } = transition.state;
  if (!('inForce' in phase)) return;
  const { inForce } = phase;
  const lost = differing.flatMap(({ key, junior }) =>
    dutiesIn(inForce, junior)?.replica.includes(key) ? keeperKey(junior, key) : [],
  );
  change(transition, { phase: { ...phase, inForce: { ...inForce, lacking: withStale(inForce.lacking, lost) } } });
}
