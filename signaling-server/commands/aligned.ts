/** Tables as the commands print them. */
import { at } from '../../swarm/base.ts';

/** One line a row, its columns as wide as their widest cell. Numbers stand to the right; so does the first column, unless it is a name. */
export function aligned(
  rows: readonly (readonly string[])[],
  between: string,
  first: 'name' | 'number' = 'name',
): string[] {
  const widths = at(rows, 0).map((_, column) => Math.max(...rows.map((row) => at(row, column).length)));
  const cellOf = (cell: string, column: number): string =>
    column === 0 && first === 'name' ? cell.padEnd(at(widths, 0)) : cell.padStart(at(widths, column));
  return rows.map((row) => row.map(cellOf).join(between).trimEnd());
}
