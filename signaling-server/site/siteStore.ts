/** The store of a site: asked of this process's replica, written by it and by the journal that every process follows. */
import { NotKept } from '../files/storageProblem.ts';
import type { Queries } from '../store/queries.ts';
import { type Store, storeOf } from '../store/store.ts';
import type { Write } from './entries.ts';
import { type Journal, NOT_LEADING } from './journal.ts';
import type { Replica } from './replica.ts';

/** `copy`: makes a snapshot of it, where it is time for one. */
export function siteStore(replica: Replica, journal: Journal, copy: Store['copy']): Store {
  /** Of the transaction that is being done. */
  let writes: Write[] | null = null;
  const atomically = <T>(work: () => T): T => {
    journal.needLead();
    const done: Write[] = [];
    writes = done;
    try {
      const { result, number } = replica.write(work);
      if (number !== null) journal.write({ number, writes: done });
      return result;
    } finally {
      writes = null;
    }
  };
  const run: Queries['run'] = (sql, ...values) => {
    if (writes === null) return atomically(() => run(sql, ...values));
    replica.run(sql, ...values);
    writes.push([sql, ...values]);
  };
  return {
    ...storeOf({
      ...{ one: replica.one, many: replica.many, run, atomically },
      version: () => replica.version,
      whenKept: (say) => journal.whenKept(say),
      kept: () =>
        new Promise((resolve, reject) => {
          journal.whenKept(resolve, () => reject(new NotKept(NOT_LEADING)));
        }),
      onStall: (listener) => journal.onStall(listener),
      close: () => replica.close(),
    }),
    copy,
  };
}
