/** Two gateways of a site between which nothing is lost; the process that leads is this test. */
import { Buffer } from 'node:buffer';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { arrayOf, type PeerId, peerId, totalOf } from '../../swarm/base.ts';
import { FRAME_BYTES } from '../../swarm/messages/frame.ts';
import {
  creditBytes,
  decodeEnvelope,
  type Envelope,
  encodeEnvelope,
  RELAY_WINDOW_BYTES,
} from '../../swarm/messages/relay.ts';
import type { WentBeside } from '../donors/relaysBeside.ts';
import { GatewayRelay } from './gatewayRelay.ts';
import { Line } from './line.ts';
import { decodeOpening } from './opening.ts';
import { Pipe } from './pipe.ts';

const [ALICE, BOB, CAROL] = [peerId('alice'), peerId('bob'), peerId('carol')];
const MUCH = 64 * FRAME_BYTES;

const closing: GatewayRelay[] = [];
afterEach(() => {
  for (const relay of closing.splice(0)) relay.close();
  vi.useRealTimers();
});

/** A donor's WebSocket that takes what it is given when the test says so. */
class Donor {
  readonly got: Envelope[] = [];
  readonly went: WentBeside[] = [];
  readonly #taken: (() => void)[] = [];

  send(bytes: Uint8Array, taken: () => void): void {
    const decoded = decodeEnvelope(new Uint8Array(bytes));
    if (!decoded.ok) throw new Error(decoded.reason);
    this.got.push(decoded.value);
    this.#taken.push(taken);
  }

  tell(went: WentBeside): void {
    this.went.push(went);
  }

  take(): void {
    for (const taken of this.#taken.splice(0)) taken();
  }

  of(kind: Envelope['kind']): Envelope[] {
    return this.got.filter((envelope) => envelope.kind === kind);
  }
}

/** Two ends, each of which hears what the other says, later. */
function pipeBetween(onOver: () => void): [Pipe, Pipe] {
  const ends: Pipe[] = [];
  const end = (other: number): Pipe => {
    const say = (...pieces: readonly Uint8Array[]): void => {
      const bytes = Buffer.concat(pieces);
      queueMicrotask(() => ends[other]?.hear(bytes));
    };
    return new Pipe(say, onOver, () => 0, new Line());
  };
  const pair: [Pipe, Pipe] = [end(1), end(0)];
  ends.push(...pair);
  return pair;
}

function site() {
  const relays = new Map<string, GatewayRelay>();
  let pipes = 0;
  for (const process of ['one', 'two']) {
    const open = (to: string, opening: Uint8Array): Pipe => {
      const [here, there] = pipeBetween(() => {
        pipes -= 0.5;
      });
      pipes += 1;
      const what = decodeOpening(opening as Buffer);
      if (what?.what !== 'relay' || !relays.get(to)?.accepted(there, what.socket)) there.reset();
      return here;
    };
    const relay = new GatewayRelay({ process, open }, null);
    relays.set(process, relay);
    closing.push(relay);
  }
  const [one, two] = [...relays.values()];
  if (one === undefined || two === undefined) throw new Error('there are two');
  return { one, two, openPipes: () => pipes };
}

/** Alice is at gateway one, Bob at `where`, Carol at two; Alice may send both much. */
function three(where: 'one' | 'two') {
  const { one, two, openPipes } = site();
  const [alice, bob, carol] = [new Donor(), new Donor(), new Donor()];
  const bobs = where === 'one' ? one : two;
  one.came(1, alice);
  bobs.came(2, bob);
  two.came(3, carol);
  const may = (bytes: number, ...whom: PeerId[]): void => {
    const place = { [BOB]: { gateway: where, socket: 2 }, [CAROL]: { gateway: 'two', socket: 3 } };
    const ways = whom.flatMap((to) => ({ to, most: null, more: bytes, ...(place[to] ?? { gateway: '', socket: 0 }) }));
    one.toldWays(1, { peer: ALICE, ways });
  };
  may(MUCH, BOB, CAROL);
  bobs.toldSenders(2, { from: [ALICE] });
  two.toldSenders(3, { from: [ALICE] });
  const frame = (to: PeerId, bytes = FRAME_BYTES, kind: Envelope['kind'] = 'frame') =>
    one.accept(1, encodeEnvelope(kind, to, new Uint8Array(bytes).fill(7)));
  return { one, two, bobs, alice, bob, carol, may, frame, openPipes };
}

/** All that is on its way between the two has come. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await new Promise((resolve) => setImmediate(resolve));
}

describe.each(['one', 'two'] as const)('relayed from gateway one to gateway %s', (where) => {
  test('[WP9] [WP10] the sender is named, what the receiver’s socket has taken is credited, and who sends past its window is refused', async () => {
    const { alice, bob, frame } = three(where);
    const inWindow = RELAY_WINDOW_BYTES / FRAME_BYTES;
    for (let sent = 0; sent < inWindow; sent++) expect(frame(BOB)).toBe('passed');
    await vi.waitFor(() => expect(bob.of('frame')).toHaveLength(inWindow));
    expect(bob.got[0]).toEqual({ kind: 'frame', peer: ALICE, content: new Uint8Array(FRAME_BYTES).fill(7) });
    expect(alice.got).toEqual([]);
    bob.take();
    await vi.waitFor(() => expect(alice.of('credit')).toHaveLength(inWindow));
    expect(alice.of('credit').map(creditBytes)).toEqual(arrayOf(inWindow, () => FRAME_BYTES));
    for (let sent = 0; sent < inWindow; sent++) expect(frame(BOB)).toBe('passed');
    expect(frame(BOB)).toBe('tooManyMessages');
  });

  test('the process that leads hears at once that something went by, and of all of it', async () => {
    const { alice, bob, frame } = three(where);
    for (const bytes of [10, 20, 30]) frame(BOB, bytes);
    await vi.waitFor(() => expect(bob.of('frame')).toHaveLength(3));
    expect(alice.went[0]).toEqual({ sent: [{ to: BOB, frames: 1, bytes: 10 }], came: false });
    expect(bob.went[0]).toEqual({ sent: [], came: true });
    const told = () => alice.went.flatMap(({ sent }) => sent);
    await vi.waitFor(() => expect(totalOf(told(), ({ bytes }) => bytes)).toBe(60), { timeout: 20_000 });
    expect(totalOf(told(), ({ frames }) => frames)).toBe(3);
  });

  test('[WP10] a receiver that does not read holds up what is for it alone', async () => {
    const { alice, bob, carol, frame } = three(where);
    for (let sent = 0; sent < 4; sent++) frame(BOB);
    await vi.waitFor(() => expect(bob.of('frame')).toHaveLength(4));
    for (let sent = 1; sent <= 20; sent++) {
      expect(frame(CAROL)).toBe('passed');
      await vi.waitFor(() => expect(carol.of('frame')).toHaveLength(sent));
      carol.take();
      await vi.waitFor(() => expect(alice.of('credit')).toHaveLength(sent));
    }
  });

  test('[WP22] [WP41] [WP43] nobody is reached of whom nothing was said, nor by more than was said', async () => {
    const { one, bobs, bob, may, frame } = three(where);
    expect(frame(peerId('nobody'), 10)).toBeNull();
    expect(bobs.accept(2, encodeEnvelope('frame', ALICE, new Uint8Array(10)))).toBeNull(); // Bob was told of none
    one.came(9, new Donor());
    expect(one.accept(9, encodeEnvelope('frame', BOB, new Uint8Array(10)))).toBeNull(); // a stranger
    may(0, BOB, CAROL);
    one.toldWays(1, { peer: ALICE, ways: [{ to: BOB, gateway: where, socket: 2, most: 30, more: 0 }] });
    expect([frame(BOB, 20), frame(BOB, 20), frame(BOB, 10), frame(BOB, 1)]).toEqual(['passed', null, 'passed', null]);
    may(MUCH);
    expect(frame(BOB, 1)).toBeNull();
    await vi.waitFor(() => expect(bob.of('frame')).toHaveLength(2));
  });

  test('what comes before the word by which it is awaited waits for that, and is credited where it never comes', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const { bobs, alice, bob, frame } = three(where);
    bobs.toldSenders(2, { from: [] });
    frame(BOB, 10);
    await settled();
    expect([bob.got, alice.got]).toEqual([[], []]);
    bobs.toldSenders(2, { from: [ALICE] });
    expect(bob.of('frame')).toHaveLength(1);
    bobs.toldSenders(2, { from: [] });
    frame(BOB, 10);
    await settled();
    vi.advanceTimersByTime(12_000);
    await vi.waitFor(() => expect(alice.of('credit')).toHaveLength(1));
    expect(bob.of('frame')).toHaveLength(1);
  });

  test('who says hello anew sends by no word of before; who is gone gets nothing, and gives windows back', async () => {
    const { one, bobs, alice, bob, may, frame, openPipes } = three(where);
    frame(BOB, 10);
    await vi.waitFor(() => expect(bob.of('frame')).toHaveLength(1));
    bobs.gone(2);
    frame(BOB, 20);
    await settled();
    bob.take();
    await vi.waitFor(() => expect(alice.of('credit').length).toBeGreaterThan(0));
    expect(bob.of('frame')).toHaveLength(1);
    one.restart(1);
    expect(frame(BOB, 10)).toBeNull();
    may(MUCH, CAROL);
    expect(frame(CAROL, 10)).toBe('passed');
    one.gone(1);
    await settled();
    expect(openPipes()).toBe(0);
  });
});
