/** What waits unread for a donor: bounded small, and a snapshot never waits twice. */
import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';
import { type PeerMessage, PROTOCOL_VERSION, type ServerMessage } from '../../swarm/messages/messages.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE } from '../testing/scriptedDonor.ts';
import { type DonorHost, DonorSocket } from './donorSocket.ts';

const KIB = 1_024;

/** A connection whose other end reads when it is told to. */
class FakeSocket extends EventEmitter {
  readonly sent: Uint8Array[] = [];
  isOpen = true;
  bytesRead = 0;
  readonly #untaken: (() => void)[] = [];
  send(data: Uint8Array, _options: unknown, taken: () => void): void {
    this.sent.push(data);
    this.#untaken.push(taken);
  }
  read(): void {
    for (const taken of this.#untaken.splice(0)) taken();
  }
  readonly pings: string[] = [];
  ping(data: string): void {
    this.pings.push(data);
  }
  terminate(): void {
    this.isOpen = false;
  }
  close(): void {
    this.isOpen = false;
  }
  say(message: PeerMessage): void {
    this.bytesRead += 1;
    this.emit('message', Buffer.from(JSON.stringify(message)), false);
  }
}

let socket: FakeSocket;
let donor: DonorSocket;
let faults: boolean[];
/** Types of what came through. */
let heard: string[];
beforeEach(() => {
  socket = new FakeSocket();
  faults = [];
  heard = [];
  const host: DonorHost = {
    arrived: () => null,
    ended: () => {},
    admit: () => peerId('peer'),
    onMessage: (_peer, { type }) => {
      heard.push(type);
      return null;
    },
    relayed: () => null,
    broke: () => {},
    gone: (_peer, _detail, isAtFault) => void faults.push(isAtFault),
    strangerFailed: () => {},
    failed: (error) => expect.fail(String(error)),
    countRefusal: () => {},
  };
  const origin = { address: '192.0.2.1', isHere: false, bytesRead: () => socket.bytesRead };
  donor = new DonorSocket(socket as unknown as ConstructorParameters<typeof DonorSocket>[0], host, 0, origin); // as far as it is used
  socket.say({ type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER });
});

const ofLength = (bytes: number): ServerMessage => ({ type: 'abandon', epoch: 1, detail: 'x'.repeat(bytes) });

/** How much is sent in so many messages of 10 KiB until the connection ends. */
function bytesUntilEnd(): number {
  for (let number = 0; socket.isOpen && number < 1_000; number++) donor.send(ofLength(10 * KIB));
  expect(socket.isOpen).toBe(false);
  return socket.sent.reduce((sum, { length }) => sum + length, 0);
}

const measured = (): void => socket.say({ type: 'measured', profile: SCRIPTED_PROFILE });

describe('[SV3] a donor that does not read is let go, and pays for it', () => {
  test('a stranger with some tens of KiB', () => expect(bytesUntilEnd()).toBeLessThan(48 * KIB));
  test('an admitted one with some more', () => {
    measured();
    expect(bytesUntilEnd()).toBeLessThan(80 * KIB);
    expect(faults).toEqual([true]);
  });
  test('a member of a large plan beside two such plans', () => {
    measured();
    const plan = { stages: [], microBatches: [], schedule: 'gpipe', state: [], wire: 'f32' } as never; // whatever it is
    const prepare = { type: 'prepare', epoch: 1, generation: 0, step: 0, source: { from: 'kept' }, plan } as const;
    donor.send({ ...prepare, plan: { ...(plan as object), note: 'x'.repeat(500 * KIB) } as never });
    donor.send(prepare);
    expect(socket.isOpen).toBe(true);
    const most = 500 * KIB + 256 * KIB + 2 * 500 * KIB + 20 * KIB;
    expect(bytesUntilEnd()).toBeLessThan(most);
  });
  test('who reads may be sent any amount', () => {
    for (let number = 0; number < 1_000; number++) {
      donor.send(ofLength(30 * KIB));
      socket.read();
    }
    expect(socket.isOpen).toBe(true);
  });
  test('[WP42] signals of others alone never end it: past 128 KiB unread it gets none, and all else still', () => {
    measured();
    donor.send({ type: 'prepare', epoch: 1, generation: 0, step: 0, source: { from: 'kept' }, plan: {} } as never);
    const signal = { type: 'signal', epoch: 1, from: peerId('other'), data: { sdp: 'x'.repeat(15 * KIB) } } as const;
    for (let number = 0; number < 1_000; number++) donor.send(signal as never);
    expect(socket.isOpen).toBe(true);
    const sentBytes = socket.sent.reduce((sum, { length }) => sum + length, 0);
    expect(sentBytes).toBeGreaterThan(128 * KIB);
    expect(sentBytes).toBeLessThan(150 * KIB);
    donor.send(ofLength(1));
    socket.read();
    donor.send(signal as never);
    expect(socket.sent.slice(-2).map((text) => JSON.parse(String(text)).type)).toEqual(['abandon', 'signal']);
  });
  test('one that takes nothing for twenty seconds', () => {
    donor.send(ofLength(1));
    const nowMs = performance.now();
    donor.expire(nowMs + 19_000, 0);
    expect(socket.isOpen).toBe(true);
    donor.expire(nowMs + 21_000, 0);
    expect(socket.isOpen).toBe(false);
  });
});

describe('[RE40] silence', () => {
  /** Of looks, each as long after the one before, how many it outlives. */
  const looksOutlived = (passedMs: number, between: () => void = () => {}): number => {
    for (let looks = 0; looks < 1_000; looks++) {
      donor.expire(performance.now(), passedMs);
      if (!socket.isOpen) return looks;
      between();
    }
    return Number.POSITIVE_INFINITY;
  };
  const { lookMs, donorMs, strangerMs } = SILENCE;
  test('ends the connection of a donor, whom nobody blames', () => {
    measured();
    expect(looksOutlived(lookMs)).toBe(1 + donorMs / lookMs);
    expect(faults).toEqual([false]);
  });
  test('is for good: what comes on the connection afterwards reaches nobody', () => {
    measured();
    looksOutlived(lookMs);
    socket.say({ type: 'leave' });
    expect(heard).toEqual(['measured']);
  });
  test('of one that checks its GPU may last longer', () => expect(looksOutlived(lookMs)).toBe(1 + strangerMs / lookMs));
  test('is none where a byte of a message has come', () => {
    measured();
    expect(looksOutlived(lookMs, () => void socket.bytesRead++)).toBe(Number.POSITIVE_INFINITY);
  });
});

test('of snapshots that come before one is read it gets the newest alone, and no bytes are copied for it', () => {
  measured();
  const texts = Array.from({ length: 1_000 }, (_, number) => Buffer.from(`snapshot ${number}`));
  for (const text of texts) donor.sendNewest(text);
  expect(socket.sent).toEqual([texts[0]]);
  expect(socket.sent[0]).toBe(texts[0]);
  socket.read();
  expect(socket.sent).toEqual([texts[0], texts[999]]);
  socket.read();
  socket.read();
  expect(socket.sent).toHaveLength(2);
});

test('the way to a donor and back is the least that an answer to a question took', () => {
  const began = performance.now();
  let passedMs = 80;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => began + passedMs);
  const answer = (text: string) => void socket.emit('pong', Buffer.from(text));
  answer('7');
  answer('');
  expect(donor.roundTripMs).toBeNull();
  const [first = '', second = ''] = socket.pings;
  answer(second);
  const least = donor.roundTripMs;
  expect(least).toBeGreaterThanOrEqual(79);
  passedMs = 2_000;
  answer(first);
  expect(donor.roundTripMs).toBe(least);
  clock.mockRestore();
});

test('[SV39] pings count as messages: 200 at once, and 1,000 of whom a plan was sent to', () => {
  measured();
  const ping = (times: number): void => {
    for (let number = 0; number < times; number++) socket.emit('ping', Buffer.alloc(0));
  };
  ping(150);
  expect(socket.isOpen).toBe(true);
  donor.send({ type: 'prepare', epoch: 1, generation: 0, step: 0, source: { from: 'kept' }, plan: {} } as never);
  ping(950);
  expect(socket.isOpen).toBe(true);
  ping(100);
  expect(socket.isOpen).toBe(false);
  expect(String(socket.sent.at(-1))).toContain('tooManyMessages');
});
