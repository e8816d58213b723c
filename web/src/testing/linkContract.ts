/**
 * What every `Link` must do, whatever carries it: run on an in-memory pair by the unit tests, on real data channels in
 * a browser by the end-to-end tests. Needs no test library, so that it can be sent to a page.
 */
import { arrayOf, invariant, peerId } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import { type ConnectionEvents, PONG_LIMIT_MS } from '../net/connection.ts';
import type { Link, OpenLink } from '../net/link.ts';

/** One end, and what happened to it. */
interface End {
  readonly link: Link;
  readonly received: ArrayBuffer[];
  readonly closedBecause: string[];
  readonly opened: Promise<void>;
  /** Resolves at the next event of this end. */
  next(): Promise<void>;
}

function openEnd(openLink: OpenLink, initiator: boolean, carry: (data: string) => void): End {
  const received: ArrayBuffer[] = [];
  const closedBecause: string[] = [];
  let wake: () => void = () => {};
  let markOpened: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    markOpened = resolve;
  });
  const events: ConnectionEvents = {
    signal: carry,
    opened: () => {
      markOpened();
      wake();
    },
    message: (message) => {
      received.push(message);
      wake();
    },
    stranded: () => {},
    closed: (reason) => {
      closedBecause.push(reason);
      wake();
    },
  };
  const link = openLink({ peer: peerId(initiator ? 'b' : 'a'), initiator, iceServers: [], events });
  const next = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  return { link, received, closedBecause, opened, next };
}

interface Pair {
  readonly a: End;
  readonly b: End;
}

function openPair(openLink: OpenLink): Pair {
  // Signals travel asynchronously, as they do over a server.
  const a: End = openEnd(openLink, true, (data) => queueMicrotask(() => b.link.signal(data)));
  const b: End = openEnd(openLink, false, (data) => queueMicrotask(() => a.link.signal(data)));
  return { a, b };
}

async function connectedPair(openLink: OpenLink): Promise<Pair> {
  const pair = openPair(openLink);
  await Promise.all([pair.a.opened, pair.b.opened]);
  return pair;
}

/** A ping may be dropped while its channel is still opening: ask again, one round of messages later. */
async function knowRoundTrip(a: End, b: End): Promise<void> {
  while (a.link.roundTripMs === null) {
    a.link.ping(performance.now());
    await Promise.all([a.next(), b.link.send(message(1, 0))]);
  }
}

async function until(end: End, condition: () => boolean): Promise<void> {
  while (!condition()) await end.next();
}

/** All of one kind, by the second byte: others may overtake one another. */
function message(bytes: number, seed: number): ArrayBuffer {
  return Uint8Array.from({ length: bytes }, (_, i) => (i === 1 ? 0 : (i * 31 + seed) & 255)).buffer;
}

function assertSame(actual: readonly ArrayBuffer[], expected: readonly ArrayBuffer[]): void {
  invariant(actual.length === expected.length, `${actual.length} messages arrived, ${expected.length} were sent`);
  for (const [i, buffer] of expected.entries()) {
    const other = new Uint8Array(actual[i] ?? new ArrayBuffer(0));
    const sent = new Uint8Array(buffer);
    const same = other.length === sent.length && other.every((byte, at) => byte === sent[at]);
    invariant(same, `message ${i} arrived changed`);
  }
}

const is = ({ link }: End, state: Link['state']): boolean => link.state === state;

async function rejects(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => false,
    () => true,
  );
}

interface LinkCase {
  readonly title: string;
  /** In memory nothing takes time. */
  readonly isOfTime?: true;
  run(openLink: OpenLink): Promise<void>;
}

export const LINK_CONTRACT: readonly LinkCase[] = [
  {
    title: '[WP15] both ends open, and say so',
    async run(openLink) {
      const { a, b } = openPair(openLink);
      invariant(is(a, 'connecting') && is(b, 'connecting'), 'a new link is connecting');
      await Promise.all([a.opened, b.opened]);
      invariant(is(a, 'open') && is(b, 'open'), 'both are open');
      a.link.close();
      b.link.close();
    },
  },
  {
    title: '[WP15] messages arrive whole, unchanged and once, those of one size in order, both ways at once',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      const sizes = [1, 31, 32, 4_096, FRAME_BYTES - 1, FRAME_BYTES, ...arrayOf(60, () => FRAME_BYTES)];
      const there = sizes.map((bytes, i) => message(bytes, i));
      const back = sizes.map((bytes, i) => message(bytes, 2 * i + 1));
      await Promise.all([
        ...there.map((each) => a.link.send(each.slice(0))),
        ...back.map((each) => b.link.send(each.slice(0))),
      ]);
      await until(b, () => b.received.length === there.length);
      await until(a, () => a.received.length === back.length);
      // Small ones may overtake large ones.
      const bySize = (messages: readonly ArrayBuffer[]) => messages.toSorted((x, y) => x.byteLength - y.byteLength);
      assertSame(bySize(b.received), bySize(there));
      assertSame(bySize(a.received), bySize(back));
      a.link.close();
      b.link.close();
    },
  },
  {
    title: '[WP15] refuses to send before it is open and after it is closed',
    async run(openLink) {
      const { a, b } = openPair(openLink);
      invariant(await rejects(a.link.send(message(8, 0))), 'sent before it was open');
      await Promise.all([a.opened, b.opened]);
      a.link.close();
      invariant(is(a, 'closed'), 'closed at once');
      invariant(await rejects(a.link.send(message(8, 0))), 'sent after it was closed');
      b.link.close();
    },
  },
  {
    title: '[WP15] closing one end closes the other once, and tells only the other',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      a.link.close();
      await until(b, () => b.closedBecause.length > 0);
      b.link.close();
      invariant(is(b, 'closed') && b.closedBecause.length === 1, 'the other end closed once');
      invariant(a.closedBecause.length === 0, 'one was not told of its own decision');
    },
  },
  {
    title: '[WP5] answers a ping',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      await knowRoundTrip(a, b);
      invariant((a.link.roundTripMs ?? -1) >= 0, 'a round trip takes time');
      a.link.close();
      b.link.close();
    },
  },
  {
    title: '[WP51] by several connections messages arrive whole, unchanged and once; closing closes them all',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      a.link.openStreams(3);
      await Promise.all([until(a, () => a.link.streams === 3), until(b, () => b.link.streams === 3)]);
      const there = arrayOf(200, (i) => message(FRAME_BYTES, i));
      const back = arrayOf(200, (i) => message(FRAME_BYTES - i, i));
      await Promise.all([
        ...there.map((each) => a.link.send(each.slice(0))),
        ...back.map((each) => b.link.send(each.slice(0))),
      ]);
      await Promise.all([
        until(b, () => b.received.length === there.length),
        until(a, () => a.received.length === back.length),
      ]);
      // They may overtake one another: their first bytes tell them apart.
      const firstByte = (bytes: ArrayBuffer): number => new Uint8Array(bytes)[0] ?? -1;
      const inOrder = (messages: readonly ArrayBuffer[]) => messages.toSorted((x, y) => firstByte(x) - firstByte(y));
      assertSame(inOrder(b.received), there);
      assertSame(inOrder(a.received), back);
      a.link.close();
      await until(b, () => b.closedBecause.length > 0);
      invariant(is(b, 'closed') && b.closedBecause.length === 1, 'the other end closed once');
      invariant(a.link.streams === 0 && b.link.streams === 0, 'a connection is left');
    },
  },
  {
    title: '[WP18] measures itself with messages that arrive like any others',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      const sent = [message(FRAME_BYTES, 1), message(FRAME_BYTES, 2)];
      const measured = await a.link.measure(sent.map((each) => each.slice(0)));
      invariant(measured?.roundTripMs !== null && (measured?.roundTripMs ?? -1) >= 0, 'a round trip takes time');
      invariant(measured?.bytesPerSecond !== 0, 'a link has a rate, or one that is not known');
      await until(b, () => b.received.length === sent.length);
      assertSame(b.received, sent);
      a.link.close();
      b.link.close();
    },
  },
  {
    title: '[WP18] knows its rate by what it sent',
    isOfTime: true,
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      await knowRoundTrip(a, b);
      for (let burst = 0; burst < 50 && a.link.bytesPerSecond === null; burst++) {
        await Promise.all(arrayOf(40, (i) => a.link.send(message(FRAME_BYTES, i))));
        await Promise.all([a.next(), b.link.send(message(1, 0))]);
      }
      invariant((a.link.bytesPerSecond ?? 0) > 0, 'what was sent and arrived has a rate');
      a.link.close();
      b.link.close();
    },
  },
  {
    title: '[WP5] closes where a ping has had no answer for 15 s',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      a.link.ping(1_000);
      a.link.ping(1_000 + PONG_LIMIT_MS - 1);
      invariant(is(a, 'open'), 'not before 15 s');
      a.link.ping(1_000 + PONG_LIMIT_MS);
      invariant(is(a, 'closed') && a.closedBecause.length === 1, 'closed after 15 s');
      b.link.close();
    },
  },
  {
    title: 'carries the smallest and the largest of a burst, more than the gate lets through at once',
    async run(openLink) {
      const { a, b } = await connectedPair(openLink);
      const sizes = arrayOf(120, (i) => (i % 3 === 0 ? 40 : FRAME_BYTES));
      await Promise.all(sizes.map((bytes, i) => a.link.send(message(bytes, i))));
      await until(b, () => b.received.length === sizes.length);
      invariant(b.received.filter(({ byteLength }) => byteLength === 40).length === 40, 'a small one is missing');
      a.link.close();
      b.link.close();
    },
  },
  {
    title: '[WP3] takes no harm from what is no signal',
    async run(openLink) {
      const { a, b } = openPair(openLink);
      for (const data of ['', '{', 'null', '[]', '{"type":"renegotiate","renegotiate":true}', '{"candidate":{}}']) {
        invariant(!a.link.signal(data) && !b.link.signal(data), `accepted ${data}`);
      }
      await Promise.all([a.opened, b.opened]);
      a.link.close();
      b.link.close();
    },
  },
];
