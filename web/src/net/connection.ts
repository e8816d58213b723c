/**
 * One connection to one other donor, and the only import of simple-peer: everyone else sees `Connection`, so that another
 * transport is one file. A link (link.ts) has one or several.
 *
 * simple-peer owns the connection and the channel that carries frames. Heartbeats and small frames have channels of
 * their own, so that they do not stand behind a megabyte of frames in the sender's queue. simple-peer offers no second
 * channel (one that it is offered replaces its first), therefore they are negotiated ones on the connection underneath,
 * `_pc`; and the gate listens on the channel underneath, `_channel`, because `send()` has no back-pressure. Both fields
 * are as of simple-peer 9.11.1, its last release.
 *
 * A string among the frames is a mark: the other end says at once over the heartbeats' channel that it has arrived.
 */
import SimplePeer from 'simple-peer';
import type { PeerId } from '../../../swarm/base.ts';
import { CANDIDATES_LIMIT, decodeSignal, filteredSignal } from '../../../swarm/messages/signal.ts';
import { Flow } from './flow.ts';
import { type RoundTrip, RoundTrips } from './rateMeter.ts';

export interface Connection {
  readonly state: 'connecting' | 'open' | 'closed';
  /** Of the newest answered pings; null before. */
  readonly roundTrip: RoundTrip | null;
  /** What its frames' channel has taken and not yet sent. */
  readonly bufferedBytes: number;
  /** What waits for the channel to take it. */
  readonly waitingBytes: number;
  /** Resolves when the channel has taken the message. Small messages may overtake large ones. Rejects when the connection is not open, or closes first. */
  send(message: ArrayBuffer): Promise<void>;
  /** Resolves when all that its channels took has left them. Rejects as `send` does. */
  left(): Promise<void>;
  /** Resolves when the other end says that all frames before have arrived, after so many milliseconds; null: it does not say so. */
  marked(): Promise<number | null>;
  /** What the other end signalled. False where it is no signal that this end can use now. */
  signal(data: string): boolean;
  /** Asks the other end whether it lives. Closes the connection where an earlier ping has had no answer for too long. */
  ping(nowMs: number): void;
  /** Quietly: `closed` is not called for one's own decision. */
  close(): void;
}

export interface ConnectionEvents {
  /** To be carried to the other end, in order. */
  signal(data: string): void;
  opened(): void;
  message(message: ArrayBuffer): void;
  /** This end has found no address of its own, so that no direct way can begin here. */
  stranded(): void;
  /** Once, when the other end or the way to it is gone, or the connection never opened. */
  closed(reason: string): void;
}

export interface ConnectionOptions {
  readonly peer: PeerId;
  /** Exactly one of both ends is. */
  readonly initiator: boolean;
  /** From the server; simple-peer's own default would tell Google and Twilio who is here. */
  readonly iceServers: readonly Readonly<Record<string, unknown>>[];
  /** By a TURN server or not at all: the other end never learns this one's address. */
  readonly relayOnly?: boolean;
  readonly events: ConnectionEvents;
}

export type OpenConnection = (options: ConnectionOptions) => Connection;

export const PONG_LIMIT_MS = 15_000;
/** Any id that simple-peer's own channel (0 or 1) does not take; both ends must use the same. */
const HEARTBEAT_CHANNEL_ID = 100;
const QUICK_CHANNEL_ID = 101;
/** Messages of at most so many bytes go by the quick channel. */
export const QUICK_BYTES = 8_192;
/** Pings and pongs are 9 bytes: a peer that has this much of them unread does not read. */
const HEARTBEAT_BUFFER_LIMIT_BYTES = 4_096;
/** A mark without an answer for so long has none. */
const MARK_LIMIT_MS = 60_000;
const PING = 0;
const PONG = 1;
const MARKED = 2;
type Beat = typeof PING | typeof PONG | typeof MARKED;

/** What simple-peer keeps to itself; see the header. Undefined where the connection could not be made. */
interface Underneath {
  readonly _pc?: RTCPeerConnection;
  readonly _channel?: RTCDataChannel;
}

class SimplePeerConnection implements Connection {
  state: Connection['state'] = 'connecting';
  readonly #initiator: boolean;
  readonly #peer: PeerId;
  readonly #events: ConnectionEvents;
  readonly #connection: SimplePeer.Instance & Underneath;
  readonly #heartbeat: RTCDataChannel | null;
  readonly #quick: RTCDataChannel | null;
  readonly #roundTrips = new RoundTrips();
  #flow: Flow | null = null;
  #quickFlow: Flow | null = null;
  /** Whom to tell how long the other end's word took, by the time at which it was asked for; null: it does not come. */
  readonly #marks = new Map<number, (milliseconds: number | null) => void>();
  #candidates = 0;
  #signals = 0;
  #unansweredSinceMs: number | null = null;

  constructor({ peer, initiator, iceServers, relayOnly = false, events }: ConnectionOptions) {
    this.#peer = peer;
    this.#initiator = initiator;
    this.#events = events;
    this.#connection = new SimplePeer({
      initiator,
      trickle: true,
      objectMode: true, // one message, one event
      config: {
        iceServers: iceServers as unknown as RTCIceServer[], // checked by RTCPeerConnection
        iceTransportPolicy: relayOnly ? 'relay' : 'all',
      },
    });
    this.#connection.on('signal', (data) => {
      const told = filteredSignal(JSON.stringify(data), relayOnly ? 'turn' : 'all');
      if (told !== null) events.signal(told);
    });
    this.#connection.on('connect', () => this.#onConnect());
    this.#connection.on('data', (data: unknown) => this.#onData(data));
    this.#connection.on('error', (error) => this.#lose(error.message));
    this.#connection.on('close', () => this.#lose('the other end closed the connection'));
    this.#heartbeat = this.#openHeartbeat(this.#connection._pc);
    this.#quick = this.#openQuick(this.#connection._pc);
    this.#watchCandidates(this.#connection._pc);
  }

  get roundTrip(): RoundTrip | null {
    return this.#roundTrips.measured;
  }

  get bufferedBytes(): number {
    return this.#connection._channel?.bufferedAmount ?? 0;
  }

  get waitingBytes(): number {
    return this.#flow?.waitingBytes ?? 0;
  }

  async send(message: ArrayBuffer): Promise<void> {
    if (!this.#flow) throw new Error(`the connection to ${this.#peer} is ${this.state}`);
    if (message.byteLength <= QUICK_BYTES && this.#quick?.readyState === 'open') {
      this.#quickFlow ??= new Flow(this.#quick);
      await this.#quickFlow.send(message);
    } else await this.#flow.send(message);
  }

  async left(): Promise<void> {
    if (!this.#flow) throw new Error(`the connection to ${this.#peer} is ${this.state}`);
    await Promise.all([this.#flow.left(), this.#quickFlow?.left()]);
  }

  marked(): Promise<number | null> {
    const channel = this.#connection._channel;
    if (this.state !== 'open' || !channel) return Promise.resolve(null);
    let atMs = performance.now();
    const [oldestMs = atMs] = this.#marks.keys();
    if (atMs - oldestMs > MARK_LIMIT_MS) this.#dropMarks();
    while (this.#marks.has(atMs)) atMs += 1e-3; // the clock is coarse
    return new Promise((resolve) => {
      this.#marks.set(atMs, resolve);
      channel.send(String(atMs));
    });
  }

  signal(data: string): boolean {
    this.#signals += 1;
    // A description and its candidates; more is not meant well.
    if (this.state === 'closed' || this.#signals > 1 + CANDIDATES_LIMIT) return false;
    const signal = decodeSignal(data);
    if (!signal || signal.type === (this.#initiator ? 'offer' : 'answer')) return false;
    this.#connection.signal(signal as SimplePeer.SignalData);
    return true;
  }

  ping(nowMs: number): void {
    if (this.state !== 'open') return;
    this.#unansweredSinceMs ??= nowMs;
    if (nowMs - this.#unansweredSinceMs >= PONG_LIMIT_MS) this.#lose(`no answer for ${PONG_LIMIT_MS / 1000} s`);
    else this.#beat(PING, nowMs);
  }

  close(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    for (const flow of [this.#flow, this.#quickFlow]) flow?.close(`the link to ${this.#peer} is closed`);
    this.#flow = null;
    this.#dropMarks();
    this.#connection.destroy();
  }

  #lose(reason: string): void {
    if (this.state === 'closed') return;
    this.close();
    this.#events.closed(reason);
  }

  #onConnect(): void {
    const channel = this.#connection._channel;
    if (this.state !== 'connecting' || !channel) return;
    this.#flow = new Flow(channel);
    this.state = 'open';
    this.#events.opened();
  }

  #onData(data: unknown): void {
    if (this.state === 'closed') return;
    // A Buffer that spans the ArrayBuffer of the event: no copy.
    if (data instanceof Uint8Array) this.#events.message(data.buffer as ArrayBuffer);
    else if (typeof data === 'string') this.#beat(MARKED, Number(data));
  }

  /** What was marked before is there too, also where the word of it was dropped. */
  #onMarked(atMs: number): void {
    if (!this.#marks.has(atMs)) return;
    for (const [markedMs, told] of this.#marks) {
      if (markedMs > atMs) return;
      this.#marks.delete(markedMs);
      told(performance.now() - markedMs);
    }
  }

  #dropMarks(): void {
    const waiting = [...this.#marks.values()];
    this.#marks.clear();
    for (const told of waiting) told(null);
  }

  #openQuick(connection: RTCPeerConnection | undefined): RTCDataChannel | null {
    if (!connection) return null;
    const channel = connection.createDataChannel('quick', { negotiated: true, id: QUICK_CHANNEL_ID });
    channel.binaryType = 'arraybuffer';
    channel.addEventListener('message', ({ data }) => {
      if (this.state !== 'closed' && data instanceof ArrayBuffer) this.#events.message(data);
    });
    return channel;
  }

  #watchCandidates(connection: RTCPeerConnection | undefined): void {
    connection?.addEventListener('icecandidate', ({ candidate }) => {
      if (candidate?.candidate) this.#candidates += 1; // the last one is empty
    });
    connection?.addEventListener('icegatheringstatechange', () => {
      const isStranded = connection.iceGatheringState === 'complete' && this.#candidates === 0;
      if (isStranded && this.state === 'connecting') this.#events.stranded();
    });
  }

  #openHeartbeat(connection: RTCPeerConnection | undefined): RTCDataChannel | null {
    if (!connection) return null; // its `error` event follows
    const channel = connection.createDataChannel('heartbeat', { negotiated: true, id: HEARTBEAT_CHANNEL_ID });
    channel.binaryType = 'arraybuffer';
    channel.addEventListener('message', ({ data }) => {
      if (!(data instanceof ArrayBuffer) || data.byteLength !== 9) return;
      const view = new DataView(data);
      const sentMs = view.getFloat64(1);
      const kind = view.getUint8(0);
      if (kind === PING) this.#beat(PONG, sentMs);
      else if (kind === PONG) this.#onPong(sentMs);
      else this.#onMarked(sentMs);
    });
    return channel;
  }

  #onPong(sentMs: number): void {
    this.#unansweredSinceMs = null;
    this.#roundTrips.sample(performance.now() - sentMs);
  }

  /** Kind u8, then the asking end's own time f64, which the answer repeats. */
  #beat(kind: Beat, timeMs: number): void {
    const channel = this.#heartbeat;
    if (channel?.readyState !== 'open' || channel.bufferedAmount > HEARTBEAT_BUFFER_LIMIT_BYTES) return;
    const view = new DataView(new ArrayBuffer(9));
    view.setUint8(0, kind);
    view.setFloat64(1, timeMs);
    channel.send(view.buffer);
  }
}

export const openSimplePeerConnection: OpenConnection = (options) => new SimplePeerConnection(options);
