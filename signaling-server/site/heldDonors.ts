/**
 * The donors whose WebSockets end at this process. Each conversation goes through a pipe to whoever leads; where that process
 * is gone the WebSocket stays open, and its page is asked to say hello again to the next one. However many there are, that
 * one is asked to take in only a few at a time, and first those on whom a plan counted. See SPEC.md, NA2.
 */
import { Buffer } from 'node:buffer';
import { z } from 'zod';
import type { Origin } from '../donors/donorWire.ts';
import type { HeldWire } from '../donors/door.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { type Joined, joinWires } from './donorPipe.ts';
import type { Exchange } from './exchange.ts';
import { GatewayRelay } from './gatewayRelay.ts';
import { encodeOpening, wordsIn } from './opening.ts';
import type { Pipe } from './pipe.ts';
import { HeardTexts } from './sharedTexts.ts';

const HELLO_AGAIN = Buffer.from(JSON.stringify({ type: 'helloAgain' }));
/** No hello is longer. */
const HELLO_BYTES_LIMIT = 65_536;
/** From when it was asked: a page's worker may be busy. */
const HELLO_LIMIT_MS = 20_000;
/** Whose hello is awaited, or was not answered yet. */
const COMING_AT_ONCE = 64;
/** Who says no hello by then keeps nobody else waiting; nor does one whom the process that leads does not answer. */
const TURN_MS = { asked: 1_000, said: 10_000 } as const;

interface Held {
  /** Names it to other processes. */
  readonly socket: number;
  readonly wire: HeldWire;
  readonly origin: Origin;
  joined: Joined | null;
  /** It said something to a process that leads no more: until its next hello nothing of it is for anyone. */
  mustGreet: boolean;
  /** A plan counted on it. */
  isMember: boolean;
  /** When it was asked to say hello to the one that leads; null: it was not, or has said it. */
  askedMs: number | null;
}

export class HeldDonors {
  readonly #exchange: Exchange;
  /** Id of their run; null: the one that the site began with. */
  readonly #run: string | null;
  readonly #held = new Set<Held>();
  /** Those who are let through to the one that leads, and until when they keep others waiting. */
  readonly #coming = new Map<Held, number>();
  readonly #texts = new HeardTexts();
  readonly #relay: GatewayRelay;
  #sockets = 0;
  #leader: string | null = null;

  constructor(exchange: Exchange, run: string | null) {
    this.#exchange = exchange;
    this.#run = run;
    this.#relay = new GatewayRelay(exchange, run);
  }

  get count(): number {
    return this.#held.size;
  }

  /** Who leads from now on, and can be talked to; null: nobody. Called also where nothing changed. */
  follow(leader: string | null): void {
    if (leader !== this.#leader) {
      this.#leader = leader;
      this.#texts.forget();
      for (const held of this.#held) if (held.joined !== null) this.#lost(held);
    }
    const nowMs = monotonicMs();
    for (const { askedMs, wire } of this.#held)
      if (leader !== null && askedMs !== null && nowMs - askedMs > HELLO_LIMIT_MS) wire.terminate();
    this.#letCome();
  }

  came(wire: HeldWire, origin: Origin): void {
    const socket = ++this.#sockets;
    const held: Held = { socket, wire, origin, joined: null, mustGreet: false, isMember: false, askedMs: null };
    this.#held.add(held);
    this.#relay.came(socket, {
      send: (envelope, taken) => wire.send(envelope, { binary: true }, taken),
      tell: (went) => held.joined?.went(went),
    });
    wire.on('message', (data, isBinary) => this.#said(held, Buffer.isBuffer(data) ? data : Buffer.alloc(0), isBinary));
    for (const event of ['ping', 'pong'] as const)
      wire.on(event, (data) => held.joined?.ponged(data, event === 'ping'));
    wire.on('error', () => {}); // the close that follows says it
    wire.on('close', (code) => {
      this.#held.delete(held);
      held.joined?.closed(code);
      held.joined = null;
      this.#relay.gone(socket);
      this.#cameIn(held);
    });
    wire.pause(); // its hello waits
    this.#letCome();
  }

  /** Texts for many come through this pipe; false: not from a process that leads. */
  readTexts(pipe: Pipe, process: string): boolean {
    if (process !== this.#leader) return false;
    this.#texts.readFrom(pipe);
    return true;
  }

  /** Another gateway relays to a donor here; false: it is not here. */
  readRelayed(pipe: Pipe, socket: number): boolean {
    return this.#relay.accepted(pipe, socket);
  }

  /** Their pages come back, to another process where a balancer sends them there. */
  close(): void {
    for (const { wire } of this.#held) wire.terminate();
    this.#relay.close();
  }

  /** As many more as may come at once. */
  #letCome(): void {
    if (this.#leader === null) return;
    const nowMs = monotonicMs();
    for (const [held, untilMs] of this.#coming) if (nowMs > untilMs) this.#coming.delete(held);
    for (const isMember of [true, false])
      for (const held of this.#held) {
        if (this.#coming.size >= COMING_AT_ONCE) return;
        if (held.isMember === isMember && held.joined === null && held.askedMs === null) this.#attach(held, nowMs);
      }
  }

  #attach(held: Held, nowMs: number): void {
    this.#coming.set(held, nowMs + TURN_MS.asked);
    if (held.mustGreet) {
      held.askedMs = nowMs;
      held.wire.send(HELLO_AGAIN, { binary: false }, () => {});
    } else this.#join(held);
  }

  /** It is answered, or gone: it is the next one's turn. */
  #cameIn(held: Held): void {
    if (this.#coming.delete(held)) this.#letCome();
  }

  #join(held: Held): void {
    if (this.#leader === null) return;
    const { wire, origin, socket } = held;
    const { address, isHere } = origin;
    const named = this.#run === null ? {} : { run: this.#run };
    const pipe = this.#exchange.open(this.#leader, encodeOpening({ what: 'donor', address, isHere, socket, ...named }));
    const joined = joinWires(pipe, wire, {
      bytesRead: origin.bytesRead,
      texts: this.#texts,
      onAnswer: () => this.#cameIn(held),
      onMember: () => {
        held.isMember = true;
      },
      onWays: (ways) => this.#relay.toldWays(socket, ways),
      onSenders: (senders) => this.#relay.toldSenders(socket, senders),
      onLost: () => {
        if (held.joined === joined) this.#lost(held, false);
      },
    });
    held.joined = joined;
    wire.resume();
  }

  #lost(held: Held, isOpen = true): void {
    if (isOpen) held.joined?.leave();
    held.joined = null;
    held.mustGreet = true;
    held.askedMs = null;
    this.#coming.delete(held);
  }

  #said(held: Held, data: Buffer, isBinary: boolean): void {
    if (held.joined === null && !isBinary && isHello(data)) {
      // While nobody leads nobody hears it: it is asked again.
      held.mustGreet = this.#leader === null;
      held.askedMs = null;
      this.#relay.restart(held.socket);
      this.#join(held);
    }
    if (isBinary && this.#relayed(held, data)) return;
    if (this.#coming.has(held)) this.#coming.set(held, monotonicMs() + TURN_MS.said);
    held.joined?.said(data, isBinary);
  }

  /** False: it is for the process that leads. */
  #relayed({ socket, wire, joined }: Held, data: Buffer): boolean {
    const passed = this.#relay.accept(socket, data);
    if (passed === null || passed === 'passed') return passed !== null;
    if (joined === null) wire.terminate();
    else joined.went({ sent: [], came: false, fault: passed });
    return true;
  }
}

const helloSchema = z.object({ type: z.literal('hello') });
const isHello = (data: Buffer): boolean => data.length <= HELLO_BYTES_LIMIT && wordsIn(helloSchema, data) !== null;
