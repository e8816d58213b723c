/**
 * The donors whose WebSockets end at this process. Each conversation goes through a pipe to whoever leads; where that process
 * is gone the WebSocket stays open, and its page is asked to say hello again to the next one. Rules NA in SPEC.md.
 */
import { Buffer } from 'node:buffer';
import type { Origin } from '../donors/donorWire.ts';
import type { HeldWire } from '../donors/door.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { type Joined, joinWires } from './donorPipe.ts';
import type { Exchange } from './exchange.ts';
import { encodeOpening } from './opening.ts';

const HELLO_AGAIN = Buffer.from(JSON.stringify({ type: 'helloAgain' }));
/** No hello is longer. */
const HELLO_BYTES_LIMIT = 65_536;
/** From when it was asked: a page's worker may be busy. */
const HELLO_LIMIT_MS = 20_000;

interface Held {
  readonly wire: HeldWire;
  readonly origin: Origin;
  joined: Joined | null;
  /** It said something to a process that leads no more: until its next hello nothing of it is for anyone. */
  mustGreet: boolean;
  /** When it was asked to; null: it was not, or said hello since. */
  askedMs: number | null;
}

export class HeldDonors {
  readonly #exchange: Exchange;
  readonly #held = new Set<Held>();
  #leader: string | null = null;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  get count(): number {
    return this.#held.size;
  }

  /** Who leads from now on, and can be talked to; null: nobody. Called also where nothing changed. */
  follow(leader: string | null): void {
    const isOther = leader !== this.#leader;
    this.#leader = leader;
    for (const held of this.#held) {
      if (isOther && held.joined !== null) this.#lost(held);
      if (leader !== null && held.joined === null) this.#attach(held);
    }
  }

  came(wire: HeldWire, origin: Origin): void {
    const held: Held = { wire, origin, joined: null, mustGreet: false, askedMs: null };
    this.#held.add(held);
    wire.on('message', (data, isBinary) => this.#said(held, Buffer.isBuffer(data) ? data : Buffer.alloc(0), isBinary));
    for (const event of ['ping', 'pong'] as const)
      wire.on(event, (data) => held.joined?.ponged(data, event === 'ping'));
    wire.on('error', () => {}); // the close that follows says it
    wire.on('close', (code) => {
      this.#held.delete(held);
      held.joined?.closed(code);
      held.joined = null;
    });
    if (this.#leader !== null) this.#attach(held);
    else wire.pause(); // its hello waits
  }

  /** Their pages come back, to another process where a balancer sends them there. */
  close(): void {
    for (const { wire } of this.#held) wire.terminate();
  }

  #attach(held: Held): void {
    if (!held.mustGreet) this.#join(held);
    else if (held.askedMs !== null) {
      if (monotonicMs() - held.askedMs > HELLO_LIMIT_MS) held.wire.terminate();
    } else {
      held.askedMs = monotonicMs();
      held.wire.send(HELLO_AGAIN, { binary: false }, () => {});
    }
  }

  #join(held: Held): void {
    if (this.#leader === null) return;
    const { wire, origin } = held;
    const { address, isHere } = origin;
    const pipe = this.#exchange.open(this.#leader, encodeOpening({ what: 'donor', address, isHere }));
    const joined = joinWires(pipe, wire, origin.bytesRead, () => {
      if (held.joined === joined) this.#lost(held, false);
    });
    held.joined = joined;
    wire.resume();
  }

  #lost(held: Held, isOpen = true): void {
    if (isOpen) held.joined?.leave();
    held.joined = null;
    held.mustGreet = true;
    held.askedMs = null;
  }

  #said(held: Held, data: Buffer, isBinary: boolean): void {
    if (held.joined === null && !isBinary && isHello(data)) {
      held.mustGreet = false;
      held.askedMs = null;
      this.#join(held);
    }
    held.joined?.said(data, isBinary);
  }
}

function isHello(data: Buffer): boolean {
  if (data.length > HELLO_BYTES_LIMIT) return false;
  try {
    const message: unknown = JSON.parse(data.toString('utf8'));
    return typeof message === 'object' && message !== null && 'type' in message && message.type === 'hello';
  } catch {
    return false;
  }
}
