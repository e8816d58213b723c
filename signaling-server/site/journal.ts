/**
 * A site's journal, as one process sees it. Whoever follows does what each entry says, in order. Whoever leads writes ahead
 * of it: its entries go out in order, each with the number that it must become, and count as kept once they are. Where
 * another message has that number, another leads: what was not kept by then never was, and is forgotten with all that
 * waited for it.
 */
import { randomUUID } from 'node:crypto';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { NotKept } from '../files/storageProblem.ts';
import type { Log } from '../monitoring/log.ts';
import { SCHEMA_VERSION } from '../store/schema.ts';
import { Entries, type Entry, messagesOf } from './entries.ts';
import type { JournalMessage, JournalStream } from './journalStream.ts';
import { NewerStore } from './replica.ts';

/** Sent and not acknowledged at once. */
const IN_FLIGHT = 128;
const IN_FLIGHT_BYTES = 8 * 2 ** 20;
/** Written and not kept: more is not written. */
const QUEUED_BYTES = 64 * 2 ** 20;
/** What is not kept by then, the run stands for. */
const STALL_MS = 2_000;
const RETRY_MS = 500;

export const SILENT = 'NATS does not answer';
const NOT_LEADING = 'another server of the site leads';

/** What the journal's entries are done to. */
export interface JournalReplica {
  readonly applied: number;
  apply(sequence: number, entry: Entry): void;
  /** Begins again from the newest snapshot. */
  rebuild(): Promise<void>;
}

interface Waiting {
  /** The number up to which everything has to be kept. */
  readonly after: number;
  readonly say: () => void;
  readonly drop: () => void;
}

type State = 'following' | 'leading' | 'rebuilding' | 'closed';

export class Journal {
  readonly #stream: JournalStream;
  readonly #replica: JournalReplica;
  readonly #log: Log;
  /** Names this process among writers. */
  readonly #by = randomUUID();
  #written = 0;
  #state: State = 'rebuilding';
  #entries = new Entries();
  /** The newest message that was read. */
  #read = 0;
  #endFollowing = (): void => {};
  #rebuilt: Promise<void> = Promise.resolve();
  /** Why this version cannot follow any more; null: it can. */
  #unreadable: string | null = null;

  /** All up to here is kept. */
  #kept = 0;
  /** Written and not kept, in order: of these the first `#sent` are on their way. */
  readonly #queue: JournalMessage[] = [];
  #queuedBytes = 0;
  #sent = 0;
  #inFlight = 0;
  #inFlightBytes = 0;
  #isInDoubt = false;
  #waiting: Waiting[] = [];
  #stallTimer: NodeJS.Timeout | undefined;
  readonly #stallListeners = new Set<(problem: string) => void>();
  readonly #fenceListeners = new Set<() => void>();

  constructor(stream: JournalStream, replica: JournalReplica, log: Log) {
    this.#stream = stream;
    this.#replica = replica;
    this.#log = log;
  }

  /** Up to date from here on. */
  async open(): Promise<void> {
    await this.#catchUp();
    this.#follow();
  }

  get isLeading(): boolean {
    return this.#state === 'leading';
  }

  /** All up to this number is kept. */
  get kept(): number {
    return this.#kept;
  }

  /** Nothing waits to be kept. */
  get isKept(): boolean {
    return this.#queue.length === 0;
  }

  /** Reads to the end, and writes there that this process leads: who led before can write nothing any more. */
  async lead(): Promise<Result<void>> {
    await this.#rebuilt;
    if (this.isLeading) return success(undefined);
    if (this.#unreadable !== null) return refusal(`this server cannot lead the site: ${this.#unreadable}`);
    this.#endFollowing();
    try {
      for (;;) {
        if (this.#state === 'closed') return refusal('the site is closed');
        await this.#readOn();
        const sequence = this.#read + 1;
        const entry: Entry = { type: 'leads', version: SCHEMA_VERSION };
        const [bytes] = this.#messagesOf(entry);
        if (bytes === undefined || !(await this.#appended({ sequence, bytes }))) continue;
        this.#replica.apply(sequence, entry);
        this.#read = sequence;
        this.#kept = sequence;
        this.#state = 'leading';
        this.#follow();
        return success(undefined);
      }
    } catch (error) {
      if (this.#state === 'following') this.#follow();
      return refusal(`this server cannot lead the site: ${sentenceOf(error)}`);
    }
  }

  /** A transaction as messages with their numbers, for `append`; nothing has changed yet. Throws where nothing may be written. */
  numbered(entry: Entry): readonly JournalMessage[] {
    const first = this.#kept + this.#queue.length + 1;
    return this.#messagesOf(entry).map((bytes, index) => ({ sequence: first + index, bytes }));
  }

  /** Throws where nothing may be written now. */
  needLead(): void {
    if (this.#state !== 'leading') throw new NotKept(NOT_LEADING);
    if (this.#queuedBytes > QUEUED_BYTES) throw new NotKept(SILENT);
  }

  append(messages: readonly JournalMessage[]): void {
    this.#written += 1;
    for (const message of messages) {
      this.#queue.push(message);
      this.#queuedBytes += message.bytes.length;
    }
    this.#watch();
    this.#pump();
  }

  /** Does it once all that was written up to now is kept; `drop` where it never will be. */
  whenKept(say: () => void, drop: () => void = () => {}): void {
    if (this.#queue.length === 0 && this.#waiting.length === 0) say();
    else this.#waiting.push({ after: this.#kept + this.#queue.length, say, drop });
  }

  onStall(listener: (problem: string) => void): () => void {
    this.#stallListeners.add(listener);
    return () => this.#stallListeners.delete(listener);
  }

  onFenced(listener: () => void): void {
    this.#fenceListeners.add(listener);
  }

  close(): void {
    this.#state = 'closed';
    this.#endFollowing();
    clearTimeout(this.#stallTimer);
    this.#dropAll();
  }

  #messagesOf(entry: Entry): Uint8Array[] {
    return messagesOf(entry, { by: this.#by, number: this.#written }, this.#stream.messageBytes);
  }

  /** Whether it became the message of its number. */
  async #appended(message: JournalMessage): Promise<boolean> {
    this.#written += 1;
    try {
      await this.#stream.append(message);
      return true;
    } catch {
      for await (const found of this.#stream.read(message.sequence)) return isSame(found, message);
      return false;
    }
  }

  // Following

  async #catchUp(): Promise<void> {
    this.#endFollowing();
    await this.#replica.rebuild();
    this.#entries = new Entries();
    this.#read = this.#replica.applied;
    await this.#readOn();
    if (this.#state === 'rebuilding') this.#state = 'following';
  }

  async #readOn(): Promise<void> {
    for await (const message of this.#stream.read(this.#read + 1)) this.#take(message);
    this.#kept = this.#read;
  }

  #take({ sequence, bytes }: JournalMessage): void {
    if (sequence <= this.#read) return;
    if (sequence !== this.#read + 1) throw new Error(`entries ${this.#read + 1} to ${sequence - 1} are purged`);
    const entry = this.#entries.take(bytes);
    if (entry !== null) this.#replica.apply(sequence, entry);
    this.#read = sequence;
  }

  #follow(): void {
    if (this.#state === 'closed') return;
    const end = this.#stream.follow(this.#read + 1, (message) => this.#came(message));
    this.#endFollowing = end;
  }

  #came(message: JournalMessage): void {
    if (this.#state === 'leading') this.#readBack(message);
    if (this.#state !== 'following') return;
    try {
      this.#take(message);
      this.#kept = this.#read;
    } catch (error) {
      this.#log('warn', `The copy of the site's store is made anew: ${sentenceOf(error)}.`);
      this.#rebuild();
    }
  }

  /** However often it takes, but where this version cannot read what is there. */
  #rebuild(): void {
    this.#endFollowing();
    if (this.#state === 'closed') return;
    this.#state = 'rebuilding';
    this.#rebuilt = this.#rebuildUntilDone();
  }

  async #rebuildUntilDone(): Promise<void> {
    while (this.#state === 'rebuilding') {
      try {
        await this.#catchUp();
        this.#follow();
      } catch (error) {
        if (error instanceof NewerStore) this.#unreadable = sentenceOf(error);
        if (this.#unreadable !== null) return;
        await pause(RETRY_MS);
      }
    }
  }

  // Leading

  #pump(): void {
    while (this.#state === 'leading' && !this.#isInDoubt && this.#sent < this.#queue.length) {
      const message = this.#queue[this.#sent];
      if (message === undefined || this.#inFlight >= IN_FLIGHT) return;
      if (this.#inFlight > 0 && this.#inFlightBytes + message.bytes.length > IN_FLIGHT_BYTES) return;
      this.#sent += 1;
      void this.#send(message);
    }
  }

  async #send(message: JournalMessage): Promise<void> {
    this.#inFlight += 1;
    this.#inFlightBytes += message.bytes.length;
    try {
      await this.#stream.append(message);
      this.#keep(message.sequence);
    } catch {
      this.#isInDoubt = true;
    }
    this.#inFlight -= 1;
    this.#inFlightBytes -= message.bytes.length;
    if (!this.#isInDoubt) this.#pump();
    else if (this.#inFlight === 0) await this.#settle();
  }

  /** What became of those that were sent is read: what is not there is sent again. */
  async #settle(): Promise<void> {
    while (this.#state === 'leading') {
      try {
        const { last } = await this.#stream.bounds();
        if (last < this.#kept) {
          this.#log('warn', `NATS lost entries ${last + 1} to ${this.#kept}, which it had kept.`);
          return this.#fence();
        }
        for await (const message of this.#stream.read(this.#kept + 1)) this.#readBack(message);
        this.#sent = 0;
        this.#isInDoubt = false;
        return this.#pump();
      } catch {
        await pause(RETRY_MS);
      }
    }
  }

  /** A message that is there: this process's own, which is kept then, or another's. */
  #readBack(message: JournalMessage): void {
    if (this.#state !== 'leading' || message.sequence <= this.#kept) return;
    const own = this.#queue[message.sequence - this.#kept - 1];
    if (own !== undefined && isSame(own, message)) this.#keep(message.sequence);
    else this.#fence();
  }

  #keep(sequence: number): void {
    if (this.#state !== 'leading' || sequence <= this.#kept) return;
    const done = this.#queue.splice(0, sequence - this.#kept);
    for (const { bytes } of done) this.#queuedBytes -= bytes.length;
    this.#sent = Math.max(0, this.#sent - done.length);
    this.#kept = sequence;
    this.#read = sequence;
    this.#watch(true);
    this.#sayKept();
  }

  #sayKept(): void {
    // What is said may write, and want to say more.
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined || next.after > this.#kept || this.#state !== 'leading') return;
      this.#waiting.shift();
      try {
        next.say();
      } catch (error) {
        this.#log('warn', `Something failed that should not: ${error instanceof Error ? error.stack : error}`);
      }
    }
  }

  /** Another leads. */
  #fence(): void {
    if (this.#state !== 'leading') return;
    this.#state = 'rebuilding';
    this.#dropAll();
    for (const listener of this.#fenceListeners) listener();
    this.#rebuild();
  }

  #dropAll(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#queue.length = 0;
    this.#queuedBytes = 0;
    this.#sent = 0;
    this.#isInDoubt = false;
    this.#watch(true);
    for (const { drop } of waiting) drop();
  }

  /** The time of the oldest that is not kept runs. */
  #watch(isNew = false): void {
    if (isNew) {
      clearTimeout(this.#stallTimer);
      this.#stallTimer = undefined;
    }
    if (this.#queue.length === 0) return;
    this.#stallTimer ??= setTimeout(() => {
      for (const listener of this.#stallListeners) listener(SILENT);
    }, STALL_MS);
  }
}

const isSame = (one: JournalMessage, other: JournalMessage): boolean =>
  one.sequence === other.sequence && Buffer.compare(one.bytes, other.bytes) === 0;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const sentenceOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ');
