/**
 * What a site's journal is made of: one ordered list of messages, numbered from 1 on, to which is appended only by who
 * knows its end. NATS keeps it (natsJournal.ts); tests keep one in memory that loses connections.
 */
export interface JournalMessage {
  readonly sequence: number;
  readonly bytes: Uint8Array;
}

export interface JournalStream {
  /** Of NATS's stream. */
  readonly name: string;
  /** Bytes that fit in one message. */
  readonly messageBytes: number;
  /**
   * Appends as number `sequence`: resolves once it is kept. Rejects where another message has this number or the one
   * before is missing, and where no answer came: then it may be kept all the same, and `read` says whether. With `NotKept`
   * where it is answered that it is not taken.
   */
  append(message: JournalMessage): Promise<void>;
  /**
   * Numbers of the first message that is still there, and of the last one there was; where there is none, `first` is above
   * `last`.
   * Rejects with `JournalGone` where the list is not there at all.
   */
  bounds(): Promise<{ readonly first: number; readonly last: number }>;
  /**
   * From this number, or from the first that is still there, to the one that is last when it is called, but for those that
   * a person deleted.
   */
  read(from: number): AsyncIterable<JournalMessage>;
  /** Tells of every message from this number on, in order, until the answer is called; it survives lost connections. */
  follow(from: number, came: (message: JournalMessage) => void): () => void;
  /** Forgets the messages below this number. */
  purge(below: number): Promise<void>;
}

/** There was a journal, and it is no more. */
export class JournalGone extends Error {}

/** A message by which this process cannot go on, and what a person can do: one sentence. */
export class UnreadableMessage extends Error {}
