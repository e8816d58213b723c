/** All that a store has, table by table, whatever its engine: to be put into one that is empty. */
import type { Queries, Row } from './queries.ts';

export interface TableContent {
  readonly name: string;
  readonly rows: readonly Row[];
}

/** Others name rows of these. */
const NAMED_BY_OTHERS = ['run', 'member'];

export const contentStore = ({ many, run, atomically }: Queries) => ({
  /** Of every table its rows, in an order in which they can be put into another store. */
  content: (): readonly TableContent[] => {
    // Their checksums are each database's own.
    const names = many<{ name: string }>(
      "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'tally' ORDER BY name",
    ).map(({ name }) => name);
    const rest = names.filter((name) => !NAMED_BY_OTHERS.includes(name));
    return [...NAMED_BY_OTHERS, ...rest].map((name) => ({ name, rows: many(`SELECT * FROM ${name}`) }));
  },
  /** Puts them into a store that has none: all of them or nothing. */
  fill: (content: readonly TableContent[]) =>
    atomically(() => {
      for (const { name, rows } of content)
        for (const row of rows) {
          const columns = Object.keys(row);
          const places = columns.map(() => '?').join(', ');
          run(`INSERT OR REPLACE INTO ${name} (${columns.join(', ')}) VALUES (${places})`, ...Object.values(row));
        }
    }),
});
