/**
 * A table that nobody has to push sideways: where its place is narrow, each row becomes a small block of its own, and each
 * cell has its column's name beside it. That is a matter of style alone; the roles are written down because browsers take
 * them from a table's look.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';

export interface Column<Row> {
  readonly name: string;
  /** What stands in a row's cell. */
  readonly of: (row: Row) => ComponentChildren;
  /** `head`: it names the row. */
  readonly look?: 'head' | 'number' | 'number wide' | 'words';
  /** Said beside the cell where rows are stacked, in the name's place; empty where the cell says itself what it is. */
  readonly beside?: string;
  /** The name is heard, not seen. */
  readonly isSilent?: boolean;
  /** In the name's place: a button that sorts by it. */
  readonly button?: ComponentChildren;
  readonly sort?: 'ascending' | 'descending' | undefined;
}

/** The column that names the rows. */
export const heads = <Row,>(name: string, of: Column<Row>['of']): Column<Row> => ({
  name,
  of,
  look: 'head',
  beside: '',
});

export const numbers = <Row,>(name: string, of: Column<Row>['of']): Column<Row> => ({ name, of, look: 'number' });

interface StacksProps<Row> {
  /** The heading that names it; or a name of its own. */
  readonly labelledBy?: string;
  readonly label?: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  /** A row with these cells; absent: a plain one. */
  readonly drawn?: (cells: ComponentChildren, row: Row) => JSX.Element;
  /** What its style is called. */
  readonly kind?: string;
  readonly caption?: string;
}

export function Stacks<Row>({ labelledBy, label, columns, rows, drawn, kind = '', caption }: StacksProps<Row>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="table" aria-labelledby={labelledBy} aria-label={label} tabIndex={0}>
      <table {...TABLE} class={`stacks ${kind}`}>
        {caption !== undefined && <caption class="hidden">{caption}</caption>}
        <thead {...GROUP}>
          <tr {...ROW}>
            {columns.map(({ name, look = '', isSilent, button, sort }) => (
              <th key={name} {...HEAD} class={look.startsWith('number') ? 'number' : undefined} aria-sort={sort}>
                {isSilent ? <span class="hidden">{name}</span> : (button ?? name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody {...GROUP}>
          {rows.map((row, place) => {
            const cells = columns.map((column) => <Cell key={column.name} column={column} row={row} />);
            return (
              drawn?.(cells, row) ?? (
                <tr key={place} {...ROW}>
                  {cells}
                </tr>
              )
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Cell<Row>({ column, row }: { column: Column<Row>; row: Row }) {
  const { name, of, look, beside = name } = column;
  const said = beside === '' ? {} : { 'data-name': beside };
  return look === 'head' ? (
    <th {...ROW_HEAD} {...said}>
      {of(row)}
    </th>
  ) : (
    <td {...CELL} class={look} {...said}>
      {of(row)}
    </td>
  );
}

const TABLE = { role: 'table' } as const;
const GROUP = { role: 'rowgroup' } as const;
const HEAD = { role: 'columnheader', scope: 'col' } as const;
const ROW_HEAD = { role: 'rowheader', scope: 'row' } as const;
const CELL = { role: 'cell' } as const;
export const ROW = { role: 'row' } as const;

/** What is made only when somebody opens it. */
interface FoldedProps {
  readonly class: string;
  readonly summary: string;
  readonly children: () => ComponentChildren;
}

export function Folded({ class: name, summary, children }: FoldedProps) {
  const [isOpen, open] = useState(false);
  return (
    <details class={name} onToggle={({ currentTarget }) => open(currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && children()}
    </details>
  );
}
