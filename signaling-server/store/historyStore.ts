/**
 * What the store keeps for the operator alone: a bounded history of events, and the newest steps' measured spans. Both are
 * bounded when they are written, so that a run of a year takes no more room than one of a day.
 */
import type { Queries } from './queries.ts';

/** Events of a run that are kept; what operators did is kept apart from what donors did, so that no crowd pushes it out. */
const EVENTS_KEPT = 10_000;
const ACTIONS_KEPT = 2_000;
/** Every so many events the oldest ones are looked for. */
const PRUNE_EVERY = 64;
/** Steps whose spans are kept. */
const TRACES_KEPT = 256;

/** What an operator did: the audit. */
export const OPERATOR_EVENT = 'operator';

export interface EventRow {
  readonly id: number;
  readonly atMs: number;
  /** Committed steps when it happened. */
  readonly step: number;
  readonly kind: string;
  readonly detail: string;
}

export interface TraceRow {
  readonly step: number;
  readonly epoch: number;
  readonly bubble: number;
  /** JSON of the spans. */
  readonly spans: string;
}

const events = ({ one, many, run }: Queries) => {
  const prune = (name: string): void => {
    for (const [condition, kept] of [
      ['kind = ?', ACTIONS_KEPT],
      ['kind <> ?', EVENTS_KEPT],
    ] as const)
      run(
        `DELETE FROM event WHERE run = ? AND ${condition} AND id <= (SELECT id FROM event WHERE run = ? AND ${condition} ORDER BY id DESC LIMIT 1 OFFSET ${kept})`,
        ...[name, OPERATOR_EVENT, name, OPERATOR_EVENT],
      );
  };
  return {
    addEvent: (name: string, kind: string, detail: string, nowMs: number, step = 0) => {
      const columns = 'run, atMs, step, kind, detail';
      run(`INSERT INTO event (${columns}) VALUES (?, ?, ?, ?, ?)`, name, nowMs, step, kind, detail);
      const added = one<{ id: number }>('SELECT last_insert_rowid() AS id');
      if (added && added.id % PRUNE_EVERY === 0) prune(name);
    },
    /** The newest `limit` events after the one of the number `after`, oldest first. */
    history: (name: string, after: number, limit: number) =>
      many<EventRow>(
        'SELECT id, atMs, step, kind, detail FROM event WHERE run = ? AND id > ? ORDER BY id DESC LIMIT ?',
        ...[name, after, limit],
      ).reverse(),
    /** What was added of this kind, in order, after the event of the number `after`. */
    events: (name: string, kind: string, after: number) =>
      many<{ detail: string }>(
        'SELECT detail FROM event WHERE run = ? AND kind = ? AND id > ? ORDER BY id',
        ...[name, kind, after],
      ).map(({ detail }) => detail),
    /** Number of the newest event of any run; 0 where there is none. */
    newestEvent: () => one<{ id: number }>('SELECT coalesce(max(id), 0) AS id FROM event')?.id ?? 0,
    /** When the newest event of this kind was; null: there is none. */
    lastEventMs: (name: string, kind: string) =>
      one<{ atMs: number | null }>('SELECT max(atMs) AS atMs FROM event WHERE run = ? AND kind = ?', name, kind)
        ?.atMs ?? null,
  };
};

const traces = ({ one, many, run, atomically }: Queries) => ({
  saveTraces: (name: string, traces: readonly TraceRow[]) =>
    atomically(() => {
      for (const { step, epoch, bubble, spans } of traces)
        run('INSERT OR REPLACE INTO trace VALUES (?, ?, ?, ?, ?)', name, step, epoch, bubble, spans);
      const newest = traces.at(-1)?.step ?? 0;
      run('DELETE FROM trace WHERE run = ? AND step <= ?', name, newest - TRACES_KEPT);
    }),
  /** Of this step, or of the newest one before it that is kept. */
  trace: (name: string, step: number) =>
    one<TraceRow>(
      'SELECT step, epoch, bubble, spans FROM trace WHERE run = ? AND step <= ? ORDER BY step DESC LIMIT 1',
      ...[name, step],
    ),
  /** First and last step whose spans are kept. */
  traceRange: (name: string): readonly [number, number] | null => {
    const row = one<{ first: number | null; last: number }>(
      'SELECT min(step) AS first, max(step) AS last FROM trace WHERE run = ?',
      name,
    );
    return row === null || row.first === null ? null : [row.first, row.last];
  },
  /** Idle share by step, from `from` on. */
  bubbles: (name: string, from: number) =>
    new Map(
      many<{ step: number; bubble: number }>(
        'SELECT step, bubble FROM trace WHERE run = ? AND step >= ?',
        ...[name, from],
      ).map(({ step, bubble }) => [step, bubble]),
    ),
});

export const historyStore = (queries: Queries) => ({ ...events(queries), ...traces(queries) });
