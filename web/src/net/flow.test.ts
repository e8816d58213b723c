import { describe, expect, test } from 'vitest';
import { arrayOf, at } from '../../../swarm/base.ts';
import { encodeTensor, FRAME_KINDS, type FrameKind, PAYLOAD_BYTES } from '../../../swarm/messages/frame.ts';
import { Flow, type FlowChannel } from './flow.ts';

/** Holds what it is given until the test drains it. */
class FakeChannel implements FlowChannel {
  bufferedAmountLowThreshold = 0;
  bufferedAmount = 0;
  peak = 0;
  broken = false;
  readonly sent: ArrayBuffer[] = [];
  readonly listeners = new Set<() => void>();

  send(message: ArrayBuffer): void {
    if (this.broken) throw new Error('the channel is not open');
    this.sent.push(message);
    this.bufferedAmount += message.byteLength;
    this.peak = Math.max(this.peak, this.bufferedAmount);
  }

  addEventListener(_type: 'bufferedamountlow', listener: () => void): void {
    this.listeners.add(listener);
  }

  removeEventListener(_type: 'bufferedamountlow', listener: () => void): void {
    this.listeners.delete(listener);
  }

  drain(bytes: number): void {
    const before = this.bufferedAmount;
    this.bufferedAmount = Math.max(0, before - bytes);
    const fell = before > this.bufferedAmountLowThreshold && this.bufferedAmount <= this.bufferedAmountLowThreshold;
    if (fell) for (const listener of this.listeners) listener();
  }
}

const MESSAGE_BYTES = 65_536;
const frame = (kind: FrameKind): ArrayBuffer => {
  const range = [0, PAYLOAD_BYTES / 4] as const;
  return at(encodeTensor({ kind, epoch: 0, step: 0, stage: 0, index: 0, range }, new Float32Array(range[1])), 0);
};
const kindOf = (message: ArrayBuffer): FrameKind => at(FRAME_KINDS, at(new Uint8Array(message), 1) & 15);
const messages = (count: number): ArrayBuffer[] => arrayOf(count, () => new ArrayBuffer(MESSAGE_BYTES));

describe('Flow', () => {
  test('never has more than 1 MiB and a message on the channel, whatever is asked at once', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    const all = messages(400);
    const sends = all.map((message) => flow.send(message));
    while (channel.sent.length < all.length) channel.drain(100_000);
    await Promise.all(sends);
    expect(channel.peak).toBeLessThanOrEqual(1_048_576 + MESSAGE_BYTES);
    expect(channel.sent).toEqual(all);
  });

  test('keeps the order in which sends were asked, also across the gate', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    const all = messages(60);
    const order: number[] = [];
    const sends = all.map((message, i) => flow.send(message).then(() => order.push(i)));
    while (channel.sent.length < all.length) channel.drain(channel.bufferedAmount);
    await Promise.all(sends);
    expect(channel.sent.map((message) => all.indexOf(message))).toEqual(all.map((_, i) => i));
    expect(order).toEqual(all.map((_, i) => i));
  });

  test('waits at the high mark and goes on at the low mark, not before', () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    for (const message of messages(20)) void flow.send(message);
    expect(channel.sent).toHaveLength(16);
    channel.drain(13 * MESSAGE_BYTES);
    expect(channel.sent).toHaveLength(16);
    channel.drain(MESSAGE_BYTES);
    expect(channel.sent).toHaveLength(20);
  });

  test('closing rejects who waits and who comes later, and lets go of the channel', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    const outcomes = Promise.allSettled(messages(18).map((message) => flow.send(message)));
    flow.close('the link is gone');
    const states = (await outcomes).map(({ status }) => status);
    expect(states.filter((status) => status === 'rejected')).toHaveLength(2);
    await expect(flow.send(new ArrayBuffer(1))).rejects.toThrow('the link is gone');
    expect(channel.listeners.size).toBe(0);
  });

  test('a channel that throws rejects that message only', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    channel.broken = true;
    await expect(flow.send(new ArrayBuffer(1))).rejects.toThrow('the channel is not open');
    channel.broken = false;
    await expect(flow.send(new ArrayBuffer(1))).resolves.toBeUndefined();
  });

  test('refuses to queue without bound for a sender that does not await', async () => {
    const flow = new Flow(new FakeChannel());
    const asked = messages(1_100).map((message) => flow.send(message));
    for (const send of asked) send.catch(() => {});
    await expect(asked.at(-1)).rejects.toThrow('did not await');
    flow.close('done');
  });

  test('of what waits the stream goes first, then gradients and values, then state, then probes', () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    for (let index = 0; index < 16; index++) void flow.send(frame('activation'));
    for (const kind of ['probe', 'state', 'values', 'gradient', 'slice', 'activation'] as const)
      void flow.send(frame(kind));
    while (channel.sent.length < 22) channel.drain(MESSAGE_BYTES);
    expect(channel.sent.slice(16).map(kindOf)).toEqual(['gradient', 'activation', 'values', 'slice', 'state', 'probe']);
  });

  test('of anything but the stream the channel takes a quarter, so that the stream overtakes the rest', () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    for (let index = 0; index < 8; index++) void flow.send(frame('state'));
    expect(channel.sent).toHaveLength(4);
    void flow.send(frame('activation'));
    expect(channel.sent.map(kindOf)).toEqual([...Array(4).fill('state'), 'activation']);
  });

  test('while state waits it has a tenth of what goes out', () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    for (let index = 0; index < 16; index++) void flow.send(frame('activation'));
    for (let index = 0; index < 100; index++) {
      void flow.send(frame('gradient'));
      if (index < 50) void flow.send(frame('state'));
    }
    while (channel.sent.length < 116) channel.drain(MESSAGE_BYTES);
    const kinds = channel.sent.slice(16, 116).map(kindOf);
    expect(kinds.filter((kind) => kind === 'state')).toHaveLength(10);
    expect(kinds.indexOf('state')).toBe(9);
  });
});
