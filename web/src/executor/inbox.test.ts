import { describe, expect, test } from 'vitest';
import { type PeerId, peerId } from '../../../swarm/base.ts';
import {
  encodeTensor,
  FRAME_BYTES,
  PAYLOAD_BYTES,
  probeFrames,
  type TensorKey,
} from '../../../swarm/messages/frame.ts';
import type { Incoming } from '../../../swarm/ways/partners.ts';
import type { Passage } from '../../../swarm/ways/passage.ts';
import { Inbox } from './inbox.ts';

const [a, b, me] = [peerId('a'), peerId('b'), peerId('me')];
const key: TensorKey = { kind: 'slice', epoch: 1, step: 4, stage: 0, index: 2, range: [0, 3] };
/** Of 64 MiB. */
const HUGE = { ...key, index: 9, range: [0, 2 ** 24] } as const;
const { signal } = new AbortController();

const passage = (from: PeerId, { epoch: _, step: __, ...tensor }: TensorKey): Passage => ({ from, to: me, tensor });
const heldOut: TensorKey = { ...key, kind: 'heldOut', index: 5 };
const state: TensorKey = { ...key, kind: 'state' };
/** Of a copy that is made beside the steps. */
const late: TensorKey = { ...state, stage: 3 };

const COMING: Incoming = {
  arrival: [passage(a, state)],
  step: [passage(a, key), passage(b, key), passage(a, HUGE)],
  late: [passage(b, late)],
  heldOut: [passage(a, heldOut)],
  earlyBytes: new Map([[a, 4 * FRAME_BYTES]]),
};

function inbox() {
  const floods: PeerId[] = [];
  const inbox = new Inbox((from) => floods.push(from));
  inbox.expect(1, 4, COMING, 2);
  inbox.advance(1, 4);
  const send = (from: typeof a, values: number[], at = key) => {
    for (const message of encodeTensor(at, Float32Array.from(values))) inbox.accept(from, message);
  };
  return { inbox, send, floods };
}

describe('Inbox', () => {
  test('lanes send tensors of the same key: each sender has its own', async () => {
    const { inbox: box, send } = inbox();
    send(b, [4, 5, 6]);
    const fromA = box.receive(key, a, signal);
    const fromB = box.receive(key, b, signal);
    send(a, [1, 2, 3]);
    expect([...(await fromA)]).toEqual([1, 2, 3]);
    expect([...(await fromB)]).toEqual([4, 5, 6]);
    expect(box.droppedFrames).toBe(0);
  });

  test('a wait that ended leaves nothing on its signal, which lives as long as the epoch', async () => {
    const { inbox: box, send } = inbox();
    const { signal: ofEpoch } = new AbortController();
    const listening = new Set<unknown>();
    const [add, remove] = [ofEpoch.addEventListener.bind(ofEpoch), ofEpoch.removeEventListener.bind(ofEpoch)];
    ofEpoch.addEventListener = (type: string, listener: EventListener) =>
      add(type, listener, void listening.add(listener));
    ofEpoch.removeEventListener = (type: string, listener: EventListener) =>
      remove(type, listener, void listening.delete(listener));
    const waits = [a, b].map((from) => box.receive(key, from, ofEpoch));
    expect(listening.size).toBe(2);
    send(a, [1, 2, 3]);
    send(b, [4, 5, 6]);
    await Promise.all(waits);
    expect(listening.size).toBe(0);
  });

  test('[WP48] frames that come early are bounded in number too, as in bytes', () => {
    const { inbox: box, floods } = inbox();
    const early = { ...key, epoch: 2, range: [0, 1] } as const;
    const [frame] = encodeTensor(early, new Float32Array(1));
    if (!frame) throw new Error('a tensor has a frame');
    for (let count = 0; count < 16_384; count++) box.accept(a, frame);
    expect(box.dropped.tooMuch).toBe(0);
    box.accept(a, frame);
    expect([box.dropped.tooMuch, floods]).toEqual([1, []]);
    // They are told of where it is prepared, and forgotten.
    expect(box.expect(2, 4, COMING, 2)).toBe(a);
  });

  test('[WP48] who gets ready for a first plan keeps what its partners hand over before it hears of the plan itself', async () => {
    const box = new Inbox(() => {});
    box.warm(new Map([[a, 12]]));
    for (const from of [a, b])
      for (const message of encodeTensor(state, Float32Array.of(1, 2, 3))) box.accept(from, message);
    expect(box.dropped.tooMuch).toBe(1);
    expect(box.expect(1, 4, COMING, 2)).toBeNull();
    box.advance(1, 4);
    expect([...(await box.receive(state, a, signal))]).toEqual([1, 2, 3]);
  });

  test('[WP18] a probe is nobody’s tensor: nothing is kept of it, and nothing is amiss', () => {
    const { inbox: box } = inbox();
    for (const frame of [...probeFrames(0), ...probeFrames(9)]) box.accept(a, frame);
    expect(box.droppedFrames).toBe(0);
    box.advance(9, 9);
    expect(box.droppedFrames).toBe(0);
  });

  test('what comes twice, too late or unasked is dropped and counted', async () => {
    const { inbox: box, send } = inbox();
    send(a, [1, 2, 3]);
    await box.receive(key, a, signal);
    send(a, [7, 8, 9]);
    send(a, [1, 2, 3], { ...key, step: 3 });
    send(b, [1, 2, 3]);
    box.advance(1, 5);
    expect(box.dropped).toMatchObject({ repeated: 1, old: 1, unasked: 1 });
  });

  test('[WP47] what the plan has nobody send here takes no room: other sizes, senders, kinds, rounds and steps', () => {
    const { inbox: box } = inbox();
    const others: [PeerId, TensorKey][] = [
      [a, { ...key, range: [0, 2 ** 26] }],
      [a, { ...key, range: [0, 4] }],
      [a, { ...key, encoding: 'f32', kind: 'values' }],
      [a, { ...key, stage: 1 }],
      [b, HUGE],
      [peerId('stranger'), key],
      [a, { ...key, step: 6 }],
      [a, { ...state, step: 5 }],
      [a, { ...heldOut, index: 2 * 65_536 + 5 }],
      [b, { ...heldOut, step: 4 }],
    ];
    const first = (of: TensorKey) => encodeTensor(of, new Float32Array(Math.min(of.range[1], PAYLOAD_BYTES / 4)))[0];
    for (const [from, other] of others) box.accept(from, first(other) ?? new ArrayBuffer(0));
    expect(box.dropped.unasked).toBe(others.length);
    box.advance(2, 0);
    expect(box.droppedFrames).toBe(others.length); // nothing of them was kept
  });

  test('[WP47] state and every round of an evaluation have room', async () => {
    const { inbox: box, send } = inbox();
    for (const at of [state, heldOut, { ...heldOut, index: 65_536 + 5 }]) {
      send(a, [1, 2, 3], at);
      expect([...(await box.receive(at, a, signal))]).toEqual([1, 2, 3]);
    }
    expect(box.droppedFrames).toBe(0);
  });

  test('[WP48] what comes ahead of its plan waits, as much as its sender can have to send', async () => {
    const { inbox: box, send, floods } = inbox();
    const next = { ...key, epoch: 2 };
    send(a, [1, 2, 3], next);
    send(b, [1, 2, 3], next); // who can have nothing
    expect(box.dropped.tooMuch).toBe(1);
    expect(box.expect(2, 4, COMING, 0)).toBeNull();
    box.advance(2, 4);
    expect([...(await box.receive(next, a, signal))]).toEqual([1, 2, 3]);
    expect(floods).toEqual([]);
  });

  test('[WP48] who sends more ahead than there is room for is named when that plan begins', () => {
    const { inbox: box } = inbox();
    const [frame = new ArrayBuffer(0)] = encodeTensor({ ...HUGE, epoch: 3 }, new Float32Array(PAYLOAD_BYTES / 4));
    for (let i = 0; i < 5; i++) box.accept(a, frame.slice(0));
    expect(box.dropped.tooMuch).toBe(1);
    expect(box.expect(2, 4, COMING, 0)).toBeNull();
    for (let i = 0; i < 5; i++) box.accept(a, frame.slice(0));
    expect(box.expect(3, 4, COMING, 0)).toBe(a);
  });

  test('[WP47] who sends and sends what nobody asked for is told of once', () => {
    const { inbox: box, floods } = inbox();
    const [frame = new ArrayBuffer(0)] = encodeTensor({ ...HUGE, stage: 7 }, new Float32Array(PAYLOAD_BYTES / 4));
    // 16 MiB, and twice its step's 64 MiB.
    const allowed = Math.floor((2 ** 24 + 2 * (2 ** 26 + 36)) / FRAME_BYTES);
    for (let i = 0; i < allowed; i++) box.accept(a, frame);
    expect(floods).toEqual([]);
    for (let i = 0; i < 100; i++) box.accept(a, frame);
    expect(floods).toEqual([a]);
  });

  test('what comes before its step waits', async () => {
    const { inbox: box, send } = inbox();
    const next = { ...key, step: 5 };
    send(a, [1, 2, 3], next);
    box.advance(1, 5);
    expect([...(await box.receive(next, a, signal))]).toEqual([1, 2, 3]);
  });

  test('a wait ends with its signal', async () => {
    const { inbox: box } = inbox();
    const abort = new AbortController();
    const waiting = box.receive(key, a, abort.signal);
    abort.abort(new Error('the step was abandoned'));
    await expect(waiting).rejects.toThrow('the step was abandoned');
  });
});
