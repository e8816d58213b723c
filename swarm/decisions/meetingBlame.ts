/**
 * Who has to go where a meeting came to nothing often enough. What a donor says of another one counts where two say it, as
 * between the steps; of two of whom one alone accuses the other the one that came last goes. Who waits for others is not
 * late itself: everyone says first, so whoever has not been told what an island did has nothing to send yet. Pure.
 */
import { at, type PeerId } from '../base.ts';
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
/** So many say it. */
const WORDS = 2;

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
  const words = accused.filter(({ about, reason, ...of }) => {
    const waits = accused.some((one) => one.by === about && one.round === of.round && one.reason === 'noPacket');
    return here.includes(about) && !(reason === 'notPublished' && waits);
  });
  const wordsOf = (peer: PeerId): number => new Set(words.flatMap(({ by, about }) => (about === peer ? by : []))).size;
  const ofNow = words.filter((one) => one.round === round);
  const blamed = new Set([...own, ...ofNow.flatMap(({ about }) => (wordsOf(about) >= WORDS ? about : []))]);
  if (blamed.size > 0) return [...blamed];
  const pairs = ofNow.filter(({ by }) => here.includes(by));
  const newest = pairs.map(({ by, about }) =>
    at(
      [by, about].toSorted((a, b) => here.indexOf(b) - here.indexOf(a)),
      0,
    ),
  );
  return [...new Set(newest)];
}
