import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../../swarm/base.ts';
import { DEADLINES, SILENCE } from '../../../swarm/coordinator/deadlines.ts';
import { NO_LIMITS } from '../../../swarm/limits.ts';
import { type PeerMessage, PROTOCOL_VERSION, type ServerMessage } from '../../../swarm/messages/messages.ts';
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import { KEPT_MS, Signaling, type SignalingState } from './signaling.ts';
import {
  AWAITED_RETRY_MOST_MS,
  type DonorWebSocket,
  OPEN_LIMIT_MS,
  PROVEN_MS,
  RETRY_FIRST_MS,
  RETRY_MOST_MS,
  retryMs,
} from './socket.ts';

const ADAPTER: AdapterProfile = { vendor: 'v', architecture: 'a', description: 'd', software: false, browser: 'b' };
const WELCOME = {
  type: 'welcome',
  protocol: PROTOCOL_VERSION,
  peer: 'p1',
  token: 't',
  resumeKey: 'k',
  heard: null,
  run: {
    name: 'r',
    model: {},
    train: {
      steps: 5,
      globalBatchSize: 2,
      sequenceLength: 4,
      optimizer: { type: 'adamw', learningRate: 0.001, betas: [0.9, 0.95], epsilon: 1e-8 },
    },
    data: { tokens: 1, shardTokens: 1, bytesPerToken: 2, shards: [] },
    order: { type: 'sequential' },
    wire: 'f32',
    evaluation: null,
  },
  iceServers: [],
  generation: 0,
  epoch: 0,
  committedSteps: 0,
  lastCommit: null,
  memory: { draftedBytes: 0, known: null },
};

const MEASURED: PeerMessage = {
  type: 'measured',
  profile: {
    layers: [{ samples: 1, forwardSeconds: 1, backwardSeconds: 2 }],
    memoryBytes: 1,
    memoryTriedBytes: 1,
    checkedKernels: 0,
  },
};

/** Node 20 has no CloseEvent; nothing of it is read. */
const CLOSE = new Event('close') as CloseEvent;

class FakeSocket implements DonorWebSocket {
  onopen: DonorWebSocket['onopen'] = null;
  onmessage: DonorWebSocket['onmessage'] = null;
  onclose: DonorWebSocket['onclose'] = null;
  readonly sent: unknown[] = [];
  closed = false;
  binaryType: BinaryType = 'blob';
  send(data: string | Uint8Array): void {
    this.sent.push(typeof data === 'string' ? JSON.parse(data) : [...data]);
  }
  close(): void {
    this.closed = true;
  }
  sayBytes(...bytes: number[]): void {
    this.onmessage?.(new MessageEvent('message', { data: new Uint8Array(bytes).buffer }));
  }
  say(message: unknown): void {
    this.onmessage?.(
      new MessageEvent('message', { data: typeof message === 'string' ? message : JSON.stringify(message) }),
    );
  }
}

/** A conversation on fake sockets; `sleep` lets time pass for it and wakes who waited long enough. */
function conversation(invite: string | null = null) {
  const sockets: FakeSocket[] = [];
  const states: SignalingState[] = [];
  const messages: ServerMessage[] = [];
  const bytes: number[][] = [];
  const alarms: { atMs: number; ring: () => void }[] = [];
  let nowMs = 0;
  const sleep = async (milliseconds: number): Promise<void> => {
    nowMs += milliseconds;
    for (const alarm of alarms.splice(0)) {
      if (alarm.atMs <= nowMs) alarm.ring();
      else alarms.push(alarm);
    }
    await Promise.resolve();
  };
  const signaling = new Signaling({
    adapter: ADAPTER,
    entry: { invite, own: null },
    key: null,
    limits: () => NO_LIMITS,
    open: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket;
    },
    wait: (milliseconds) => new Promise((ring) => alarms.push({ atMs: nowMs + milliseconds, ring })),
    random: seededRandom(1),
    now: () => nowMs,
    onState: (state) => states.push(state),
    onMessage: (message) => messages.push(message),
    onBytes: (message) => bytes.push([...new Uint8Array(message)]),
  });
  const last = (): FakeSocket => {
    const socket = sockets.at(-1);
    if (!socket) throw new Error('no socket was opened');
    return socket;
  };
  const join = (): void => {
    last().onopen?.(new Event('open'));
    last().say(WELCOME);
  };
  return { signaling, sockets, states, messages, bytes, sleep, last, join };
}

describe('Signaling', () => {
  test('[WP1] says hello first, with the protocol, the adapter and the invitation', () => {
    const { last } = conversation('secret');
    last().onopen?.(new Event('open'));
    expect(last().sent).toEqual([
      { type: 'hello', protocol: PROTOCOL_VERSION, adapter: ADAPTER, limits: NO_LIMITS, invite: 'secret' },
    ]);
  });

  test('[WP1] is open at welcome; sends nothing before it', () => {
    const { signaling, states, messages, last, join } = conversation();
    expect(signaling.send({ type: 'heartbeat' })).toBe(false);
    join();
    expect(states.map(({ kind }) => kind)).toEqual(['connecting', 'open']);
    expect(messages.map(({ type }) => type)).toEqual(['welcome']);
    expect(signaling.send(MEASURED)).toBe(true);
    expect(last().sent.slice(1)).toEqual([MEASURED]);
  });

  test('[WP3] counts and drops what it does not understand, and what comes before welcome', () => {
    const { signaling, messages, last, join } = conversation();
    last().onopen?.(new Event('open'));
    last().say({ type: 'start', epoch: 0, step: 0 });
    join();
    for (const message of ['{', { type: 'unheard' }, { type: 'start', epoch: -1, step: 0 }]) last().say(message);
    last().onmessage?.(new MessageEvent('message', { data: new Blob() }));
    expect(signaling.malformedMessages).toBe(4);
    expect(messages).toHaveLength(1);
  });

  test('[NA2] is asked to say hello again: the same connection, its name and key, and nothing is sent before the welcome', () => {
    const { signaling, sockets, states, messages, last, join } = conversation();
    join();
    last().say({ type: 'helloAgain' });
    expect(signaling.send({ type: 'pause' })).toBe(false);
    expect(signaling.sendBytes(new Uint8Array([1]))).toBe(false);
    expect(states.at(-1)).toEqual({ kind: 'closed', pauseMs: 0, isKept: true });
    expect(last().sent.slice(1)).toEqual([
      expect.objectContaining({ type: 'hello', resume: { peer: 'p1', key: 'k', heard: 0 } }),
    ]);
    last().say(WELCOME);
    expect(signaling.send({ type: 'heartbeat' })).toBe(true);
    expect(messages.map(({ type }) => type)).toEqual(['welcome', 'welcome']);
    expect(sockets).toHaveLength(1);
    expect(last().closed).toBe(false);
  });

  test('[WP1] carries bytes both ways, after welcome only, and its own once it has measured', () => {
    const { signaling, bytes, last, join } = conversation();
    last().onopen?.(new Event('open'));
    last().sayBytes(1, 2);
    expect(signaling.sendBytes(new Uint8Array([3]))).toBe(false);
    join();
    last().sayBytes(4, 5);
    expect(signaling.sendBytes(new Uint8Array([3]))).toBe(false);
    signaling.send(MEASURED);
    expect(signaling.sendBytes(new Uint8Array([6, 7]))).toBe(true);
    expect(bytes).toEqual([[4, 5]]);
    expect(last().sent.at(-1)).toEqual([6, 7]);
    expect(last().binaryType).toBe('arraybuffer');
    expect(signaling.malformedMessages).toBe(1);
  });

  test('[WP2] a greeting that is not understood is one of another version', () => {
    const { states, last } = conversation();
    last().onopen?.(new Event('open'));
    last().say({ type: 'welcome', protocol: 99 });
    expect(states.at(-1)).toMatchObject({ kind: 'refused', reason: 'wrongProtocol' });
  });

  test('after a refusal there is no further connection, also where the server says when to ask again', async () => {
    const { states, sockets, last, sleep } = conversation();
    last().onopen?.(new Event('open'));
    last().say({ type: 'refused', reason: 'serverFull', detail: 'full', retrySeconds: 30 });
    last().onclose?.(CLOSE);
    await sleep(60_000);
    expect(states.at(-1)).toEqual({ kind: 'refused', reason: 'serverFull', detail: 'full', retrySeconds: 30 });
    expect(last().closed).toBe(true);
    expect(sockets).toHaveLength(1);
  });

  test('comes back for ever, with growing jittered pauses from 0.5 s to 15 s', async () => {
    const { sockets, states, last, sleep } = conversation();
    for (let i = 0; i < 12; i++) {
      last().onclose?.(CLOSE);
      const state = states.at(-1);
      if (state?.kind !== 'closed') throw new Error('expected a pause');
      const most = Math.min(RETRY_MOST_MS, RETRY_FIRST_MS * 2 ** i);
      expect(state.pauseMs).toBeGreaterThanOrEqual(most / 2);
      expect(state.pauseMs).toBeLessThanOrEqual(most);
      await sleep(state.pauseMs - 1);
      expect(sockets).toHaveLength(i + 1);
      await sleep(1);
      expect(sockets).toHaveLength(i + 2);
    }
  });

  test('begins with the short pause again after a connection that lived', async () => {
    const { states, last, join, sleep } = conversation();
    for (let i = 0; i < 5; i++) {
      last().onclose?.(CLOSE);
      await sleep(RETRY_MOST_MS);
    }
    join();
    await sleep(PROVEN_MS);
    last().onclose?.(CLOSE);
    const state = states.at(-1);
    expect(state?.kind === 'closed' && state.pauseMs).toBeLessThanOrEqual(RETRY_FIRST_MS);
  });

  test('ends its connection when the tab is about to stand still, and comes back when it wakes', async () => {
    const { signaling, sockets, states, sleep, last, join } = conversation();
    join();
    signaling.drop();
    expect(last().closed).toBe(true);
    last().onclose?.(CLOSE); // which a frozen tab hears when it wakes
    await sleep(RETRY_MOST_MS);
    join();
    expect(sockets).toHaveLength(2);
    expect(states.map(({ kind }) => kind)).toEqual(['connecting', 'open', 'closed', 'open']);
  });

  test('greets again on the next connection', async () => {
    const { signaling, messages, last, join, sleep } = conversation();
    join();
    last().onclose?.(CLOSE);
    expect(signaling.send({ type: 'heartbeat' })).toBe(false);
    await sleep(RETRY_MOST_MS);
    join();
    expect(messages.map(({ type }) => type)).toEqual(['welcome', 'welcome']);
  });

  test('[RE38] says on the next connection who it was, for ten minutes', async () => {
    const { states, last, join, sleep } = conversation();
    join();
    last().onclose?.(CLOSE);
    await sleep(AWAITED_RETRY_MOST_MS);
    last().onopen?.(new Event('open'));
    expect(last().sent[0]).toMatchObject({ type: 'hello', resume: { peer: 'p1', key: 'k', heard: 0 } });
    const pauses: number[] = [];
    for (let waitedMs = AWAITED_RETRY_MOST_MS; waitedMs < KEPT_MS; waitedMs += AWAITED_RETRY_MOST_MS) {
      last().onclose?.(CLOSE);
      const state = states.at(-1);
      expect(state).toMatchObject({ kind: 'closed', isKept: true });
      if (state?.kind === 'closed') pauses.push(state.pauseMs);
      await sleep(AWAITED_RETRY_MOST_MS);
    }
    // It tries several times while a server waits for it.
    expect(4 * Math.max(...pauses)).toBeLessThanOrEqual(Math.min(SILENCE.donorMs, DEADLINES.returning.leastMs));
    last().onclose?.(CLOSE);
    expect(states.at(-1)).toMatchObject({ kind: 'closed', isKept: false });
    await sleep(RETRY_MOST_MS);
    last().onopen?.(new Event('open'));
    expect(last().sent[0]).not.toHaveProperty('resume');
  });

  describe('[RE80] on a connection that takes the place of a broken one', () => {
    const report = { type: 'fault', epoch: 1, reason: 'internal', detail: 'd' } as const;

    test('says again what the server has not heard, before anything else, and how much it has heard itself', async () => {
      const { signaling, messages, last, join, sleep } = conversation();
      join();
      last().say({ type: 'save', epoch: 1, step: 2 });
      signaling.send(MEASURED);
      signaling.send({ type: 'heartbeat' });
      expect(last().sent.at(-1)).toEqual({ type: 'heartbeat', heard: 1 });
      last().onclose?.(CLOSE);
      expect(signaling.send(report)).toBe(false);
      expect(signaling.send({ type: 'heartbeat' })).toBe(false);
      await sleep(AWAITED_RETRY_MOST_MS);
      last().onopen?.(new Event('open'));
      expect(last().sent[0]).toMatchObject({ resume: { peer: 'p1', key: 'k', heard: 1 } });
      last().say({ ...WELCOME, heard: 1 });
      expect(last().sent.slice(1)).toEqual([report]);
      expect(messages.at(-1)).toMatchObject({ type: 'welcome', heard: 1 });
    });

    test('says nothing of the one before to a server that begins anew, until its worker has heard of it', async () => {
      const { signaling, last, join, sleep } = conversation();
      join();
      signaling.send(MEASURED);
      expect(signaling.send({ type: 'pause' })).toBe(true);
      last().onclose?.(CLOSE);
      await sleep(AWAITED_RETRY_MOST_MS);
      join();
      expect(signaling.send(report)).toBe(false);
      expect(signaling.sendBytes(new Uint8Array([1]))).toBe(false);
      expect(last().sent.slice(1)).toEqual([]);
      signaling.send({ type: 'heartbeat' });
      expect(last().sent.at(-1)).toEqual({ type: 'heartbeat', heard: 0 });
      expect(signaling.send(MEASURED)).toBe(true);
      expect(signaling.send(report)).toBe(true);
      expect(last().sent.slice(2)).toEqual([MEASURED, report]);
    });

    test('ends it where it cannot say all of that again, and comes as another donor', async () => {
      const { states, last, join, sleep } = conversation();
      join();
      last().onclose?.(CLOSE);
      await sleep(AWAITED_RETRY_MOST_MS);
      last().onopen?.(new Event('open'));
      last().say({ ...WELCOME, heard: 7 });
      expect(last().closed).toBe(true);
      last().onclose?.(CLOSE);
      expect(states.at(-1)).toMatchObject({ kind: 'closed', isKept: false });
      await sleep(RETRY_MOST_MS);
      last().onopen?.(new Event('open'));
      expect(last().sent[0]).not.toHaveProperty('resume');
    });
  });

  test('gives up a connection that does not open', async () => {
    const { sockets, last, sleep } = conversation();
    const first = last();
    await sleep(OPEN_LIMIT_MS);
    expect(first.closed).toBe(true);
    await sleep(RETRY_MOST_MS);
    first.onclose?.(CLOSE);
    expect(sockets).toHaveLength(2);
  });

  test('after close there are no events and no connections', async () => {
    const { signaling, sockets, states, last, join, sleep } = conversation();
    join();
    const before = states.length;
    signaling.close();
    last().say({ type: 'start', epoch: 0, step: 0 });
    last().onclose?.(CLOSE);
    await sleep(60_000);
    expect(states).toHaveLength(before);
    expect(sockets).toHaveLength(1);
  });

  test('the pause never leaves its bounds', () => {
    const random = seededRandom(7);
    for (let failures = 0; failures < 2_000; failures++) {
      const pause = retryMs(failures, random);
      expect(pause).toBeGreaterThanOrEqual(RETRY_FIRST_MS / 2);
      expect(pause).toBeLessThanOrEqual(RETRY_MOST_MS);
    }
  });
});
