/**
 * Direct connections of a simulation: `Link` with the product's own gate (`Flow`) over channels that take time. Both ends
 * find each other by the names in their signals. Small messages have a channel of their own and overtake large ones. An
 * end that is gone without a word is missed by the other one's heartbeats.
 */
import type { PeerId } from '../../../../swarm/base.ts';
import { decodeFrame, HEADER_BYTES } from '../../../../swarm/messages/frame.ts';
import type { LinkMeasurement } from '../../../../swarm/messages/profile.ts';
import { type ConnectionOptions, PONG_LIMIT_MS } from '../../net/connection.ts';
import { Flow, type FlowChannel } from '../../net/flow.ts';
import type { Link, OpenLink } from '../../net/link.ts';
import type { Process } from './machine.ts';
import type { Line, Network } from './network.ts';
import type { LinkPace } from './pace.ts';

/** So long an end takes to find its addresses. */
const GATHERING_MS = 80;
const BYTES_PER_MS = 5_000;
/** Messages of at most so many bytes overtake longer ones. */
const QUICK_BYTES = 200;

/** Until when a line is busy; each channel has its own, unless the link has a pace, or its sender shares its line. */
interface Way {
  readonly pace: LinkPace | null;
  readonly busy: { freeMs: number };
  onMessage?(message: ArrayBuffer): void;
}

/** What a channel holds leaves it at the line's rate. */
class VirtualChannel implements FlowChannel {
  bufferedAmount = 0;
  bufferedAmountLowThreshold = 0;
  readonly #process: Process;
  readonly #line: Line;
  readonly #onMessage: (message: ArrayBuffer) => void;
  readonly #listeners = new Set<() => void>();
  readonly #way: Way;

  constructor(process: Process, line: Line, way: Way, onMessage: (message: ArrayBuffer) => void) {
    this.#process = process;
    this.#line = line;
    this.#way = way;
    this.#onMessage = onMessage;
  }

  send(message: ArrayBuffer): void {
    const { agenda } = this.#process.machine;
    const copy = message.slice(0);
    this.bufferedAmount += copy.byteLength;
    const { pace, busy } = this.#way;
    this.#way.onMessage?.(copy);
    // A cluster's links carry tensors: it knows of no headers.
    const bytes = copy.byteLength - (pace ? HEADER_BYTES : 0);
    busy.freeMs = Math.max(busy.freeMs, agenda.nowMs) + bytes / (pace?.bytesPerMs ?? BYTES_PER_MS);
    const takesMs = busy.freeMs - agenda.nowMs;
    this.#line.carry(frameName(copy), () => this.#onMessage(copy), takesMs + (pace?.latencyMs ?? 0));
    this.#process.after(takesMs, () => this.#left(copy.byteLength));
  }

  addEventListener(_type: 'bufferedamountlow', listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: 'bufferedamountlow', listener: () => void): void {
    this.#listeners.delete(listener);
  }

  #left(bytes: number): void {
    const wasHigh = this.bufferedAmount > this.bufferedAmountLowThreshold;
    this.bufferedAmount -= bytes;
    if (wasHigh && this.bufferedAmount <= this.bufferedAmountLowThreshold) for (const told of this.#listeners) told();
  }
}

function frameName(message: ArrayBuffer): string {
  const frame = decodeFrame(message);
  return frame.ok ? `frame ${frame.value.kind}` : 'frame';
}

/** All links of a simulation, by the name that their signals have for them. */
export class LinkSwitch {
  readonly #network: Network;
  readonly #ends: VirtualLink[] = [];

  constructor(network: Network) {
    this.#network = network;
  }

  /** For one tab. */
  opener(process: Process): OpenLink {
    return (options) => {
      const link = new VirtualLink(this.#network, process, options, this.#ends.length, (name) => this.#ends[name]);
      this.#ends.push(link);
      return link;
    };
  }

  /** The ends that are open. */
  open(): VirtualLink[] {
    return this.#ends.filter(({ state }) => state === 'open');
  }

  /** The tab is gone: some connections say goodbye, the others are missed. */
  tabEnded(process: Process, isSilent: boolean): void {
    for (const link of this.#ends) if (link.process === process && !isSilent) link.close();
  }
}

export class VirtualLink implements Link {
  readonly peer: PeerId;
  readonly process: Process;
  readonly initiates: boolean;
  state: Link['state'] = 'connecting';
  roundTripMs: number | null = null;
  bytesPerSecond: number | null = null;
  readonly windowBytes = null;
  readonly streams = 1;
  readonly #options: ConnectionOptions;
  readonly #network: Network;
  readonly #name: number;
  readonly #find: (name: number) => VirtualLink | undefined;
  #other: VirtualLink | null = null;
  #beats: Line | null = null;
  #flows: { readonly frames: Flow; readonly quick: Flow } | null = null;
  #unansweredSinceMs: number | null = null;

  constructor(
    network: Network,
    process: Process,
    options: ConnectionOptions,
    name: number,
    find: (name: number) => VirtualLink | undefined,
  ) {
    this.peer = options.peer;
    this.process = process;
    this.initiates = options.initiator;
    this.#options = options;
    this.#network = network;
    this.#name = name;
    this.#find = find;
    if (options.initiator) process.after(GATHERING_MS, () => this.#signal('offer'));
  }

  openStreams(): void {}

  signal(data: string): boolean {
    const [kind, name = ''] = data.split(' ');
    const other = this.#find(Number(name));
    if (this.state !== 'connecting' || kind !== (this.initiates ? 'answer' : 'offer') || !other) return false;
    this.#other = other;
    if (!this.initiates) this.process.after(GATHERING_MS, () => this.#signal('answer'));
    else this.#meet(other);
    return true;
  }

  async send(message: ArrayBuffer, hasLeft?: boolean): Promise<void> {
    if (!this.#flows) throw new Error(`the link to ${this.peer} is ${this.state}`);
    const flow = this.#flows[message.byteLength <= QUICK_BYTES ? 'quick' : 'frames'];
    await flow.send(message);
    if (hasLeft) await flow.left();
  }

  async measure(messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null> {
    for (const message of messages) await this.#flows?.frames.send(message);
    return this.state === 'open' ? { roundTripMs: this.roundTripMs, bytesPerSecond: 1_000 * BYTES_PER_MS } : null;
  }

  ping(nowMs: number): void {
    const other = this.#other;
    if (this.state !== 'open' || !other) return;
    this.#unansweredSinceMs ??= nowMs;
    if (nowMs - this.#unansweredSinceMs >= PONG_LIMIT_MS) this.lose(`no answer for ${PONG_LIMIT_MS / 1000} s`);
    else this.#beats?.carry('ping', () => other.#answer(nowMs));
  }

  close(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    for (const flow of Object.values(this.#flows ?? {})) flow.close(`the link to ${this.peer} is closed`);
    this.#flows = null;
    const other = this.#other;
    if (other) this.#beats?.carry('goodbye', () => other.lose('the other end closed the connection'));
  }

  /** It fails at this end. */
  lose(reason: string): void {
    if (this.state === 'closed') return;
    this.close();
    this.#options.events.closed(reason);
  }

  /** It fails at both ends, each at its own time. */
  cutOff(): void {
    const other = this.#other;
    for (const end of [this, other])
      end?.process.after(this.#network.delayMs() * 10, () => end.lose('Ice connection failed.'));
  }

  #signal(kind: 'offer' | 'answer'): void {
    if (this.state === 'connecting') this.#options.events.signal(`${kind} ${this.#name}`);
  }

  /** The answer is here: the connection is made, and the other end sees it a moment later. */
  #meet(other: VirtualLink): void {
    const line = this.#network.line(this.process.machine, other.process);
    line.carry('connected', () => {
      if (other.state !== 'connecting' || this.state !== 'connecting') return;
      other.#open(this);
      this.process.after(0, () => this.#open(other));
    });
  }

  #open(other: VirtualLink): void {
    if (this.state !== 'connecting') return;
    const pace = this.#network.pace?.link(other.peer, this.peer) ?? null;
    const shared: Way = this.#sharedWay(pace);
    const channel = (): Flow => {
      const line = this.#network.line(this.process.machine, other.process);
      const way = pace ? shared : { pace, busy: { freeMs: 0 } };
      return new Flow(new VirtualChannel(this.process, line, way, (message) => other.#take(message)));
    };
    this.#flows = { frames: channel(), quick: channel() };
    this.#beats = this.#network.line(this.process.machine, other.process);
    this.state = 'open';
    this.#options.events.opened();
  }

  #sharedWay(pace: LinkPace | null): Way {
    const name = pace?.line;
    if (name === undefined) return { pace, busy: { freeMs: 0 } };
    const busy = this.#network.ways.get(name) ?? { freeMs: 0 };
    this.#network.ways.set(name, busy);
    return { pace, busy, onMessage: (message) => this.#network.onLine(name, message) };
  }

  #take(message: ArrayBuffer): void {
    if (this.state === 'open') this.#options.events.message(message);
  }

  #answer(sentMs: number): void {
    const other = this.#other;
    if (this.state === 'open' && other) this.#beats?.carry('pong', () => other.#onPong(sentMs));
  }

  #onPong(sentMs: number): void {
    this.#unansweredSinceMs = null;
    this.roundTripMs = this.process.now() - sentMs;
  }
}
