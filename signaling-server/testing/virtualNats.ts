/**
 * A NATS in memory, for sites whose network does what the test wants: answers that come late or never, requests that are
 * done after whoever asked has given up, links that are cut. Each server of the site has a link of its own.
 */
import { at, invariant, type Random } from '../../swarm/base.ts';
import type { JournalMessage, JournalStream } from '../site/journalStream.ts';
import type { ObjectFolder } from '../site/objectFolder.ts';
import type { SharedSite } from '../site/sharedSite.ts';

/** Who asks gives up then. */
const LIMIT_MS = 2_000;
const LOOK_MS = 20;
const CHUNK_MESSAGES = 50;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class VirtualNats {
  readonly #messages: JournalMessage[] = [];
  readonly #deleted = new Set<number>();
  #first = 1;
  readonly #folders = { blobs: new Map<string, Buffer>(), snapshots: new Map<string, Buffer>() };

  get messages(): readonly JournalMessage[] {
    return this.#messages;
  }

  /** Number of the newest message. */
  get last(): number {
    return this.#messages.length;
  }

  get first(): number {
    return this.#first;
  }

  append(message: JournalMessage): void {
    if (message.sequence !== this.last + 1) throw new Error(`wrong last sequence: ${this.last}`);
    this.#messages.push(message);
  }

  /** By a person's hand. */
  delete(sequence: number): void {
    this.#deleted.add(sequence);
  }

  has(sequence: number): boolean {
    return !this.#deleted.has(sequence);
  }

  purge(below: number): void {
    this.#first = Math.max(this.#first, below);
  }

  folder(name: 'blobs' | 'snapshots'): Map<string, Buffer> {
    return this.#folders[name];
  }
}

/** What may go wrong on a link, as chances and times; the link draws by itself. */
interface LinkFaults {
  readonly random: Random;
  /** A request, and an answer, takes up to so long. */
  readonly delayMs: number;
  /** Of a request or an answer: it never comes. */
  readonly loss: number;
}

/** One server's way to NATS. */
export class VirtualLink {
  /** Nothing comes through, for as long as it is true. */
  isCut = false;
  readonly #nats: VirtualNats;
  readonly #faults: LinkFaults;
  #busyUntil = 0;
  #nowMs: () => number;
  messageBytes = 2_000;

  constructor(nats: VirtualNats, faults: LinkFaults, nowMs: () => number) {
    this.#nats = nats;
    this.#faults = faults;
    this.#nowMs = nowMs;
  }

  get shared(): SharedSite {
    return { journal: this.#journal(), blobs: this.#folder('blobs'), snapshots: this.#folder('snapshots') };
  }

  get #isLost(): boolean {
    return this.isCut || this.#faults.random() < this.#faults.loss;
  }

  /** Requests come one after the other, as on one connection. What is lost on the way back has been done. */
  async #asked<T>(work: () => T): Promise<T> {
    const { random, delayMs } = this.#faults;
    const arrivesAt = Math.max(this.#busyUntil, this.#nowMs() + random() * delayMs);
    this.#busyUntil = arrivesAt;
    const answer = (async () => {
      await pause(arrivesAt - this.#nowMs());
      if (this.#isLost) return pause(LIMIT_MS * 2).then(() => Promise.reject(new Error('lost')));
      const done = { result: await work() };
      await pause(random() * delayMs);
      if (this.#isLost) return pause(LIMIT_MS * 2).then(() => Promise.reject(new Error('lost')));
      return done.result;
    })();
    answer.catch(() => {});
    const limit = pause(LIMIT_MS).then(() => Promise.reject(new Error('timeout')));
    limit.catch(() => {});
    return Promise.race([answer, limit]) as Promise<T>;
  }

  #journal(): JournalStream {
    const nats = this.#nats;
    const asked = <T>(work: () => T): Promise<T> => this.#asked(work);
    const bounds: JournalStream['bounds'] = () => asked(() => ({ first: nats.first, last: nats.last }));
    return {
      name: 'journal',
      messageBytes: this.messageBytes,
      append: (message) => asked(() => nats.append(message)),
      bounds,
      async *read(from) {
        const { first, last } = await bounds();
        for (let next = Math.max(from, first); next <= last; ) {
          const end = Math.min(last, next + CHUNK_MESSAGES - 1);
          const begin = next;
          const chunk = await asked(() => nats.messages.slice(begin - 1, end));
          invariant(chunk.length > 0, 'a chunk has messages');
          yield* chunk.filter(({ sequence }) => nats.has(sequence));
          next = end + 1;
        }
      },
      follow: (from, came) => {
        let next = from;
        const look = setInterval(() => {
          while (!this.isCut && next <= nats.last) {
            next = Math.max(next, nats.first);
            const message = at(nats.messages, next - 1);
            next += 1;
            if (nats.has(message.sequence)) came(message);
          }
        }, LOOK_MS);
        return () => {
          clearInterval(look);
          next = Infinity;
        };
      },
      purge: (below) => asked(() => nats.purge(below)),
    };
  }

  #folder(name: 'blobs' | 'snapshots'): ObjectFolder {
    const objects = this.#nats.folder(name);
    const asked = <T>(work: () => T): Promise<T> => this.#asked(work);
    return {
      async put(key, chunks) {
        const bytes = Buffer.concat(await toArray(chunks));
        await asked(() => objects.set(key, bytes));
      },
      async get(key) {
        const bytes = await asked(() => objects.get(key));
        if (bytes === undefined) return null;
        return (async function* () {
          yield bytes;
        })();
      },
      has: (key) => asked(() => objects.has(key)),
      remove: (key) => asked(() => void objects.delete(key)),
      list: () => asked(() => [...objects.keys()].sort()),
    };
  }
}

async function toArray<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
