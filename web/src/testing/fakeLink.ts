/**
 * A `Link` in memory, for tests: the initiator offers, the other end answers, then both are open. Every event is a
 * microtask, and what is in flight to an end that closed is gone, as on a real network.
 */
import { invariant } from '../../../swarm/base.ts';
import type { LinkMeasurement } from '../../../swarm/messages/profile.ts';
import { type Link, type LinkOptions, type OpenLink, PONG_LIMIT_MS } from '../net/link.ts';

export class FakeLink implements Link {
  readonly peer: Link['peer'];
  state: Link['state'] = 'connecting';
  roundTripMs: number | null = null;
  readonly bytesPerSecond: number | null = null;
  readonly pings: number[] = [];
  readonly #options: LinkOptions;
  readonly #ends: Map<string, FakeLink>;
  readonly #name: string;
  #other: FakeLink | null = null;
  #unansweredSinceMs: number | null = null;

  /** `ends` is where the two ends of one fake network find each other by the names in their signals. */
  constructor(options: LinkOptions, ends: Map<string, FakeLink>) {
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

  async send(message: ArrayBuffer): Promise<void> {
    const other = this.#other;
    if (this.state !== 'open' || !other) throw new Error(`the link is ${this.state}`);
    const copy = message.slice(0);
    queueMicrotask(() => {
      if (other.state === 'open') other.#options.events.message(copy);
    });
  }

  async measure(messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null> {
    for (const message of messages) await this.send(message);
    return { roundTripMs: 0, bytesPerSecond: 1e6 };
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
      this.roundTripMs = 0;
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

  /** This end finds no address of its own. */
  strand(): void {
    this.#options.events.stranded();
  }

  /** This end is gone and the other does not know: a renderer that was killed. */
  vanish(): void {
    this.#other = null;
    this.break('vanished');
  }

  #meet(other: FakeLink): void {
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

/** One network; `links` lists every link ever opened on it, in order. */
export function fakeNetwork(): { readonly openLink: OpenLink; readonly links: readonly FakeLink[] } {
  const ends = new Map<string, FakeLink>();
  const links: FakeLink[] = [];
  const openLink: OpenLink = (options) => {
    const link = new FakeLink(options, ends);
    links.push(link);
    return link;
  };
  return { openLink, links };
}
