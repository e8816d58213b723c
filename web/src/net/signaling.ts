/**
 * This donor's conversation with the server: `hello` first on every connection, `welcome` or `refused` as the answer,
 * then typed messages both ways. A refusal is the server's last word and ends this conversation, also where it says when
 * to ask again; a connection that is merely gone comes back by itself, and what was said goes on where it was as long as
 * the server still knows this tab.
 */
import type { PeerId, Random } from '../../../swarm/base.ts';
import type { Limits } from '../../../swarm/limits.ts';
import {
  decodeServerMessage,
  type PeerMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
} from '../../../swarm/messages/messages.ts';
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import type { RefusalReason } from '../../../swarm/messages/refusals.ts';
import { Spoken } from '../../../swarm/messages/spoken.ts';
import { type DonorWebSocket, RetrySocket } from './socket.ts';

/** open: the server has said welcome. */
export type SignalingState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  /** isKept: what this tab has may still be wanted, by a server that is back soon. */
  | { readonly kind: 'closed'; readonly pauseMs: number; readonly isKept: boolean }
  | {
      readonly kind: 'refused';
      readonly reason: RefusalReason;
      readonly detail: string;
      /** When to ask again; null: this is final. */
      readonly retrySeconds: number | null;
    };

/** A server that is away for so long is not waited for with what this tab has. */
export const KEPT_MS = 600_000;
/** Of what the server may not have heard, so many characters are kept. */
const SPOKEN_LIMIT = 2_097_152;

/**
 * Where a server does not know this tab any more, its worker hears so later than the page: what it says until it measures
 * itself, or says again what it measured, is still meant for the server before. Only this is for any.
 */
const BEFORE_MEASURED: readonly PeerMessage['type'][] = ['measured', 'limits', 'heartbeat'];

/** What the link that was opened lets its donor in by. */
export interface Entry {
  /** Where the run is by invitation. */
  readonly invite: string | null;
  /** Where the server opened the link itself. */
  readonly own: string | null;
}

export interface SignalingOptions {
  readonly adapter: AdapterProfile;
  readonly entry: Entry;
  /** By which the server finds what this browser measured last; null: it remembers nothing. */
  readonly key: string | null;
  /** What this donor gives, asked at each greeting. */
  limits(): Limits;
  open(): DonorWebSocket;
  wait(milliseconds: number): Promise<void>;
  readonly random: Random;
  readonly now: () => number;
  onState(state: SignalingState): void;
  /** Every message but `refused`, `welcome` first on each connection. */
  onMessage(message: ServerMessage): void;
  /** A binary message after `welcome`: what the server relays. */
  onBytes(bytes: ArrayBuffer): void;
}

/** Owns the socket; `close()` ends it. */
export class Signaling {
  readonly #options: SignalingOptions;
  readonly #socket: RetrySocket;
  #welcomed = false;
  /** In this conversation. */
  #hasMeasured = false;
  /** Who this tab was, and until when it may be it again. */
  #resume: { readonly peer: PeerId; readonly key: string } | null = null;
  #keptUntilMs = 0;
  #spoken = new Spoken<string>();
  /** Messages of the server that were not understood, or came before its welcome. */
  malformedMessages = 0;

  constructor(options: SignalingOptions) {
    this.#options = options;
    const { open, wait, random, now, onState } = options;
    onState({ kind: 'connecting' });
    this.#socket = new RetrySocket({
      open,
      wait,
      random,
      now,
      isAwaited: () => this.#resume !== null,
      onOpen: () => this.#greet(),
      onText: (text) => this.#onText(text),
      onBytes: (bytes) => {
        if (this.#welcomed) options.onBytes(bytes);
        else this.malformedMessages += 1;
      },
      onClosed: (pauseMs) => this.#broke(pauseMs),
    });
  }

  /**
   * False where the server has not said welcome on this connection; where it goes on with this tab it hears of it then. False
   * also for what can only be meant for a server before this one, which is forgotten.
   */
  send(message: PeerMessage): boolean {
    if (this.#welcomed && !this.#hasMeasured && !BEFORE_MEASURED.includes(message.type)) return false;
    if (message.type === 'measured') this.#hasMeasured = true;
    const { heard } = this.#spoken;
    const text = JSON.stringify(message.type === 'heartbeat' ? { ...message, heard } : message);
    if (message.type !== 'heartbeat' && this.#resume !== null) this.#spoken.say(text, SPOKEN_LIMIT);
    return this.#welcomed && this.#socket.send(text);
  }

  /** What is to be relayed; false as for `send`. */
  sendBytes(bytes: Uint8Array<ArrayBuffer>): boolean {
    return this.#welcomed && this.#hasMeasured && this.#socket.send(bytes);
  }

  /** This tab is about to stand still or to go: the server need not find out by its silence. If it wakes, it comes back. */
  drop(): void {
    this.#socket.drop();
  }

  close(): void {
    this.#welcomed = false;
    this.#socket.close();
  }

  /** Nobody hears this tab until it is welcomed again. */
  #broke(pauseMs: number): void {
    const { now, onState } = this.#options;
    if (this.#welcomed) this.#keptUntilMs = now() + KEPT_MS;
    this.#welcomed = false;
    if (now() >= this.#keptUntilMs) this.#resume = null;
    onState({ kind: 'closed', pauseMs, isKept: this.#resume !== null });
  }

  #greet(): void {
    const { adapter, entry, key, limits } = this.#options;
    const { invite, own } = entry;
    const hello: PeerMessage = {
      type: 'hello',
      protocol: PROTOCOL_VERSION,
      adapter,
      limits: limits(),
      ...(invite ? { invite } : {}),
      ...(own ? { own } : {}),
      ...(key ? { key } : {}),
      ...(this.#resume ? { resume: { ...this.#resume, heard: this.#spoken.heard } } : {}),
    };
    this.#socket.send(JSON.stringify(hello));
  }

  #onText(text: string): void {
    const { onMessage } = this.#options;
    const decoded = decodeServerMessage(text);
    if (!decoded.ok) {
      this.malformedMessages += 1;
      this.#spoken.heard += 1;
      // A server whose greeting is not understood speaks another protocol: nothing after it would be understood either.
      if (!this.#welcomed) this.#end('wrongProtocol', decoded.reason, null);
      return;
    }
    const message = decoded.value;
    if (message.type === 'refused') this.#end(message.reason, message.detail, message.retrySeconds);
    else if (message.type === 'welcome') this.#welcome(message);
    else if (message.type === 'helloAgain') {
      this.#broke(0);
      this.#greet();
    } else if (this.#welcomed) {
      if (message.type !== 'snapshot') this.#spoken.heard += 1;
      onMessage(message);
    } else this.malformedMessages += 1;
  }

  #welcome(message: Extract<ServerMessage, { type: 'welcome' }>): void {
    if (message.heard === null) {
      this.#spoken = new Spoken();
      this.#hasMeasured = false;
    }
    const unheard = this.#spoken.unheard(message.heard ?? 0);
    this.#resume = unheard && { peer: message.peer, key: message.resumeKey };
    if (unheard === null) {
      this.drop(); // more was said meanwhile than is kept: this tab comes again, as another one
      return;
    }
    this.#welcomed = true;
    for (const text of unheard) this.#socket.send(text);
    this.#options.onState({ kind: 'open' });
    this.#options.onMessage(message);
  }

  #end(reason: RefusalReason, detail: string, retrySeconds: number | null): void {
    this.close();
    this.#options.onState({ kind: 'refused', reason, detail, retrySeconds });
  }
}
