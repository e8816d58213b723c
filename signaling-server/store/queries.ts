/** What every part of the store asks its database with: the parts know these questions, and nothing of each other. */
export type Value = string | number | null;
export type Row = Readonly<Record<string, Value>>;

/** `R`: the columns that are asked for. All tables are STRICT, so that a column is of the type that the schema gives it. */
export interface Queries {
  one<R = Row>(sql: string, ...values: Value[]): R | null;
  many<R = Row>(sql: string, ...values: Value[]): R[];
  run(sql: string, ...values: Value[]): void;
  /** All of it or nothing. */
  atomically<T>(work: () => T): T;
}
