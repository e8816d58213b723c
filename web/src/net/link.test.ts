import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { SILENCE } from '../../../swarm/coordinator/deadlines.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import { fakeNetwork } from '../testing/fakeLink.ts';
import { quiet } from '../testing/fakeSwarm.ts';
import { LINK_CONTRACT } from '../testing/linkContract.ts';
import { PONG_LIMIT_MS } from './connection.ts';
import type { Link } from './link.ts';

// The same cases run on simple-peer in a browser: e2e/link.spec.ts.
describe('Link, in memory', () => {
  for (const { title, isOfTime, run } of LINK_CONTRACT) test.skipIf(isOfTime)(title, () => run(fakeNetwork().openLink));
});

test('[RE40] the server knows of a silent donor before its neighbours give up their links to it', () => {
  expect(PONG_LIMIT_MS).toBeGreaterThan(2 * (SILENCE.donorMs + 2 * SILENCE.lookMs));
});

/** Both ends of one link; `signals` are all that were carried, `isCarried` says which. */
async function pair(isCarried: (data: string) => boolean = () => true) {
  const { openLink, links: connections } = fakeNetwork();
  const signals: string[] = [];
  const lost: string[] = [];
  const received: number[] = [];
  const end = (name: string, initiator: boolean, other: () => Link): Link =>
    openLink({
      ...{ peer: peerId(name), initiator, iceServers: [] },
      events: {
        signal: (data) => {
          signals.push(data);
          if (isCarried(data)) queueMicrotask(() => other().signal(data));
        },
        opened: () => {},
        message: (message) => received.push(message.byteLength),
        stranded: () => {},
        closed: (reason) => lost.push(`${name}: ${reason}`),
      },
    });
  const a: Link = end('a', true, () => b);
  const b: Link = end('b', false, () => a);
  await quiet();
  return { a, b, connections, signals, lost, received };
}

describe('[WP51] several connections', () => {
  test('are begun by the initiator alone, when the first one is open, and never more than eight', async () => {
    const { a, b, signals, connections } = await pair();
    b.openStreams(3);
    await quiet();
    expect([a.streams, b.streams]).toEqual([1, 1]);
    a.openStreams(3);
    await quiet();
    expect([a.streams, b.streams]).toEqual([3, 3]);
    expect(signals).toEqual(['offer 0', 'answer 1', '1 offer 2', '2 offer 3', '1 answer 4', '2 answer 5']);
    a.openStreams(1); // it only grows
    a.openStreams(99);
    await quiet();
    expect([a.streams, b.streams, connections.length]).toEqual([8, 8, 16]);
  });

  test('asked for before the first one is open, they follow it', async () => {
    const { openLink } = fakeNetwork();
    const events = { signal: () => {}, opened: () => {}, message: () => {}, stranded: () => {}, closed: () => {} };
    const a: Link = openLink({
      ...{ peer: peerId('b'), initiator: true, iceServers: [] },
      events: { ...events, signal: (data) => queueMicrotask(() => b.signal(data)) },
    });
    const b: Link = openLink({
      ...{ peer: peerId('a'), initiator: false, iceServers: [] },
      events: { ...events, signal: (data) => queueMicrotask(() => a.signal(data)) },
    });
    a.openStreams(2);
    expect(a.streams).toBe(0);
    await quiet();
    expect([a.streams, b.streams]).toEqual([2, 2]);
  });

  test('a frame goes by the one that has least to send, a small message by the first', async () => {
    const { a, b, connections, received } = await pair();
    a.openStreams(3);
    await quiet();
    const own = connections.filter(({ peer }) => peer === a.peer);
    for (const [place, bufferedBytes] of [5e5, 3e5, 4e5].entries()) Object.assign(own[place] ?? {}, { bufferedBytes });
    await a.send(new ArrayBuffer(FRAME_BYTES));
    await a.send(new ArrayBuffer(40));
    await quiet();
    expect(own.map(({ sentMessages }) => sentMessages)).toEqual([1, 1, 0]);
    expect(received).toEqual([FRAME_BYTES, 40]);
    expect(b.state).toBe('open');
  });

  test.each([0, 1, 2])('loss of number %i, which was open, is loss of the link, once at each end', async (place) => {
    const { a, b, connections, lost } = await pair();
    a.openStreams(3);
    await quiet();
    connections.filter(({ peer }) => peer === a.peer)[place]?.break('it failed');
    await quiet();
    expect([a.state, b.state, a.streams, b.streams]).toEqual(['closed', 'closed', 0, 0]);
    expect(lost.toSorted()).toEqual(['a: it failed', 'b: the other end closed the connection']);
    expect(connections.every(({ state }) => state === 'closed')).toBe(true);
  });

  test('one that does not open is missing, and the link goes on without it', async () => {
    const { a, b, connections, lost } = await pair((data) => !data.startsWith('2 '));
    a.openStreams(3);
    await quiet();
    connections.find(({ state }) => state === 'connecting')?.break('it found no way');
    await quiet();
    expect([a.streams, b.streams, lost]).toEqual([2, 2, []]);
    await a.send(new ArrayBuffer(FRAME_BYTES));
  });

  test('signals for no place open nothing', async () => {
    const { b, connections } = await pair();
    for (const data of ['0 offer 0', '8 offer 0', '9 offer 0', '-1 offer 0', '1offer 0', ' offer 0', '1', '1 '])
      b.signal(data);
    expect(connections.length).toBeLessThanOrEqual(3); // `1 ` is a signal for the second one, and of nothing
    expect(b.streams).toBe(1);
  });
});
