import { describe, expect, test } from 'vitest';
import { arrayOf, peerId } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import {
  creditContent,
  decodeEnvelope,
  type Envelope,
  encodeEnvelope,
  RELAY_WINDOW_BYTES,
} from '../../../swarm/messages/relay.ts';
import { Relay } from './relay.ts';

const BOB = peerId('bob');
const CAROL = peerId('carol');

function relayed() {
  const sent: Envelope[] = [];
  const frames: number[] = [];
  const clock = { nowMs: 0, connected: true };
  const relay = new Relay({
    sendBytes(message) {
      const decoded = decodeEnvelope(message);
      if (!decoded.ok) throw new Error(decoded.reason);
      if (clock.connected) sent.push(decoded.value);
      return clock.connected;
    },
    now: () => clock.nowMs,
    onFrame: (_from, message) => frames.push(message.byteLength),
    mayCome: () => true,
  });
  const credit = (to: typeof BOB, bytes: number): void =>
    relay.onBytes(encodeEnvelope('credit', to, creditContent(bytes)).buffer);
  return { relay, sent, frames, clock, credit };
}

const frame = (): ArrayBuffer => new ArrayBuffer(FRAME_BYTES);

describe('Relay', () => {
  test('[WP10] no more than the window is on its way to a donor; each donor has its own', () => {
    const { relay, sent, credit } = relayed();
    for (let i = 0; i < 10; i++) void relay.send(BOB, frame());
    expect(sent).toHaveLength(RELAY_WINDOW_BYTES / FRAME_BYTES);
    void relay.send(CAROL, frame());
    expect(sent.at(-1)?.peer).toBe(CAROL);
    credit(BOB, FRAME_BYTES);
    credit(BOB, FRAME_BYTES);
    expect(sent.filter(({ peer }) => peer === BOB)).toHaveLength(RELAY_WINDOW_BYTES / FRAME_BYTES + 2);
  });

  test('[WP10] a credit for more than is on its way opens no larger window', () => {
    const { relay, sent, credit } = relayed();
    credit(BOB, 4_000_000_000);
    for (let i = 0; i < 10; i++) void relay.send(BOB, frame());
    expect(sent).toHaveLength(RELAY_WINDOW_BYTES / FRAME_BYTES);
  });

  test('[WP10] closing rejects who waits and who comes later; a socket that is gone rejects the frame', async () => {
    const { relay, clock } = relayed();
    const sends = Promise.allSettled(arrayOf(6, () => relay.send(BOB, frame())));
    relay.close();
    expect((await sends).filter(({ status }) => status === 'rejected')).toHaveLength(2);
    await expect(relay.send(BOB, frame())).rejects.toThrow('closed');
    const other = relayed();
    clock.connected = false;
    other.clock.connected = false;
    await expect(other.relay.send(BOB, frame())).rejects.toThrow('no connection');
  });

  test('answers a ping, times its own, measures the rate by the credits', () => {
    const { relay, sent, clock, credit } = relayed();
    relay.ping(BOB);
    clock.nowMs = 30;
    const [ping] = sent;
    if (!ping) throw new Error('no ping was sent');
    relay.onBytes(encodeEnvelope('pong', BOB, ping.content).buffer);
    relay.onBytes(encodeEnvelope('ping', BOB, ping.content).buffer);
    expect(sent.at(-1)).toMatchObject({ kind: 'pong', peer: BOB });
    void relay.send(BOB, frame());
    void relay.send(BOB, frame());
    clock.nowMs = 30 + 30 + 50;
    credit(BOB, FRAME_BYTES);
    clock.nowMs = 30 + 30 + 100;
    credit(BOB, FRAME_BYTES);
    expect(relay.measured(BOB)).toEqual({ roundTripMs: 30, bytesPerSecond: FRAME_BYTES / 0.05 });
  });

  test('[WP9] counts what is no envelope, and does not let it through', () => {
    const { relay, frames } = relayed();
    relay.onBytes(new ArrayBuffer(3));
    relay.onBytes(encodeEnvelope('frame', BOB, new Uint8Array(40)).buffer);
    expect([relay.malformedMessages, frames]).toEqual([1, [40]]);
  });
});
