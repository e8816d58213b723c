/**
 * One direction of a line that several senders share, as donors behind one router do. Mixed: the first message of each
 * goes at the same time, at an equal part of the rate. Turns (ATLAS, 2024): one message at a time has all of it, the one
 * that is needed first; or, where a plan says whose turn it is, in that order, whoever waits meanwhile. Each way a sender's
 * own messages go in the order produced. See SPEC.md, SI15 and PL63.
 */
import { at, type PeerId } from '../base.ts';

/** Times closer than this, as a share of the time itself, are one instant: sums in another order differ in their last bits. */
const INSTANT = 1e-12;
/** The last time that is one instant with this one. */
export const instantEnd = (seconds: number): number => seconds * (1 + INSTANT);

type Sharing = 'mixed' | 'turns';

export interface LineCost {
  readonly sharing: Sharing;
  readonly bytesPerSecond: number;
  /** Whose message each one is, of all that go; absent: who is there and needed first. Of turns. */
  readonly order?: readonly PeerId[];
}

interface Message {
  /** Whose input it is. */
  readonly work: number;
  /** What it takes with the line to itself. */
  readonly seconds: number;
  /** Less: sooner. */
  readonly neededAt: number;
}

interface Sender {
  readonly from: number;
  readonly queue: Message[];
  /** Place in the queue of what goes next, or goes now. */
  next: number;
  /** Which is through when every message under way has been given so much of the line; null: nothing of this sender goes. */
  endGiven: number | null;
}

export type SharedLine = ReturnType<typeof sharedLine>;

/** `order`: the senders' numbers. */
export function sharedLine(sharing: Sharing, order?: readonly number[]) {
  const senders = new Map<number, Sender>();
  let busy: Sender[] = [];
  /** Seconds of the line to each message under way, since one went alone. */
  let given = 0;
  let reachedSeconds = 0;
  /** Messages that have begun. */
  let begun = 0;

  const leastEnd = (): number => busy.reduce((least, { endGiven }) => Math.min(least, endGiven ?? least), Infinity);
  const nextSeconds = (): number =>
    busy.length === 0 ? Infinity : reachedSeconds + (leastEnd() - given) * busy.length;

  /** Takes out what is through by now, and answers whose input it is. */
  function through(now: number): number[] {
    if (busy.length === 0) return [];
    // At the end of a message exactly what it had left has been given, however the sums of times are rounded.
    if (now >= nextSeconds()) given = leastEnd();
    else given += (now - reachedSeconds) / busy.length;
    const done = busy.filter(({ endGiven }) => (endGiven ?? Infinity) <= instantEnd(given));
    for (const sender of done) sender.endGiven = null;
    busy = busy.filter(({ endGiven }) => endGiven !== null);
    return done.map((sender) => at(sender.queue, sender.next++).work);
  }

  function begin(): void {
    if (busy.length === 0) given = 0;
    else if (sharing === 'turns') return;
    const waiting = [...senders.values()].filter(
      ({ queue, next, endGiven }) => endGiven === null && next < queue.length,
    );
    const first = order
      ? waiting.find(({ from }) => from === order[begun])
      : waiting.toSorted((a, b) => head(a).neededAt - head(b).neededAt || a.from - b.from)[0];
    if (first === undefined) return;
    begun++;
    for (const sender of sharing === 'mixed' ? waiting : [first]) {
      sender.endGiven = given + head(sender).seconds;
      busy.push(sender);
    }
  }

  return {
    /** All messages of one instant are added before the line goes on. */
    add(from: number, message: Message): void {
      const sender = senders.get(from) ?? { from, queue: [], next: 0, endGiven: null };
      senders.set(from, sender);
      sender.queue.push(message);
    },
    /** Answers whose input is through by now, and begins with what waits: after each addition, and at `nextSeconds`. */
    goOn(now: number): number[] {
      const done = through(now);
      reachedSeconds = now;
      begin();
      return done;
    },
    /** When a message is through next; Infinity where none is under way. */
    nextSeconds,
  };
}

const head = ({ queue, next }: Sender): Message => at(queue, next);
