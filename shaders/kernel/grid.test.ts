/** Grids cut into boxes: without a GPU. */
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../swarm/base.ts';
import { MOST_ROWS } from '../family/fewRows.ts';
import { kernels } from '../kernels.ts';
import { boxesOf, type Grid, MAX_WORKGROUPS_PER_DIMENSION } from './grid.ts';
import type { AdapterFamily } from './kernel.ts';

describe('boxes of a grid', () => {
  test('one dispatch where nothing asks for more', () => {
    expect(boxesOf([65_535, 7, 3], 1)).toEqual([{ first: [0, 0, 0], size: [65_535, 7, 3] }]);
  });

  test('a grid larger than WebGPU allows is cut though nobody asks', () => {
    expect(boxesOf([65_536, 1, 1], 1)).toEqual([
      { first: [0, 0, 0], size: [32_768, 1, 1] },
      { first: [32_768, 0, 0], size: [32_768, 1, 1] },
    ]);
    expect(boxesOf([1, 131_071, 65_537], 1)).toHaveLength(3 * 2);
  });

  test('one workgroup is never cut, however long it takes', () => {
    expect(boxesOf([1, 1, 1], 9)).toHaveLength(1);
    expect(boxesOf([2, 3, 1], 100)).toHaveLength(6);
  });

  test('every workgroup lies in exactly one box, within the limits (random grids, seed 7)', () => {
    const random = seededRandom(7);
    const upTo = (most: number): number => 1 + Math.floor(random() * most);
    for (let round = 0; round < 200; round++) {
      const grid: Grid = [upTo(40), upTo(30), upTo(5)];
      const least = upTo(60);
      const boxes = boxesOf(grid, least);
      const met = new Map<string, number>();
      for (const { first, size } of boxes)
        for (let x = first[0]; x < first[0] + size[0]; x++)
          for (let y = first[1]; y < first[1] + size[1]; y++)
            for (let z = first[2]; z < first[2] + size[2]; z++)
              met.set(`${x} ${y} ${z}`, (met.get(`${x} ${y} ${z}`) ?? 0) + 1);
      const all = grid[0] * grid[1] * grid[2];
      const said = `${grid.join('×')} in ${least}`;
      expect(met.size, said).toBe(all);
      expect(
        [...met.values()].every((times) => times === 1),
        said,
      ).toBe(true);
      expect(boxes.length, said).toBeGreaterThanOrEqual(Math.min(least, Math.max(...grid)));
      for (const { size } of boxes) expect(Math.max(...size), said).toBeLessThanOrEqual(MAX_WORKGROUPS_PER_DIMENSION);
    }
  });
});

/** Dims of every kernel by its letters, odd and large: no kernel may need a grid that no cut makes legal. */
const LARGE: Readonly<Record<string, number>> = {
  M: 4_194_301,
  N: 1_048_573,
  K: 70_001,
  C: 8_193,
  V: 262_147,
  I: 28_673,
  T: 131_071,
  B: 37,
  H: 31,
  D: 127,
  n: 2_147_483_629,
  count: 2_147_483_629,
  offset: 3,
  gradientOffset: 1,
  momentOffset: 2,
  S: 40_001,
};

/** What is never large: rows of a piece, and heads of keys, whose letter is a product's inner width elsewhere. */
function fewOf(name: string): Readonly<Record<string, number>> {
  if (name.startsWith('answer.')) return { N: 4096 };
  if (name.startsWith('headNorm.')) return { K: 31 };
  return name.endsWith('.fewRows') ? { M: MOST_ROWS } : {};
}

describe('the kernels', () => {
  const families: readonly AdapterFamily[] = ['software', 'gpu'];
  const table = families.flatMap((family) => kernels.map((kernel) => ({ family, kernel, name: kernel.name })));

  test.each(table)('$name ($family) has a legal grid at odd large sizes', ({ family, kernel, name }) => {
    const few = fewOf(name);
    const sizes: Readonly<Record<string, number>> = { ...LARGE, ...few };
    const dims = Object.fromEntries(kernel.dims.map(({ name }) => [name, sizes[name] ?? 1]));
    const grid = kernel.source(family, dims).workgroups(dims);
    const boxes = boxesOf(grid, 1);
    expect(boxes.length).toBeLessThan(64);
    for (const { size } of boxes) expect(Math.max(...size)).toBeLessThanOrEqual(MAX_WORKGROUPS_PER_DIMENSION);
  });
});
