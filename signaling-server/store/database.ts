/** One database and its statements: what the store's parts are asked with (queries.ts) ends here. */
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { Queries, Value } from './queries.ts';

export interface Statements extends Queries {
  /** Rows that this connection has changed. */
  changes(): number;
}

/** Each statement is prepared once and kept: there are few, and preparing takes longer than running most of them. */
export function statementsOf(database: DatabaseSyncInstance): Statements {
  const statements = new Map<string, ReturnType<typeof database.prepare>>();
  const prepared = (sql: string): ReturnType<typeof database.prepare> => {
    const statement = statements.get(sql) ?? database.prepare(sql);
    statements.set(sql, statement);
    return statement;
  };
  // SQLite's rows have no prototype, and would be told apart from other plain data.
  const one = <R>(sql: string, ...values: Value[]): R | null => {
    const row = prepared(sql).get(...values);
    return row === undefined ? null : ({ ...row } as R);
  };
  return {
    one,
    many: <R>(sql: string, ...values: Value[]) =>
      prepared(sql)
        .all(...values)
        .map((row) => ({ ...row }) as R),
    run: (sql, ...values) => {
      prepared(sql).run(...values);
    },
    atomically: (work) => {
      database.exec('BEGIN IMMEDIATE');
      try {
        const result = work();
        database.exec('COMMIT');
        return result;
      } catch (error) {
        // A full disk has ended it already.
        if (database.isTransaction) database.exec('ROLLBACK');
        throw error;
      }
    },
    changes: () => one<{ rows: number }>('SELECT total_changes() AS rows')?.rows ?? 0,
  };
}
