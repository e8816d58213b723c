/**
 * A table that nobody has to push sideways: where its place is narrow, each row becomes a small block of its own, and each
 * cell has its column's name beside it. That is a matter of style alone; the roles are written down because browsers take
 * them from a table's look.
 */
import type { ComponentChildren } from 'preact';

export interface Head {
  readonly name: string;
  readonly isNumber?: boolean;
  /** Heard, not seen. */
  readonly isSilent?: boolean;
  /** In the name's place: a button that sorts by it. */
  readonly button?: ComponentChildren;
  readonly sort?: 'ascending' | 'descending' | undefined;
}

interface StacksProps {
  /** The heading that names it; or a name of its own. */
  readonly labelledBy?: string;
  readonly label?: string;
  readonly heads: readonly Head[];
  /** What its style is called. */
  readonly kind?: string;
  readonly caption?: string;
  /** Rows (`ROW`) of `ROW_HEAD` and `cell`. */
  readonly children: ComponentChildren;
}

export function Stacks({ labelledBy, label, heads, kind = '', caption, children }: StacksProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="table" aria-labelledby={labelledBy} aria-label={label} tabIndex={0}>
      <table {...TABLE} class={`stacks ${kind}`}>
        {caption !== undefined && <caption class="hidden">{caption}</caption>}
        <thead {...GROUP}>
          <tr {...ROW}>
            {heads.map(({ name, isNumber, isSilent, button, sort }) => (
              <th key={name} {...HEAD} class={isNumber ? 'number' : undefined} aria-sort={sort}>
                {isSilent ? <span class="hidden">{name}</span> : (button ?? name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody {...GROUP}>{children}</tbody>
      </table>
    </section>
  );
}

const TABLE = { role: 'table' } as const;
const GROUP = { role: 'rowgroup' } as const;
const HEAD = { role: 'columnheader', scope: 'col' } as const;
export const ROW = { role: 'row' } as const;
export const ROW_HEAD = { role: 'rowheader', scope: 'row' } as const;

/** `name`: said beside it where the rows are stacked; empty where it says itself what it is. */
export const cell = (name = '', look?: 'number' | 'number wide' | 'words') =>
  ({ role: 'cell', class: look, ...(name === '' ? {} : { 'data-name': name }) }) as const;
