import { describe, expect, test } from 'vitest';
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
const messages = (count: number): ArrayBuffer[] => Array.from({ length: count }, () => new ArrayBuffer(MESSAGE_BYTES));

describe('Flow', () => {
  test('[WP31] never has more than 1 MiB and a message on the channel, whatever is asked at once', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    const all = messages(400);
    const sends = all.map((message) => flow.send(message));
    while (channel.sent.length < all.length) channel.drain(100_000);
    await Promise.all(sends);
    expect(channel.peak).toBeLessThanOrEqual(1_048_576 + MESSAGE_BYTES);
    expect(channel.sent).toEqual(all);
  });

  test('[WP31] keeps the order in which sends were asked, also across the gate', async () => {
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

  test('[WP31] waits at the high mark and goes on at the low mark, not before', () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    for (const message of messages(20)) void flow.send(message);
    expect(channel.sent).toHaveLength(16);
    channel.drain(11 * MESSAGE_BYTES);
    expect(channel.sent).toHaveLength(16);
    channel.drain(MESSAGE_BYTES);
    expect(channel.sent).toHaveLength(20);
  });

  test('[WP31] closing rejects who waits and who comes later, and lets go of the channel', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    const outcomes = Promise.allSettled(messages(18).map((message) => flow.send(message)));
    flow.close('the link is gone');
    const states = (await outcomes).map(({ status }) => status);
    expect(states.filter((status) => status === 'rejected')).toHaveLength(2);
    await expect(flow.send(new ArrayBuffer(1))).rejects.toThrow('the link is gone');
    expect(channel.listeners.size).toBe(0);
  });

  test('[WP31] a channel that throws rejects that message only', async () => {
    const channel = new FakeChannel();
    const flow = new Flow(channel);
    channel.broken = true;
    await expect(flow.send(new ArrayBuffer(1))).rejects.toThrow('the channel is not open');
    channel.broken = false;
    await expect(flow.send(new ArrayBuffer(1))).resolves.toBeUndefined();
  });

  test('[WP31] refuses to queue without bound for a sender that does not await', async () => {
    const flow = new Flow(new FakeChannel());
    const asked = messages(1_100).map((message) => flow.send(message));
    for (const send of asked) send.catch(() => {});
    await expect(asked.at(-1)).rejects.toThrow('did not await');
    flow.close('done');
  });
});
