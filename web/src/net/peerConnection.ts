/**
 * The half of a connection that has to be where the browser has its `RTCPeerConnection`, which is no worker; and the only
 * import of simple-peer, so that another transport is one file. It finds the way to the other end and watches it. What the
 * connection carries goes by channels of its own, which the other half (connection.ts) has, here or in a worker.
 *
 * simple-peer offers no channel beside the one that it keeps to itself and one that it is offered replaces its first;
 * therefore ours are negotiated ones on the connection underneath, `_pc`, as of simple-peer 9.11.1, its last release.
 */
import SimplePeer from 'simple-peer';
import { filteredSignal } from '../../../swarm/messages/signal.ts';
import { type TurnAnswer, TurnGathering } from './turnGathering.ts';

/** What a channel may be moved by to another thread: the browser's own, or a port to it (portChannel.ts). */
export interface Channels<Channel> {
  /** What a step waits for, in whole frames. */
  readonly frames: Channel;
  /** Small messages, which do not stand behind a megabyte of frames in the sender's queue. */
  readonly quick: Channel;
  readonly heartbeat: Channel;
}

export interface Call {
  /** Exactly one of both ends is. */
  readonly initiator: boolean;
  /** From the server; simple-peer's own default would tell Google and Twilio who is here. */
  readonly iceServers: readonly Readonly<Record<string, unknown>>[];
  /** By a TURN server or not at all: the other end never learns this one's address. */
  readonly relayOnly: boolean;
}

/** This end has found no address of its own; or its browser makes no connection now. */
export type Stranding = 'noAddress' | 'noConnection';

export interface CallEvents<Channel> {
  /** At once, before anything else; not where no connection can be made. */
  channels(channels: Channels<Channel>): void;
  /** To be carried to the other end, in order. */
  signal(data: string): void;
  /** No direct way can begin here. */
  stranded(why: Stranding): void;
  /** What this end's TURN servers made of it, also where it was closed by then. Absent: nobody asks. */
  turnAnswered?(answers: readonly TurnAnswer[]): void;
  /** Once, when the way to the other end is gone or was never found. */
  closed(reason: string): void;
}

/** One that was begun. */
export interface Called {
  /** What the other end signalled, checked. */
  signal(data: string): void;
  /** Quietly: `closed` is not called for one's own decision. */
  close(): void;
}

export type Dial<Channel> = (call: Call, events: CallEvents<Channel>) => Called;

/** Any ids that simple-peer's own channel (0 or 1) does not take; both ends must use the same. */
const CHANNEL_IDS: Channels<number> = { heartbeat: 100, quick: 101, frames: 102 };

/** Undefined where the connection could not be made; see the header. */
interface Underneath {
  readonly _pc?: RTCPeerConnection;
}

class PeerConnection implements Called {
  readonly #events: CallEvents<RTCDataChannel>;
  readonly #connection: SimplePeer.Instance & Underneath;
  readonly #turn: TurnGathering;
  #candidates = 0;
  #isClosed = false;

  constructor({ initiator, iceServers, relayOnly }: Call, events: CallEvents<RTCDataChannel>) {
    this.#events = events;
    this.#turn = new TurnGathering(iceServers);
    this.#connection = new SimplePeer({
      initiator,
      trickle: true,
      config: {
        iceServers: iceServers as unknown as RTCIceServer[], // checked by RTCPeerConnection
        iceTransportPolicy: relayOnly ? 'relay' : 'all',
      },
    });
    this.#connection.on('signal', (data) => {
      const told = filteredSignal(JSON.stringify(data), relayOnly ? 'turn' : 'all');
      if (told !== null) events.signal(told);
    });
    const { _pc: underneath } = this.#connection;
    // Chromium 156 makes 500 of a page, and counts those that are closed until it has cleared them away.
    this.#connection.on('error', (error) => (underneath ? this.#lose(error.message) : this.#strand('noConnection')));
    this.#connection.on('close', () => this.#lose('the other end closed the connection'));
    if (!underneath) return; // its `error` event follows
    this.#watchCandidates(underneath);
    // A channel moves only in the task that made it.
    const open = (name: keyof typeof CHANNEL_IDS): RTCDataChannel =>
      underneath.createDataChannel(name, { negotiated: true, id: CHANNEL_IDS[name] });
    events.channels({ frames: open('frames'), quick: open('quick'), heartbeat: open('heartbeat') });
  }

  signal(data: string): void {
    if (!this.#isClosed) this.#connection.signal(data);
  }

  close(): void {
    if (!this.#isClosed) this.#tellTurn('cut');
    this.#isClosed = true;
    this.#connection.destroy();
  }

  #lose(reason: string): void {
    if (this.#isClosed) return;
    this.close();
    this.#events.closed(reason);
  }

  #strand(why: Stranding): void {
    if (!this.#isClosed) this.#events.stranded(why);
  }

  #tellTurn(end: 'complete' | 'cut'): void {
    const answers = this.#turn.answers(end, performance.now());
    if (answers.length > 0) this.#events.turnAnswered?.(answers);
  }

  #watchCandidates(connection: RTCPeerConnection): void {
    connection.addEventListener('icecandidate', ({ candidate }) => {
      if (!candidate?.candidate) return; // the last one is empty
      this.#candidates += 1;
      this.#turn.found(candidate);
    });
    connection.addEventListener('icecandidateerror', (error) => this.#turn.failed(error));
    connection.addEventListener('iceconnectionstatechange', () => {
      if (connection.iceConnectionState === 'connected') this.#turn.connected();
    });
    connection.addEventListener('icegatheringstatechange', () => {
      if (connection.iceGatheringState === 'gathering') this.#turn.began(performance.now());
      if (connection.iceGatheringState !== 'complete') return;
      this.#tellTurn('complete');
      if (this.#candidates === 0) this.#strand('noAddress');
    });
  }
}

export const dialPeer: Dial<RTCDataChannel> = (call, events) => new PeerConnection(call, events);
