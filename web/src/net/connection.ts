/**
 * One connection to one other donor, whatever it is made by (peerConnection.ts): everyone else sees `Connection`. A link
 * (link.ts) has one or several.
 *
 * Frames, small frames and heartbeats have a channel each. `send()` of a channel has no back-pressure: a gate (flow.ts)
 * listens on it. A string among the frames is a mark: the other end says at once over the heartbeats' channel that it has
 * arrived.
 */
import type { PeerId } from '../../../swarm/base.ts';
import { CANDIDATES_LIMIT, decodeSignal } from '../../../swarm/messages/signal.ts';
import { Flow } from './flow.ts';
import type { Call, Called, Channels, Dial, Stranding } from './peerConnection.ts';
import type { DataChannel } from './portChannel.ts';
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
  /** No direct way can begin here. */
  stranded(why: Stranding): void;
  /** Once, when the other end or the way to it is gone, or the connection never opened. */
  closed(reason: string): void;
}

export interface ConnectionOptions extends Omit<Call, 'relayOnly'> {
  readonly peer: PeerId;
  /** False where it is not said. */
  readonly relayOnly?: boolean;
  readonly events: ConnectionEvents;
}

export type OpenConnection = (options: ConnectionOptions) => Connection;

export const PONG_LIMIT_MS = 15_000;
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

class CalledConnection implements Connection {
  state: Connection['state'] = 'connecting';
  readonly #initiator: boolean;
  readonly #peer: PeerId;
  readonly #events: ConnectionEvents;
  readonly #called: Called;
  readonly #roundTrips = new RoundTrips();
  #channels: Channels<DataChannel> | null = null;
  /** From when it is open. */
  #flow: Flow | null = null;
  #quickFlow: Flow | null = null;
  /** Whom to tell how long the other end's word took, by the time at which it was asked for; null: it does not come. */
  readonly #marks = new Map<number, (milliseconds: number | null) => void>();
  #signals = 0;
  #unansweredSinceMs: number | null = null;

  constructor(options: ConnectionOptions, dial: Dial<DataChannel>) {
    const { peer, initiator, iceServers, relayOnly = false, events } = options;
    this.#peer = peer;
    this.#initiator = initiator;
    this.#events = events;
    this.#called = dial(
      { initiator, iceServers, relayOnly },
      {
        channels: (channels) => this.#take(channels),
        signal: (data) => {
          if (this.state !== 'closed') events.signal(data);
        },
        stranded: (why) => {
          if (this.state === 'connecting') events.stranded(why);
        },
        closed: (reason) => this.#lose(reason),
      },
    );
  }

  get roundTrip(): RoundTrip | null {
    return this.#roundTrips.measured;
  }

  get bufferedBytes(): number {
    return this.#channels?.frames.bufferedAmount ?? 0;
  }

  get waitingBytes(): number {
    return this.#flow?.waitingBytes ?? 0;
  }

  async send(message: ArrayBuffer): Promise<void> {
    if (!this.#flow || !this.#channels) throw new Error(`the connection to ${this.#peer} is ${this.state}`);
    const { quick } = this.#channels;
    if (message.byteLength <= QUICK_BYTES && quick.readyState === 'open') {
      this.#quickFlow ??= new Flow(quick);
      await this.#quickFlow.send(message);
    } else await this.#flow.send(message);
  }

  async left(): Promise<void> {
    if (!this.#flow) throw new Error(`the connection to ${this.#peer} is ${this.state}`);
    await Promise.all([this.#flow.left(), this.#quickFlow?.left()]);
  }

  marked(): Promise<number | null> {
    const frames = this.#channels?.frames;
    if (this.state !== 'open' || frames?.readyState !== 'open') return Promise.resolve(null);
    let atMs = performance.now();
    const [oldestMs = atMs] = this.#marks.keys();
    if (atMs - oldestMs > MARK_LIMIT_MS) this.#dropMarks();
    while (this.#marks.has(atMs)) atMs += 1e-3; // the clock is coarse
    return new Promise((resolve) => {
      this.#marks.set(atMs, resolve);
      frames.send(String(atMs));
    });
  }

  signal(data: string): boolean {
    this.#signals += 1;
    // A description and its candidates; more is not meant well.
    if (this.state === 'closed' || this.#signals > 1 + CANDIDATES_LIMIT) return false;
    const signal = decodeSignal(data);
    if (!signal || signal.type === (this.#initiator ? 'offer' : 'answer')) return false;
    this.#called.signal(JSON.stringify(signal));
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
    this.#called.close();
  }

  #lose(reason: string): void {
    if (this.state === 'closed') return;
    this.close();
    this.#events.closed(reason);
  }

  #take(channels: Channels<DataChannel>): void {
    if (this.state === 'closed') return;
    this.#channels = channels;
    const { frames, quick, heartbeat } = channels;
    for (const channel of [frames, quick, heartbeat]) channel.binaryType = 'arraybuffer';
    for (const channel of [frames, quick]) channel.addEventListener('message', ({ data }) => this.#onData(data));
    heartbeat.addEventListener('message', ({ data }) => this.#onBeat(data));
    if (frames.readyState === 'open') this.#onOpen(frames);
    else frames.addEventListener('open', () => this.#onOpen(frames));
  }

  #onOpen(frames: DataChannel): void {
    if (this.state !== 'connecting') return;
    this.#flow = new Flow(frames);
    this.state = 'open';
    this.#events.opened();
  }

  #onData(data: unknown): void {
    if (this.state === 'closed') return;
    if (data instanceof ArrayBuffer) this.#events.message(data);
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

  #onBeat(data: unknown): void {
    if (!(data instanceof ArrayBuffer) || data.byteLength !== 9) return;
    const view = new DataView(data);
    const sentMs = view.getFloat64(1);
    const kind = view.getUint8(0);
    if (kind === PING) this.#beat(PONG, sentMs);
    else if (kind === PONG) this.#onPong(sentMs);
    else this.#onMarked(sentMs);
  }

  #onPong(sentMs: number): void {
    this.#unansweredSinceMs = null;
    this.#roundTrips.sample(performance.now() - sentMs);
  }

  /** Kind u8, then the asking end's own time f64, which the answer repeats. */
  #beat(kind: Beat, timeMs: number): void {
    const channel = this.#channels?.heartbeat;
    if (channel?.readyState !== 'open' || channel.bufferedAmount > HEARTBEAT_BUFFER_LIMIT_BYTES) return;
    const view = new DataView(new ArrayBuffer(9));
    view.setUint8(0, kind);
    view.setFloat64(1, timeMs);
    channel.send(view.buffer);
  }
}

export const connectionBy =
  (dial: Dial<DataChannel>): OpenConnection =>
  (options) =>
    new CalledConnection(options, dial);
