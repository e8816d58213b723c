/** What happened on this page, in words and in order; the oldest goes where it would become too long. Pure. */

export interface LogEntry {
  readonly atMs: number;
  readonly text: string;
}

const ENTRIES_KEPT = 100;

export const written = (log: readonly LogEntry[], entry: LogEntry): readonly LogEntry[] =>
  [...log, entry].slice(-ENTRIES_KEPT);
