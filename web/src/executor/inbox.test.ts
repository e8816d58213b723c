import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { encodeTensor, PAYLOAD_BYTES, probeFrames, type TensorKey } from '../../../swarm/messages/frame.ts';
import { Inbox } from './inbox.ts';

const [a, b] = [peerId('a'), peerId('b')];
const key: TensorKey = { kind: 'slice', epoch: 1, step: 4, stage: 0, index: 2, range: [0, 3] };
const { signal } = new AbortController();

function inbox(): { inbox: Inbox; send: (from: typeof a, values: number[], at?: TensorKey) => void } {
  const inbox = new Inbox();
  inbox.advance(1, 4);
  const send = (from: typeof a, values: number[], at = key) => {
    for (const message of encodeTensor(at, Float32Array.from(values))) inbox.accept(from, message);
  };
  return { inbox, send };
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

  test('[WP17] who announces more than may wait takes no room from anyone else', async () => {
    const { inbox: box, send } = inbox();
    // The first frame of a tensor of 256 MiB, of an epoch that never comes.
    const huge = { ...key, epoch: 0xffffffff, range: [0, 2 ** 26] } as const;
    for (let index = 0; index < 3; index++) send(b, Array(PAYLOAD_BYTES / 4).fill(0), { ...huge, index });
    expect(box.dropped.tooMuch).toBe(1);
    send(a, [1, 2, 3]);
    expect([...(await box.receive(key, a, signal))]).toEqual([1, 2, 3]);
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
