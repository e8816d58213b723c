/**
 * One donor's connection: the only place that reads what a donor sends. Everything is bounded before it is parsed and
 * checked by schema before it goes on; what breaks a rule is answered with a reason, counted, and ends this connection
 * alone. Rules WP in SPEC.md.
 */
import type { RawData, WebSocket } from 'ws';
import type { PeerId } from '../../swarm/base.ts';
import {
  decodePeerMessage,
  type HelloMessage,
  MESSAGE_BYTES_LIMIT,
  type PeerMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
} from '../../swarm/messages/messages.ts';
import { AT_FAULT, REFUSAL_SENTENCES, type RefusalReason, retrySeconds } from '../../swarm/messages/refusals.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { RelayPort } from './relay.ts';

/** Time from the connection to its `hello`. */
const HELLO_LIMIT_MS = 10_000;
/** Time from its `hello` to its measurements, so that nobody holds a place without computing. */
const ADMISSION_LIMIT_MS = 600_000;
/** Unasked messages a donor may send in one go, and how fast it earns new ones: signaling comes in bursts. */
const MESSAGE_BURST = 1_000;
const MESSAGES_PER_SECOND = 500;
/** A relayed frame counts as this part of a message, which bounds their number; the relay's windows bound their bytes. */
const FRAME_COST = 0.05;
/** A donor is disconnected when so many bytes wait for it to read them. */
const UNREAD_BYTES_LIMIT = 16 * 1024 * 1024;
/** Messages above `MESSAGE_BYTES_LIMIT` are refused with a reason; above this the WebSocket library cuts the connection. */
export const SOCKET_BYTES_LIMIT = 4 * MESSAGE_BYTES_LIMIT;

/** The way to a donor, as the run sees it. */
export interface DonorLink extends RelayPort {
  /** Its network, as far as the server sees it: what limits count by. */
  readonly address: string;
  /** It came from this very machine, past no proxy. */
  readonly isHere: boolean;
  send(message: ServerMessage): void;
  refuse(reason: RefusalReason, detail: string): void;
  close(): void;
}

/** The run, as a connection sees it. */
export interface DonorHost {
  /** Answers `hello`: the name this donor has from now on (it was sent `welcome`), or why it may not join. */
  admit(hello: HelloMessage, link: DonorLink): PeerId | RefusalReason;
  /** A message after `hello`; a reason where it does not fit what the server has said. */
  onMessage(peer: PeerId, message: PeerMessage): RefusalReason | null;
  /** A binary message after `hello`: for another donor. */
  relayed(peer: PeerId, bytes: Uint8Array<ArrayBuffer>): RefusalReason | null;
  /** isAtFault: it was not let go by chance, nor by its own wish. */
  gone(peer: PeerId, detail: string, isAtFault: boolean): void;
  /** One that was never admitted broke a rule. */
  strangerFailed(address: string, sinceMs: number): void;
  /** Something threw while a donor was served. */
  failed(error: unknown): void;
  countRefusal(reason: RefusalReason): void;
}

type Problem = readonly [reason: RefusalReason, detail: string];

/** Where a connection comes from. */
interface Origin {
  readonly address: string;
  readonly isHere: boolean;
}

export class DonorSocket implements DonorLink {
  readonly address: string;
  readonly isHere: boolean;
  readonly #openedMs: number;
  readonly #socket: WebSocket;
  readonly #host: DonorHost;
  /** Until its hello, then until it has measured itself. */
  #admissionTimer: NodeJS.Timeout;
  #peer: PeerId | null = null;
  #open = true;
  #allowance = MESSAGE_BURST;
  #lastHeardMs: number;

  constructor(socket: WebSocket, host: DonorHost, nowMs: number, { address, isHere }: Origin) {
    this.address = address;
    this.isHere = isHere;
    this.#openedMs = nowMs;
    this.#socket = socket;
    this.#host = host;
    this.#lastHeardMs = nowMs;
    this.#admissionTimer = setTimeout(() => this.refuse('outOfOrder', 'no hello came'), HELLO_LIMIT_MS);
    socket.on('message', (data, isBinary) => this.#received(data, isBinary));
    socket.on('error', (error) => {
      if ('code' in error && error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') host.countRefusal('tooLarge');
    });
    socket.on('close', () => this.#ended('its connection closed'));
  }

  /** Ends the connection where nothing came for so long. */
  expire(nowMs: number, limitMs: number): void {
    if (this.#open && nowMs - this.#lastHeardMs > limitMs) {
      this.#socket.terminate();
      this.#ended('it was silent for too long');
    }
  }

  send(message: ServerMessage): void {
    if (!this.#open) return;
    this.#socket.send(JSON.stringify(message));
    // Its report is asked for: a donor is never refused for being fast.
    if (message.type === 'start') this.#allowance = Math.min(MESSAGE_BURST, this.#allowance + 1);
    if (this.#socket.bufferedAmount > UNREAD_BYTES_LIMIT) {
      this.#socket.terminate();
      this.#ended('it does not read what it is sent', true);
    }
  }

  sendBytes(bytes: Uint8Array, taken: () => void = () => {}): void {
    if (this.#open) this.#socket.send(bytes, { binary: true }, taken);
    else taken();
  }

  refuse(reason: RefusalReason, detail: string): void {
    if (!this.#open) return;
    this.#host.countRefusal(reason);
    this.send(refusedFor(reason, detail));
    this.close();
    this.#ended(`it was refused: ${reason}, ${detail}`, AT_FAULT.has(reason));
  }

  close(): void {
    this.#socket.close(1000);
  }

  #ended(detail: string, isAtFault = false): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#admissionTimer);
    try {
      if (this.#peer !== null) this.#host.gone(this.#peer, detail, isAtFault);
      else if (isAtFault) this.#host.strangerFailed(this.address, this.#openedMs);
    } catch (error) {
      this.#host.failed(error);
    }
  }

  /** The net under all that a donor's word sets off: whatever throws there ends its connection, never the process. */
  #received(data: RawData, isBinary: boolean): void {
    if (!this.#open) return;
    try {
      const problem = this.#handle(data, isBinary);
      if (problem !== null) this.refuse(...problem);
    } catch (error) {
      this.#host.failed(error);
      this.refuse('unhandled', isBinary ? 'a binary message' : 'a message');
    }
  }

  #handle(data: RawData, isBinary: boolean): Problem | null {
    if (!this.#mayMessage(isBinary ? FRAME_COST : 1)) {
      return ['tooManyMessages', `more than ${MESSAGES_PER_SECOND} a second beside the reports of its steps`];
    }
    const bytes = Buffer.isBuffer(data) ? data : Buffer.from(data as ArrayBuffer);
    if (bytes.length > MESSAGE_BYTES_LIMIT) return ['tooLarge', `${bytes.length} bytes`];
    if (isBinary) return this.#relayed(new Uint8Array(bytes));
    const text = bytes.toString('utf8');
    const decoded = decodePeerMessage(text);
    if (this.#peer === null) return this.#greeted(text, decoded.ok ? decoded.value : decoded.reason);
    if (!decoded.ok) return ['malformed', decoded.reason];
    if (decoded.value.type === 'measured') clearTimeout(this.#admissionTimer);
    if (decoded.value.type === 'hello') return ['outOfOrder', 'a second hello'];
    const reason = this.#host.onMessage(this.#peer, decoded.value);
    return reason === null ? null : [reason, `${decoded.value.type} does not fit here`];
  }

  #relayed(bytes: Uint8Array<ArrayBuffer>): Problem | null {
    const reason = this.#peer === null ? 'malformed' : this.#host.relayed(this.#peer, bytes);
    return reason === null ? null : [reason, 'a binary message'];
  }

  #greeted(text: string, message: PeerMessage | string): Problem | null {
    // Another version's hello need not fit this version's schema: its number alone is looked at first.
    const protocol = protocolOfHello(text);
    if (protocol !== null && protocol !== PROTOCOL_VERSION) {
      return ['wrongProtocol', `version ${protocol}, the server speaks ${PROTOCOL_VERSION}`];
    }
    if (typeof message === 'string') return ['malformed', message];
    if (message.type !== 'hello') return ['outOfOrder', `${message.type} before hello`];
    clearTimeout(this.#admissionTimer);
    const admitted = this.#host.admit(message, this);
    if (isRefusal(admitted)) return [admitted, 'at hello'];
    this.#peer = admitted;
    this.#admissionTimer = setTimeout(() => this.refuse('tooLate', 'it measured nothing'), ADMISSION_LIMIT_MS);
    if (!this.#open) this.#host.gone(admitted, 'its connection closed', false);
    return null;
  }

  /** A bucket of messages that fills with time. */
  #mayMessage(cost: number): boolean {
    const nowMs = monotonicMs();
    const earned = ((nowMs - this.#lastHeardMs) / 1_000) * MESSAGES_PER_SECOND;
    this.#allowance = Math.min(MESSAGE_BURST, this.#allowance + earned) - cost;
    this.#lastHeardMs = nowMs;
    return this.#allowance >= 0;
  }
}

/** Its last word to a donor. */
export const refusedFor = (reason: RefusalReason, detail: string): ServerMessage => ({
  type: 'refused',
  reason,
  detail: `${REFUSAL_SENTENCES[reason]} (${detail})`.slice(0, 2_000),
  retrySeconds: retrySeconds(reason, Math.random),
});

const isRefusal = (answer: PeerId | RefusalReason): answer is RefusalReason => answer in REFUSAL_SENTENCES;

function protocolOfHello(text: string): number | null {
  try {
    const json: unknown = JSON.parse(text);
    if (typeof json !== 'object' || json === null || !('type' in json) || json.type !== 'hello') return null;
    return 'protocol' in json && typeof json.protocol === 'number' ? json.protocol : null;
  } catch {
    return null;
  }
}
