/**
 * Who has to go where a meeting came to nothing often enough. A word of one donor about another one may be a lie of either, so
 * as with lost links it is the pair's: whoever is at odds with most others goes. Who waits for others is not late itself:
 * everyone says first, so whoever has not been told what an island did has nothing to send yet. Pure.
 */
import type { PeerId } from '../base.ts';
import type { FaultMessage } from './events.ts';

/** What one had not got of another one when a meeting's time was over, or could not read. */
export interface Accusation {
  readonly by: PeerId;
  readonly about: PeerId;
  readonly round: number;
  readonly reason: FaultMessage['reason'];
}

/** The newest attempt at this round's meeting that was late, and who had not met then. */
export interface Late {
  readonly attempt: number;
  readonly missing: readonly PeerId[];
}

/** Rounds for which it is remembered. */
const KEPT_ROUNDS = 20;
/** Nobody's words fill the memory. */
const KEPT_MOST = 1_000;
/** Who is at odds with so many others is wrong. */
const ODDS = 2;

/** Said of a late attempt, when the next one begins. */
export const isLateWord = ({ reason }: Pick<FaultMessage, 'reason'>): boolean =>
  reason === 'noPacket' || reason === 'notPublished';

/** Each of it once. */
export function withAccusation(accused: readonly Accusation[], said: Accusation): readonly Accusation[] {
  const kept = accused.filter(({ round, ...one }) => {
    const isSame = one.by === said.by && one.about === said.about && one.reason === said.reason;
    return round > said.round - KEPT_ROUNDS && !(isSame && round === said.round);
  });
  return [...kept, said].slice(-KEPT_MOST);
}

/** Of those who did not meet in time, twice, who does not say for whom it waits. */
export const silentIn = (
  missing: readonly PeerId[],
  late: Late,
  accused: readonly Accusation[],
  round: number,
): PeerId[] =>
  missing.filter(
    (peer) =>
      late.missing.includes(peer) &&
      !accused.some(({ by, reason, ...one }) => by === peer && one.round === round && isLateWord({ reason })),
  );

/** `own`: what failed is theirs. `here`: donors, in the order in which they came. */
export function culpritsIn(
  accused: readonly Accusation[],
  round: number,
  here: readonly PeerId[],
  own: readonly PeerId[] = [],
): PeerId[] {
  const words = accused.filter(
    ({ about, reason, ...of }) =>
      reason !== 'notPublished' ||
      !accused.some((one) => one.by === about && one.round === of.round && one.reason === 'noPacket'),
  );
  const ofNow = words.filter((one) => one.round === round);
  const isOf = (peer: PeerId, { by, about }: Accusation): boolean => by === peer || about === peer;
  const atOdds = here.filter((peer) => ofNow.some((one) => isOf(peer, one)));
  const others = (peer: PeerId): number =>
    new Set(words.flatMap((one) => (isOf(peer, one) ? [one.by, one.about] : []))).size - 1;
  const namedBy = (peer: PeerId): number => new Set(words.flatMap(({ by, about }) => (about === peer ? by : []))).size;
  const [worst] = atOdds.toReversed().toSorted((a, b) => others(b) - others(a) || namedBy(b) - namedBy(a));
  if (worst !== undefined && others(worst) >= ODDS) return [...new Set([...own, worst])];
  if (own.length > 0) return [...own];
  // Of two alone nothing shows who is wrong.
  const newest = atOdds.findLast((peer) =>
    ofNow.some((one) => isOf(peer, one) && here.includes(one.by) && here.includes(one.about)),
  );
  return newest === undefined ? [] : [newest];
}
