/** What every part of the store asks its database with: the parts know these questions, and nothing of each other. */
import type { CommitRecord } from '../../swarm/coordinator/events.ts';

export type Value = string | number | null;
export type Row = Readonly<Record<string, Value>>;

export interface Queries {
  one(sql: string, ...values: Value[]): Row | null;
  many(sql: string, ...values: Value[]): Row[];
  run(sql: string, ...values: Value[]): void;
  atomically<T>(work: () => T): T;
  /** Committed steps that fit a condition, in order. */
  records(condition: string, ...values: Value[]): CommitRecord[];
}
