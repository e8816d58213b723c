/** What the tuning found, as a table and as rows of shaders/family/tiles.ts. */
import { at } from '../../swarm/base.ts';
import type { Tuned } from './page/tune.ts';

export const shapeOf = (dims: Readonly<Record<string, number | boolean>>): string =>
  Object.entries(dims)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');

export function printTuned({ family, table, candidates, shapes, rows, leftOut }: Tuned): void {
  const names = candidates.map((candidate) => shapeOf(candidate));
  console.log(`${family} kernels: milliseconds now; ${names.join('; ')}`);
  for (const { layout, dims, size, ms, nowMs } of shapes) {
    const cells = ms.map((one) => one.toFixed(3).padStart(9));
    console.log(
      `${layout} ${shapeOf(dims).padEnd(28)} size ${String(size).padEnd(8)} ${nowMs.toFixed(3).padStart(9)}; ${cells.join('; ')}`,
    );
  }
  if (leftOut > 0) console.log(`time ran out for ${leftOut} more shapes`);
  console.log(`\n// shaders/family/tiles.ts, ${table}`);
  for (const { layouts, from, candidate } of rows) {
    const choice = Object.entries(at(candidates, candidate)).map(([name, value]) => `${name}: ${value}`);
    console.log(`{ layouts: ['${layouts.join("', '")}'], from: ${from}, ${choice.join(', ')} },`);
  }
}
