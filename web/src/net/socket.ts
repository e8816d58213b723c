/**
 * A WebSocket that comes back: one connection at a time, the next one after a growing, jittered pause, for as long as
 * it takes. It knows nothing of what is said. Clock, waiting and socket are given, so that tests have no real time.
 */
import { doubledMs, type Random } from '../../../swarm/base.ts';

/** What is used of a browser's WebSocket. */
export interface DonorWebSocket {
  binaryType: BinaryType;
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
}

export const RETRY_FIRST_MS = 500;
export const RETRY_MOST_MS = 15_000;
/** While others may wait for what this tab has: much less than a server does (`SILENCE` of the deadlines). */
export const AWAITED_RETRY_MOST_MS = 1_000;
/** A connection that lived so long was a good one: the next pause is the first one again. */
export const PROVEN_MS = 10_000;
/** A connection that is not open by then is given up; browsers themselves wait up to minutes. */
export const OPEN_LIMIT_MS = 20_000;

/** The pause after so many failures in a row: doubling, with half of it random so that a swarm does not come back at once. */
export function retryMs(failures: number, random: Random, mostMs = RETRY_MOST_MS): number {
  return doubledMs(RETRY_FIRST_MS, mostMs, failures) * (0.5 + 0.5 * random());
}

interface RetrySocketOptions {
  open(): DonorWebSocket;
  /** Not a timer of the page where that can be avoided: a hidden page's are late. */
  wait(milliseconds: number): Promise<void>;
  readonly random: Random;
  readonly now: () => number;
  /** Whether others may wait for this tab. */
  isAwaited?(): boolean;
  onOpen(): void;
  onText(text: string): void;
  onBytes?(bytes: ArrayBuffer): void;
  /** The connection is gone, or could not be made; the next one begins after the pause. */
  onClosed(pauseMs: number): void;
}

/** Owns its WebSocket; `close()` ends it, and no event comes after. */
export class RetrySocket {
  readonly #options: RetrySocketOptions;
  #socket: DonorWebSocket | null = null;
  #isOpen = false;
  #failures = 0;
  #ended = false;

  constructor(options: RetrySocketOptions) {
    this.#options = options;
    this.#connect();
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** False where there is no connection now; nothing is kept for the next one. */
  send(data: string | Uint8Array<ArrayBuffer>): boolean {
    if (!this.#isOpen) return false;
    this.#socket?.send(data);
    return true;
  }

  /** Ends this connection alone: the other end hears of it at once. */
  drop(): void {
    this.#socket?.close();
  }

  close(): void {
    this.#ended = true;
    this.#isOpen = false;
    this.#socket?.close();
    this.#socket = null;
  }

  #connect(): void {
    const { open, wait, now, onOpen, onText, onBytes } = this.#options;
    const socket = open();
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    let openedMs: number | null = null;
    const isCurrent = (): boolean => !this.#ended && this.#socket === socket;
    socket.onopen = () => {
      if (!isCurrent()) return;
      openedMs = now();
      this.#isOpen = true;
      onOpen();
    };
    socket.onmessage = ({ data }) => {
      if (!isCurrent()) return;
      if (typeof data === 'string') onText(data);
      else if (data instanceof ArrayBuffer) onBytes?.(data);
    };
    socket.onclose = () => {
      if (isCurrent()) this.#retry(openedMs);
    };
    void wait(OPEN_LIMIT_MS).then(() => {
      if (!isCurrent() || openedMs !== null) return;
      socket.close();
      this.#retry(null);
    });
  }

  #retry(openedMs: number | null): void {
    const { wait, random, now, isAwaited, onClosed } = this.#options;
    this.#socket = null;
    this.#isOpen = false;
    if (openedMs !== null && now() - openedMs >= PROVEN_MS) this.#failures = 0;
    const pauseMs = retryMs(this.#failures, random, isAwaited?.() ? AWAITED_RETRY_MOST_MS : RETRY_MOST_MS);
    this.#failures += 1;
    onClosed(pauseMs);
    void wait(pauseMs).then(() => {
      if (!this.#ended && this.#socket === null) this.#connect();
    });
  }
}

/** The browser's WebSocket to a path of this page's own server. */
export function openWebSocket(path: string): DonorWebSocket {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return new WebSocket(url);
}
