/**
 * A site's journal, as one process sees it. Whoever follows does what each entry says, in order. Whoever leads writes ahead
 * of it, and counts as kept what it has read or been told to be there. Where another message comes, another leads: what was
 * not kept by then never was, and is forgotten with all that waited for it.
 */
import { randomUUID } from 'node:crypto';
import { at, type Result, refusal, success } from '../../swarm/base.ts';
import { onOneLine } from '../files/errorWords.ts';
import { NotKept, NotLeading } from '../files/storageProblem.ts';
import { pause } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import { SCHEMA_VERSION } from '../store/schema.ts';
import { Entries, type Entry, messagesOf, type Transaction } from './entries.ts';
import { type JournalMessage, type JournalStream, UnreadableMessage } from './journalStream.ts';
import { MissingTransaction, NewerStore } from './replica.ts';
import { isSame, messageAt, RETRY_MS, SILENT, Writer } from './writer.ts';

export const NOT_LEADING = 'another server of the site leads';

/** Where a person may have to delete a message, it is looked for again so often. */
const UNREADABLE_RETRY_MS = 2_000;
const FROM_BACKUP =
  'stop all servers and fill another site from a backup (shoal store copy --from DIR --to nats://… --site NAME)';

/** What the journal's entries are done to. */
interface JournalReplica {
  /** The last transaction that it has. */
  readonly applied: number;
  apply(entry: Entry): void;
  /** Begins again from the newest snapshot: answers with the number of the message up to which it has everything. */
  rebuild(): Promise<number>;
}

type State = 'following' | 'leading' | 'rebuilding' | 'closed';

export class Journal {
  readonly #stream: JournalStream;
  readonly #replica: JournalReplica;
  readonly #log: Log;
  /** Names this process among writers. */
  readonly #by = randomUUID();
  /** Entries that it has written, or tried to. */
  #entriesWritten = 0;
  #state: State = 'rebuilding';
  #entries = new Entries();
  /** The newest message that was read. */
  #read = 0;
  #writer: Writer | null = null;
  #endFollowing = (): void => {};
  #rebuilt: Promise<void> = Promise.resolve();
  /** Why this version cannot follow any more; null: it can. */
  #unreadable: string | null = null;
  #isCutOff = false;
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

  /** Nothing waits to be kept. */
  get isKept(): boolean {
    return this.#writer?.isKept ?? true;
  }

  /** Nothing of other processes comes, as far as is known, though nothing may wait to be kept. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  set isCutOff(isCutOff: boolean) {
    this.#isCutOff = isCutOff;
    if (isCutOff) this.#stalls();
  }

  /** Transactions that wait to be kept. */
  get unkept(): number {
    return this.#writer?.unkept ?? 0;
  }

  /** Why they do. */
  get problem(): string {
    return this.#writer?.problem ?? SILENT;
  }

  /** Number of a message: the replica has all up to it, and it is kept. */
  get sequence(): number {
    return this.#writer?.tail ?? this.#read;
  }

  /** Reads to the end, and writes there that this process leads: who led before can write nothing any more. */
  async lead(): Promise<Result<void>> {
    await this.#rebuilt;
    if (this.isLeading) return success(undefined);
    if (this.#unreadable !== null) return refusal(`this server cannot lead the site: ${this.#unreadable}`);
    this.#endFollowing();
    try {
      while (this.#state === 'following') {
        await this.#readOn();
        const entry: Entry = { type: 'leads', version: SCHEMA_VERSION };
        const head = { by: this.#by, entry: this.#entriesWritten };
        this.#entriesWritten += 1;
        const message = { sequence: this.#read + 1, bytes: at(messagesOf(entry, head, this.#stream.messageBytes), 0) };
        if (!(await this.#appended(message)) || this.#state !== 'following') continue;
        this.#replica.apply(entry);
        this.#read = message.sequence;
        this.#begin(message.sequence);
        return success(undefined);
      }
      return refusal('the site is closed');
    } catch (error) {
      if (this.#state === 'following') this.#follow();
      return refusal(`this server cannot lead the site: ${onOneLine(error)}`);
    }
  }

  /** Throws where nothing may be written now. */
  needLead(): void {
    if (this.#writer === null) throw new NotLeading(NOT_LEADING);
    this.#writer.needRoom();
  }

  /** What the replica has done already. */
  write(transaction: Transaction): void {
    this.#writer?.write(transaction);
  }

  /** Does it once all that was written up to now is kept; `drop` where it never will be. */
  whenKept(say: () => void, drop: () => void = () => {}): void {
    if (this.#writer !== null) this.#writer.whenKept(say, drop);
    else if (this.#state === 'following') say();
    else drop();
  }

  onStall(listener: (problem: string) => void): () => void {
    this.#stallListeners.add(listener);
    return () => {
      this.#stallListeners.delete(listener);
    };
  }

  onFenced(listener: () => void): void {
    this.#fenceListeners.add(listener);
  }

  close(): void {
    this.#state = 'closed';
    this.#endFollowing();
    this.#endWriting();
  }

  #begin(lead: number): void {
    this.#state = 'leading';
    this.#writer = new Writer(
      this.#stream,
      { by: this.#by, entries: this.#entriesWritten, lead, applied: this.#replica.applied },
      {
        fenced: () => this.#fenced(),
        stalls: () => this.#stalls(),
        log: this.#log,
      },
    );
    this.#follow();
  }

  #stalls(): void {
    for (const listener of this.#stallListeners) listener(this.problem);
  }

  /** Another leads. */
  #fenced(): void {
    if (this.#state !== 'leading') return;
    this.#state = 'rebuilding';
    this.#endWriting();
    for (const listener of this.#fenceListeners) listener();
    this.#rebuild();
  }

  #endWriting(): void {
    if (this.#writer === null) return;
    const writer = this.#writer;
    this.#writer = null;
    this.#entriesWritten = writer.entries + 1;
    writer.close();
  }

  /** Whether it became the message of its number. Throws where NATS answers that it takes none. */
  async #appended(message: JournalMessage): Promise<boolean> {
    try {
      await this.#stream.append(message);
      return true;
    } catch (error) {
      const found = await messageAt(this.#stream, message.sequence);
      if (found === null && error instanceof NotKept) throw error;
      return found !== null && found !== 'lost' && isSame(found, message);
    }
  }

  async #catchUp(): Promise<void> {
    this.#endFollowing();
    this.#read = await this.#replica.rebuild();
    this.#entries = new Entries();
    await this.#readOn();
    if (this.#state === 'rebuilding') this.#state = 'following';
  }

  async #readOn(): Promise<void> {
    const { last } = await this.#stream.bounds();
    for await (const message of this.#stream.read(this.#read + 1)) {
      if (message.sequence > this.#read + 1) await this.#skip(message.sequence - 1);
      this.#take(message);
    }
    if (last > this.#read) await this.#skip(last);
  }

  /** Messages up to this one are not there: a person deleted them. What transactions were in them is missed at the next one. */
  async #skip(until: number): Promise<void> {
    const { first } = await this.#stream.bounds();
    if (first > this.#read + 1) throw new Error(`entries ${this.#read + 1} to ${first - 1} are purged`);
    this.#read = until;
  }

  #take({ sequence, bytes }: JournalMessage): void {
    if (sequence <= this.#read) return;
    if (sequence !== this.#read + 1) throw new Error(`entries ${this.#read + 1} to ${sequence - 1} are not there`);
    const entry = this.#entryIn(sequence, bytes);
    if (entry !== null) this.#apply(sequence, entry);
    this.#read = sequence;
  }

  #entryIn(sequence: number, bytes: Uint8Array): Entry | null {
    try {
      return this.#entries.take(bytes);
    } catch (cause) {
      throw new UnreadableMessage(`${this.#named(sequence)} is none of shoal's: ${this.#remedy(sequence)}`, { cause });
    }
  }

  #apply(sequence: number, entry: Entry): void {
    try {
      this.#replica.apply(entry);
    } catch (cause) {
      const named = this.#named(sequence);
      if (cause instanceof MissingTransaction)
        throw new UnreadableMessage(`${named} follows on others that are not there: ${FROM_BACKUP}`, { cause });
      if (!isOfStatement(cause)) throw cause;
      const problem = `has a statement that the store refuses (${onOneLine(cause)})`;
      throw new UnreadableMessage(`${named} ${problem}: ${this.#remedy(sequence)}`, { cause });
    }
  }

  #remedy(sequence: number): string {
    const { name } = this.#stream;
    return sequence === 1
      ? `delete that stream (nats stream rm ${name}), or ${FROM_BACKUP}`
      : `delete that message (nats stream rmm ${name} ${sequence}), or ${FROM_BACKUP}`;
  }

  #named(sequence: number): string {
    return `message ${sequence} of the NATS stream ${this.#stream.name}`;
  }

  #follow(): void {
    if (this.#state === 'closed') return;
    this.#endFollowing = this.#stream.follow(this.#read + 1, (message) => this.#came(message));
  }

  #came(message: JournalMessage): void {
    this.#writer?.readBack(message);
    if (this.#state !== 'following') return;
    try {
      this.#take(message);
    } catch (error) {
      if (!(error instanceof UnreadableMessage))
        this.#log('warn', `The copy of the site's store is made anew: ${onOneLine(error)}.`);
      this.#state = 'rebuilding';
      this.#rebuild();
    }
  }

  /** However often it takes, but where this version cannot read what is there. */
  #rebuild(): void {
    this.#endFollowing();
    this.#rebuilt = this.#rebuildUntilDone();
  }

  async #rebuildUntilDone(): Promise<void> {
    let said = '';
    while (this.#state === 'rebuilding') {
      try {
        await this.#catchUp();
        this.#follow();
      } catch (error) {
        if (error instanceof NewerStore) this.#unreadable = onOneLine(error);
        if (this.#unreadable !== null) return;
        const isUnreadable = error instanceof UnreadableMessage;
        if (isUnreadable && error.message !== said) {
          said = error.message;
          this.#log('warn', `This server can neither lead nor follow: ${said}.`);
        }
        await pause(isUnreadable ? UNREADABLE_RETRY_MS : RETRY_MS);
      }
    }
  }
}

/** SQLite's codes of a statement that is wrong in itself: an error of it, a constraint, a type, a misuse, a range. */
const STATEMENT_CODES = new Set([1, 19, 20, 21, 25]);
const isOfStatement = (error: unknown): boolean =>
  error instanceof Error &&
  'errcode' in error &&
  typeof error.errcode === 'number' &&
  STATEMENT_CODES.has(error.errcode % 256);
