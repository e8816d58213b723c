/**
 * What the leader writes, on its way into the journal. One message is sent at a time, with the number that it must become,
 * and the next one when that one is known to be there: were two on their way, the second one could follow another leader's.
 * Transactions that come meanwhile share the next entry.
 */
import { totalOf } from '../../swarm/base.ts';
import { JOURNAL_GONE, NotKept } from '../files/storageProblem.ts';
import { pause } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import { messagesOf, type Transaction } from './entries.ts';
import { JournalGone, type JournalMessage, type JournalStream } from './journalStream.ts';

/** Written and not kept: more is not written. */
const QUEUED_BYTES = 64 * 2 ** 20;
/** Of transactions in one entry, but for a larger one by itself. */
const ENTRY_BYTES = 256 * 1024;
/** What is not kept by then is told to whoever asked. */
const STALL_MS = 2_000;
export const RETRY_MS = 500;

export const SILENT = 'NATS does not answer';

interface WriterHost {
  /** Another leads. */
  fenced(): void;
  stalls(): void;
  readonly log: Log;
}

interface Queued extends Transaction {
  readonly sizeBytes: number;
}

interface Waiting {
  /** The transaction up to which everything has to be kept. */
  readonly after: number;
  readonly say: () => void;
  readonly drop: () => void;
}

export class Writer {
  readonly #stream: JournalStream;
  readonly #by: string;
  readonly #host: WriterHost;
  #entries: number;
  /** The newest message that is this writer's own, or that it began after. */
  #tail: number;
  #kept: number;
  #written: number;
  #inFlight: JournalMessage | null = null;
  readonly #queue: Queued[] = [];
  #queuedBytes = 0;
  #isSending = false;
  #isClosed = false;
  #problem = SILENT;
  readonly #waiting: Waiting[] = [];
  #stallTimer: NodeJS.Timeout | undefined;

  /** `lead`: the message that says that it leads; `applied`: the last transaction before it. */
  constructor(
    stream: JournalStream,
    { by, entries, lead, applied }: { by: string; entries: number; lead: number; applied: number },
    host: WriterHost,
  ) {
    this.#stream = stream;
    this.#by = by;
    this.#entries = entries;
    this.#tail = lead;
    this.#kept = applied;
    this.#written = applied;
    this.#host = host;
  }

  /** Number of the newest message that is known to be this writer's, with all that it follows. */
  get tail(): number {
    return this.#tail;
  }

  get entries(): number {
    return this.#entries;
  }

  get isKept(): boolean {
    return this.#kept === this.#written;
  }

  /** Transactions that are not kept yet. */
  get unkept(): number {
    return this.#written - this.#kept;
  }

  /** Why what waits is not kept. */
  get problem(): string {
    return this.#problem;
  }

  /** Throws where no more may wait. */
  needRoom(): void {
    if (this.#queuedBytes > QUEUED_BYTES) throw new NotKept(this.#problem);
  }

  write(transaction: Transaction): void {
    const sizeBytes = JSON.stringify(transaction.writes).length;
    this.#queue.push({ ...transaction, sizeBytes });
    this.#queuedBytes += sizeBytes;
    this.#written = transaction.number;
    this.#stallTimer ??= setTimeout(() => this.#host.stalls(), STALL_MS);
    if (!this.#isSending) void this.#sendAll();
  }

  whenKept(say: () => void, drop: () => void): void {
    if (this.isKept && this.#waiting.length === 0) say();
    else this.#waiting.push({ after: this.#written, say, drop });
  }

  /** A message of the journal, read back. */
  readBack(message: JournalMessage): void {
    if (this.#isClosed || message.sequence <= this.#tail) return;
    if (this.#inFlight === null || !isSame(this.#inFlight, message)) this.#host.fenced();
  }

  /** What waits is dropped. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#stallTimer);
    this.#queue.length = 0;
    for (const { drop } of this.#waiting.splice(0)) drop();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    while (!this.#isClosed && this.#queue.length > 0) {
      const transactions = this.#next();
      const entry = messagesOf(
        { type: 'writes', transactions },
        { by: this.#by, entry: this.#entries },
        this.#stream.messageBytes,
      );
      this.#entries += 1;
      for (const bytes of entry) {
        const message = { sequence: this.#tail + 1, bytes };
        if (!(await this.#sent(message))) return;
        this.#tail = message.sequence;
      }
      this.#queuedBytes -= totalOf(transactions, ({ sizeBytes }) => sizeBytes);
      this.#keep(transactions.at(-1)?.number ?? this.#kept);
    }
    this.#isSending = false;
  }

  /** Of the queue, what fits in one entry; one at least. */
  #next(): Queued[] {
    let count = 0;
    for (let sizeBytes = 0; count < this.#queue.length; count++) {
      sizeBytes += this.#queue[count]?.sizeBytes ?? 0;
      if (count > 0 && sizeBytes > ENTRY_BYTES) break;
    }
    return this.#queue.splice(0, count);
  }

  /** Whether it is there, and this writer may go on. */
  async #sent(message: JournalMessage): Promise<boolean> {
    this.#inFlight = message;
    while (!this.#isClosed) {
      try {
        await this.#stream.append(message);
        this.#problem = SILENT;
        return !this.#isClosed;
      } catch (error) {
        const found = await this.#found(message);
        if (found === 'own') return !this.#isClosed;
        if (found === 'other' && !this.#isClosed) this.#host.fenced();
        if (found === 'other') return false;
        this.#problem = error instanceof NotKept ? error.message : SILENT;
        if (error instanceof NotKept) await pause(RETRY_MS);
      }
    }
    return false;
  }

  /** What became of a message whose answer is not known. */
  async #found(message: JournalMessage): Promise<'own' | 'other' | 'none'> {
    while (!this.#isClosed) {
      try {
        const found = await messageAt(this.#stream, message.sequence);
        if (found === 'lost') {
          this.#host.log('warn', 'NATS has lost entries of the journal that it had kept.');
          return 'other';
        }
        if (found === null) return 'none';
        return isSame(found, message) ? 'own' : 'other';
      } catch (error) {
        // The message waits all the same: the streams' folder may be put back.
        this.#problem = error instanceof JournalGone ? JOURNAL_GONE : SILENT;
        await pause(RETRY_MS);
      }
    }
    return 'other';
  }

  #keep(number: number): void {
    this.#kept = number;
    clearTimeout(this.#stallTimer);
    this.#stallTimer = this.isKept ? undefined : setTimeout(() => this.#host.stalls(), STALL_MS);
    // What is said may write, and want to say more.
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined || next.after > this.#kept || this.#isClosed) return;
      this.#waiting.shift();
      try {
        next.say();
      } catch (error) {
        this.#host.log('warn', `Something failed that should not: ${error instanceof Error ? error.stack : error}`);
      }
    }
  }
}

/** Null: there is none yet; lost: it or the one before it was there, and is no more. Rejects where nothing at all is there any more. */
export async function messageAt(stream: JournalStream, sequence: number): Promise<JournalMessage | 'lost' | null> {
  const { last } = await stream.bounds();
  if (last === 0 && sequence > 1) throw new JournalGone(JOURNAL_GONE); // made anew, by a server that started
  if (last < sequence - 1) return 'lost';
  for await (const found of stream.read(sequence)) return found;
  return last < sequence ? null : 'lost';
}

export const isSame = (one: JournalMessage, other: JournalMessage): boolean =>
  one.sequence === other.sequence && Buffer.compare(one.bytes, other.bytes) === 0;
