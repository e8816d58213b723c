/**
 * One direction of a line that several senders share, as donors behind one router do. Mixed: the first message of each
 * goes at the same time, at an equal part of the rate. Turns (ATLAS, 2024): one message at a time has all of it, the one
 * that is needed first; or, where a plan says whose turn it is, in that order, whoever waits meanwhile. Each way a sender's
 * own messages go in the order produced. See SPEC.md, SI15 and PL63.
 */
import { at, type PeerId } from '../base.ts';
import { instantEnd } from './events.ts';

type Sharing = 'mixed' | 'turns';

export interface LineCost {
  readonly sharing: Sharing;
  readonly bytesPerSecond: number;
  /** Whose message each one is, of all that go; absent: who is there and needed first. Of turns. */
  readonly order?: readonly PeerId[];
}

interface Message {
  readonly bytes: number;
  /** Less: sooner. */
  readonly neededAt: number;
  readonly latencySeconds: number;
  /** Its arrival. */
  readonly event: number;
}

interface Sender {
  readonly from: number;
  readonly queue: Message[];
  /** Place in the queue of what goes next, or goes now. */
  next: number;
  /** Which is through when every message under way has been given so many bytes; null: nothing of this sender goes. */
  endBytes: number | null;
}

export type SharedLine = ReturnType<typeof sharedLine>;

/** `order`: the senders' numbers. */
export function sharedLine({ sharing, bytesPerSecond }: LineCost, order?: readonly number[]) {
  const senders = new Map<number, Sender>();
  let busy: Sender[] = [];
  /** To each message under way, since one went alone. */
  let givenBytes = 0;
  let reachedSeconds = 0;
  /** Messages that have begun. */
  let begun = 0;

  const leastEndBytes = (): number =>
    busy.reduce((least, { endBytes }) => Math.min(least, endBytes ?? least), Infinity);
  const nextSeconds = (): number =>
    busy.length === 0 ? Infinity : reachedSeconds + ((leastEndBytes() - givenBytes) * busy.length) / bytesPerSecond;

  /** Takes out what is through by now. */
  function through(now: number): Message[] {
    if (busy.length === 0) return [];
    // At the end of a message exactly what it had left has been given, however the sums of times are rounded.
    if (now >= nextSeconds()) givenBytes = leastEndBytes();
    else givenBytes += ((now - reachedSeconds) * bytesPerSecond) / busy.length;
    const done = busy.filter(({ endBytes }) => (endBytes ?? Infinity) <= instantEnd(givenBytes));
    for (const sender of done) sender.endBytes = null;
    busy = busy.filter(({ endBytes }) => endBytes !== null);
    return done.map((sender) => at(sender.queue, sender.next++));
  }

  function begin(): void {
    if (busy.length === 0) givenBytes = 0;
    else if (sharing === 'turns') return;
    const waiting = [...senders.values()].filter(
      ({ queue, next, endBytes }) => endBytes === null && next < queue.length,
    );
    const first = order
      ? waiting.find(({ from }) => from === order[begun])
      : waiting.toSorted((a, b) => head(a).neededAt - head(b).neededAt || a.from - b.from)[0];
    if (first === undefined) return;
    begun++;
    for (const sender of sharing === 'mixed' ? waiting : [first]) {
      sender.endBytes = givenBytes + head(sender).bytes;
      busy.push(sender);
    }
  }

  return {
    /** All messages of one instant are added before the line goes on. */
    add(from: number, message: Message): void {
      const sender = senders.get(from) ?? { from, queue: [], next: 0, endBytes: null };
      senders.set(from, sender);
      sender.queue.push(message);
    },
    /** Answers what is through by now, and begins with what waits: after each addition, and at `nextSeconds`. */
    goOn(now: number): Message[] {
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
