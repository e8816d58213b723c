/**
 * Connections in memory, for tests, and links of them: the initiator offers, the other end answers, then both are open.
 * Every event is a microtask, and what is in flight to an end that closed is gone, as on a real network.
 */
import { invariant } from '../../../swarm/base.ts';
import { type Connection, type ConnectionOptions, PONG_LIMIT_MS } from '../net/connection.ts';
import { linkOver, type OpenLink } from '../net/link.ts';
import type { Stranding } from '../net/peerConnection.ts';
import { AT_ONCE } from '../net/rateMeter.ts';

export class FakeConnection implements Connection {
  readonly peer: ConnectionOptions['peer'];
  state: Connection['state'] = 'connecting';
  roundTrip: Connection['roundTrip'] = null;
  /** What it says that it has to send. */
  bufferedBytes = 0;
  readonly waitingBytes = 0;
  sentMessages = 0;
  readonly pings: number[] = [];
  readonly #options: ConnectionOptions;
  readonly #ends: Map<string, FakeConnection>;
  readonly #name: string;
  #other: FakeConnection | null = null;
  #unansweredSinceMs: number | null = null;

  /** `ends` is where the two ends of one fake network find each other by the names in their signals. */
  constructor(options: ConnectionOptions, ends: Map<string, FakeConnection>) {
    this.peer = options.peer;
    this.#options = options;
    this.#ends = ends;
    this.#name = String(ends.size);
    ends.set(this.#name, this);
    if (options.initiator) queueMicrotask(() => options.events.signal(`offer ${this.#name}`));
  }

  signal(data: string): boolean {
    const [kind, name = ''] = data.split(' ');
    const other = this.#ends.get(name);
    if (this.state !== 'connecting' || kind !== (this.#options.initiator ? 'answer' : 'offer') || !other) return false;
    this.#other = other;
    if (!this.#options.initiator) queueMicrotask(() => this.#options.events.signal(`answer ${this.#name}`));
    else queueMicrotask(() => this.#meet(other));
    return true;
  }

  async left(): Promise<void> {}

  async send(message: ArrayBuffer): Promise<void> {
    const other = this.#other;
    if (this.state !== 'open' || !other) throw new Error(`the connection is ${this.state}`);
    this.sentMessages += 1;
    const copy = message.slice(0);
    queueMicrotask(() => {
      if (other.state === 'open') other.#options.events.message(copy);
    });
  }

  async marked(): Promise<number | null> {
    return this.state === 'open' ? 0 : null;
  }

  ping(nowMs: number): void {
    if (this.state !== 'open') return;
    this.pings.push(nowMs);
    this.#unansweredSinceMs ??= nowMs;
    if (nowMs - this.#unansweredSinceMs >= PONG_LIMIT_MS) {
      this.break('no answer for 15 s');
      return;
    }
    queueMicrotask(() => {
      if (this.#other?.state !== 'open') return;
      this.#unansweredSinceMs = null;
      this.roundTrip = AT_ONCE;
    });
  }

  close(): void {
    if (this.state === 'closed') return;
    this.state = 'closed';
    const other = this.#other;
    if (other) queueMicrotask(() => other.break('the other end closed the connection'));
  }

  /** The connection fails at this end. */
  break(reason: string): void {
    if (this.state === 'closed') return;
    this.close();
    this.#options.events.closed(reason);
  }

  /** This end finds no address of its own, or gets no connection. */
  strand(why: Stranding = 'noAddress'): void {
    this.#options.events.stranded(why);
  }

  /** This end is gone and the other does not know: a renderer that was killed. */
  vanish(): void {
    this.#other = null;
    this.break('vanished');
  }

  #meet(other: FakeConnection): void {
    for (const end of [this, other]) {
      if (end.state !== 'connecting') return;
    }
    invariant(other.#other === this, 'the ends found each other');
    for (const end of [this, other]) {
      end.state = 'open';
      end.#options.events.opened();
    }
  }
}

/** One network; `links` lists every connection ever opened on it, in order. */
export function fakeNetwork(): { readonly openLink: OpenLink; readonly links: readonly FakeConnection[] } {
  const ends = new Map<string, FakeConnection>();
  const links: FakeConnection[] = [];
  const openLink = linkOver((options) => {
    const link = new FakeConnection(options, ends);
    links.push(link);
    return link;
  });
  return { openLink, links };
}
