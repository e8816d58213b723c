/**
 * One donor's connection: the only place that reads what a donor sends. Everything is bounded before it is parsed and
 * checked by schema before it goes on; what breaks a rule is answered with a reason, counted, and ends this connection
 * alone. Rules WP in SPEC.md.
 */
import type { RawData } from 'ws';
import type { PeerId } from '../../swarm/base.ts';
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';
import {
  decodePeerMessage,
  type HelloMessage,
  MESSAGE_BYTES_LIMIT,
  type PeerMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
} from '../../swarm/messages/messages.ts';
import { AT_FAULT, REFUSAL_SENTENCES, type RefusalReason, retrySeconds } from '../../swarm/messages/refusals.ts';
import { Spoken } from '../../swarm/messages/spoken.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { DonorWire, Origin } from './donorWire.ts';
import { FRAME_COST, MessageBudget } from './messageBudget.ts';
import type { RelayPort } from './relay.ts';
import type { Beside } from './relaysBeside.ts';

/** Time from the connection to its `hello`. */
const HELLO_LIMIT_MS = 10_000;
/** Time from its `hello` to its measurements, so that nobody holds a place without computing. */
const ADMISSION_LIMIT_MS = 180_000;
/**
 * A donor that has so much text unread when more is to be sent is disconnected: before it is admitted, then, and as one
 * that a plan was sent to, beside two such plans. Relayed frames have a window of their own.
 */
const STRANGER_UNREAD_BYTES = 32_768;
const SPARE_UNREAD_BYTES = 65_536;
const MEMBER_UNREAD_BYTES = 262_144;
/** With so much unread it gets no signals of others: they are not its fault, and an attempt at a link outlives some that are lost. */
const SIGNALS_UNREAD_BYTES = 131_072;
/** What the WebSocket library says of a connection that ended without a closing frame. */
const NO_GOODBYE = 1006;
/** So long nothing of what waits is taken by a donor that still reads. */
const UNREAD_LIMIT_MS = 20_000;
/**
 * What the WebSocket library cuts a connection at. Messages above `MESSAGE_BYTES_LIMIT` are refused with a reason; each
 * piece of one costs memory however small it is.
 */
export const SOCKET_LIMITS = {
  maxPayload: 2 * MESSAGE_BYTES_LIMIT,
  maxFragments: 64,
  maxBufferedChunks: 4_096,
  closeTimeout: 2_000,
};

/** The way to a donor, as the run sees it. */
export interface DonorLink extends RelayPort {
  /** Its network, as far as the server sees it: what limits count by. */
  readonly address: string;
  /** It came from this very machine, past no proxy. */
  readonly isHere: boolean;
  /** The gateway at which its WebSocket ends; absent: it does so here, at a server that is alone. */
  readonly beside?: Beside | undefined;
  /** The way to it and back, as its browser answers; null: it has not answered yet. */
  readonly roundTripMs: number | null;
  /** All that was said on this conversation, on the connections before this one too. */
  readonly spoken: Spoken<Buffer>;
  /**
   * Takes the place of the connection on which this donor's conversation broke: greets it, then says again what it has not
   * heard. Nothing counts any more that comes on the old one.
   */
  goOnFrom(before: DonorLink, greeting: ServerMessage, unheard: readonly Buffer[]): void;
  /** Ends, and nobody is told: another connection has taken its place. */
  supersede(): void;
  send(message: ServerMessage): void;
  /** A text that the next one replaces: of those that come before it has read one, it gets the newest alone. */
  sendNewest(text: Buffer): void;
  refuse(reason: RefusalReason, detail: string): void;
  close(): void;
}

/** The run, as a connection sees it. */
export interface DonorHost {
  /** A connection that has said nothing yet; why there is no place for it, or null. */
  arrived(link: DonorLink): RefusalReason | null;
  /** It is closed, whoever it was. */
  ended(link: DonorLink): void;
  /** Answers `hello`: the name this donor has from now on (it was sent `welcome`), or why it may not join. */
  admit(hello: HelloMessage, link: DonorLink): PeerId | RefusalReason;
  /** A message after `hello`; a reason where it does not fit what the server has said. */
  onMessage(peer: PeerId, message: PeerMessage): RefusalReason | null;
  /** A binary message after `hello`: for another donor. */
  relayed(peer: PeerId, bytes: Uint8Array<ArrayBuffer>): RefusalReason | null;
  /** Its connection broke without a word of its own: it may come back on another one. */
  broke(peer: PeerId, link: DonorLink): void;
  /** isAtFault: it was not let go by chance, nor by its own wish. */
  gone(peer: PeerId, detail: string, isAtFault: boolean): void;
  /** One that was never admitted broke a rule. */
  strangerFailed(address: string, sinceMs: number): void;
  /** Something threw while a donor was served. */
  failed(error: unknown): void;
  countRefusal(reason: RefusalReason): void;
}

type Problem = readonly [reason: RefusalReason, detail: string];

export class DonorSocket implements DonorLink {
  readonly address: string;
  readonly isHere: boolean;
  readonly beside: Beside | undefined;
  roundTripMs: number | null = null;
  spoken = new Spoken<Buffer>();
  readonly #openedMs: number;
  readonly #socket: DonorWire;
  readonly #host: DonorHost;
  /** Until its hello, then until it has measured itself. */
  #admissionTimer: NodeJS.Timeout;
  #peer: PeerId | null = null;
  /** It went on from another connection: it was admitted on the first one. */
  #goesOn = false;
  #open = true;
  readonly #budget: MessageBudget;
  /** What was read when the server last looked, and for how long nothing has been since. */
  #seenBytes = 0;
  #silentMs = 0;
  #silenceLimitMs: number = SILENCE.strangerMs;
  readonly #origin: Origin;
  /** Text that the system has not taken yet, and when it last took anything. */
  #unreadBytes = 0;
  #takenMs: number;
  #unreadLimit = STRANGER_UNREAD_BYTES;
  /** One is on its way; the one that is sent after it. */
  #isNewestSent = false;
  #newest: Buffer | null = null;
  /** When it was asked for an answer, each time. */
  readonly #askedMs: number[] = [];

  constructor(socket: DonorWire, host: DonorHost, nowMs: number, origin: Origin) {
    this.#origin = origin;
    this.address = origin.address;
    this.isHere = origin.isHere;
    this.beside = origin.beside;
    this.#openedMs = nowMs;
    this.#socket = socket;
    this.#host = host;
    this.#budget = new MessageBudget(nowMs);
    this.#takenMs = nowMs;
    this.#admissionTimer = setTimeout(() => this.refuse('outOfOrder', 'no hello came'), HELLO_LIMIT_MS);
    socket.on('message', (data, isBinary) => this.#received(data, isBinary));
    socket.on('error', (error) => {
      if ('code' in error && error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') host.countRefusal('tooLarge');
      if ('code' in error && String(error.code).startsWith('WS_ERR')) this.#ended('it broke the rules of WebSockets');
    });
    socket.on('close', (code) => {
      if (code === NO_GOODBYE && this.#peer !== null) this.#broke(this.#peer);
      else this.#ended('its page was closed, or lost its connection');
    });
    // The library answers pings by itself: they count as messages.
    for (const event of ['ping', 'pong'] as const) socket.on(event, () => this.#pinged());
    socket.on('pong', (data) => this.#answered(data));
    this.#ask();
    const shut = host.arrived(this);
    if (shut !== null) this.refuse(shut, 'too many wait to be admitted');
  }

  /** Ends the connection where nothing came for too long, or nothing was read. `passedMs`: since the last look. */
  expire(nowMs: number, passedMs: number): void {
    if (this.#origin.isCutOff?.()) {
      this.#takenMs = nowMs;
      return;
    }
    const bytes = this.#origin.bytesRead();
    this.#silentMs = bytes === this.#seenBytes ? this.#silentMs + passedMs : 0;
    this.#seenBytes = bytes;
    if (this.#open && this.#silentMs > this.#silenceLimitMs) {
      this.#socket.terminate();
      this.#ended('it was silent for too long');
    }
    if (this.#unreadBytes > 0 && nowMs - this.#takenMs > UNREAD_LIMIT_MS) this.#doesNotRead();
  }

  goOnFrom(before: DonorLink, greeting: ServerMessage, unheard: readonly Buffer[]): void {
    before.supersede();
    clearTimeout(this.#admissionTimer);
    this.spoken = before.spoken;
    this.#goesOn = true;
    this.#silenceLimitMs = SILENCE.donorMs;
    this.#becomeMember(unheard.reduce((sum, { length }) => sum + length, 0));
    this.send(greeting);
    for (const text of unheard) this.#sendText(text);
  }

  supersede(): void {
    if (this.#close()) this.#socket.terminate();
  }

  send(message: ServerMessage): void {
    if (message.type === 'signal' && this.#unreadBytes > SIGNALS_UNREAD_BYTES) return;
    const text = Buffer.from(JSON.stringify(message));
    if (message.type !== 'welcome' && message.type !== 'refused') this.spoken.say(text, this.#unreadLimit);
    this.#sendText(text);
    if (message.type === 'start') this.#budget.asked(); // for its report
    if (message.type === 'warm' || message.type === 'prepare') this.#becomeMember(text.length);
  }

  /** A plan of so many bytes was sent to it. */
  #becomeMember(planBytes: number): void {
    this.#unreadLimit = Math.max(this.#unreadLimit, MEMBER_UNREAD_BYTES + 2 * planBytes);
    this.#budget.becomeMember();
    this.#socket.becomesMember?.();
  }

  sendNewest(text: Buffer): void {
    if (this.#isNewestSent) {
      this.#newest = text;
      return;
    }
    this.#isNewestSent = true;
    const taken = (): void => {
      this.#isNewestSent = false;
      const next = this.#newest;
      this.#newest = null;
      if (next !== null) this.sendNewest(next);
    };
    this.#sendText(text, taken, true);
  }

  sendBytes(bytes: Uint8Array, taken: () => void = () => {}): void {
    if (this.#open)
      this.#socket.send(bytes, { binary: true }, () => {
        this.#takenMs = monotonicMs();
        taken();
      });
    else taken();
  }

  /** Whatever its length, it is sent where what was sent before has been read for the most part. */
  #sendText(text: Buffer, taken: () => void = () => {}, isForAll = false): void {
    if (this.#unreadBytes > this.#unreadLimit) this.#doesNotRead();
    if (!this.#open) return;
    if (this.#unreadBytes === 0) this.#takenMs = monotonicMs();
    this.#unreadBytes += text.length;
    const done = (): void => {
      this.#unreadBytes -= text.length;
      this.#takenMs = monotonicMs();
      taken();
    };
    if (isForAll && this.#socket.sendShared) this.#socket.sendShared(text, done);
    else this.#socket.send(text, { binary: false }, done);
  }

  #doesNotRead(): void {
    if (!this.#open) return;
    this.#socket.terminate();
    this.#ended('it does not read what it is sent', true);
  }

  /** Browsers answer pings by themselves, whatever their page does. */
  #ask(): void {
    this.#askedMs.push(monotonicMs());
    this.#socket.ping(String(this.#askedMs.length));
  }

  /** The least of what its answers took: a busy machine answers late, none too early. */
  #answered(data: Buffer): void {
    const askedMs = this.#askedMs[Number(data.toString('latin1', 0, 8)) - 1];
    if (askedMs !== undefined) this.roundTripMs = Math.min(this.roundTripMs ?? Infinity, monotonicMs() - askedMs);
  }

  #pinged(): void {
    if (this.#open && !this.#budget.may(1, monotonicMs())) this.refuse(...this.#tooMany());
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

  /** False: it is closed already. */
  #close(): boolean {
    if (!this.#open) return false;
    this.#open = false;
    clearTimeout(this.#admissionTimer);
    this.#newest = null;
    return true;
  }

  #broke(peer: PeerId): void {
    if (!this.#close()) return;
    this.#tellHost(() => {
      this.#host.ended(this);
      this.#host.broke(peer, this);
    });
  }

  #ended(detail: string, isAtFault = false): void {
    if (!this.#close()) return;
    this.#tellHost(() => {
      this.#host.ended(this);
      if (this.#peer !== null) this.#host.gone(this.#peer, detail, isAtFault);
      else if (isAtFault) this.#host.strangerFailed(this.address, this.#openedMs);
    });
  }

  #tellHost(tell: () => void): void {
    try {
      tell();
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
    if (!this.#budget.may(isBinary ? FRAME_COST : 1, monotonicMs())) return this.#tooMany();
    const bytes = Buffer.isBuffer(data) ? data : Buffer.from(data as ArrayBuffer);
    if (bytes.length > MESSAGE_BYTES_LIMIT) return ['tooLarge', `${bytes.length} bytes`];
    if (isBinary) return this.#relayed(new Uint8Array(bytes));
    const text = bytes.toString('utf8');
    const decoded = decodePeerMessage(text);
    if (this.#peer === null) return this.#greeted(text, decoded.ok ? decoded.value : decoded.reason);
    if (!decoded.ok) return ['malformed', decoded.reason];
    if (decoded.value.type === 'hello') return ['outOfOrder', 'a second hello'];
    if (decoded.value.type !== 'heartbeat') this.spoken.heard += 1;
    else if (decoded.value.heard !== undefined) this.spoken.confirm(decoded.value.heard);
    if (decoded.value.type === 'measured') {
      clearTimeout(this.#admissionTimer);
      this.#unreadLimit = SPARE_UNREAD_BYTES;
      this.#silenceLimitMs = SILENCE.donorMs;
    }
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
    this.#ask();
    const admitted = this.#host.admit(message, this);
    if (isRefusal(admitted)) return [admitted, 'at hello'];
    this.#peer = admitted;
    if (!this.#goesOn)
      this.#admissionTimer = setTimeout(() => this.refuse('tooLate', 'it measured nothing'), ADMISSION_LIMIT_MS);
    if (!this.#open) this.#host.gone(admitted, 'its page was closed, or lost its connection', false);
    return null;
  }

  #tooMany(): Problem {
    return ['tooManyMessages', `more than ${this.#budget.perSecond} a second beside the reports of its steps`];
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
