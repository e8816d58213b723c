/** The table of tiles: every row is met by a case of the product, which is compared with its CPU reference. */
import { describe, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { gpuTile, largeTiles } from './gpu.ts';
import { LARGE_CASE, matmul, productOf } from './matmul.ts';
import type { Layout } from './product.ts';
import { softwareTile, weights } from './software.ts';
import {
  GPU_CANDIDATES,
  GPU_TILES,
  MATRIX_CANDIDATES,
  MATRIX_TILES,
  ruleFor,
  SOFTWARE_CANDIDATES,
  SOFTWARE_TILES,
} from './tiles.ts';

const LAYOUTS: readonly Layout[] = ['NN', 'NT', 'TN'];

describe.each(LAYOUTS)('%s', (layout) => {
  const { cases } = matmul({ layout });
  const products = cases.map((dims) => productOf(layout, {}, dims));

  test('every row that a product of this layout may get is tried by a case', () => {
    const software = new Set(products.map((product) => ruleFor(SOFTWARE_TILES, layout, weights(product))));
    const gpu = new Set([...cases, LARGE_CASE].map(({ M, N }) => ruleFor(GPU_TILES, layout, largeTiles(M, N))));
    expect([...software].length).toBe(SOFTWARE_TILES.filter(({ layouts }) => layouts.includes(layout)).length);
    expect([...gpu].length).toBe(GPU_TILES.filter(({ layouts }) => layouts.includes(layout)).length);
  });

  test('a size has one row, the smallest has one too, and a tile never exceeds what its row says', () => {
    for (const rows of [SOFTWARE_TILES, GPU_TILES, MATRIX_TILES]) {
      const own = rows.filter(({ layouts }) => layouts.includes(layout)).map(({ from }) => from);
      expect(own.at(-1)).toBe(0);
      expect(own).toEqual(own.toSorted((a, b) => b - a));
    }
    cases.forEach(({ M = 0, K = 0 }, index) => {
      const product = at(products, index);
      expect(softwareTile(product, K).depth).toBeLessThanOrEqual(128);
      expect(gpuTile(product, M).rows).toBeLessThanOrEqual(64);
    });
  });

  test('what the tuning tries is another text of the same product', () => {
    const dims = { M: 512, N: 512, K: 512 };
    const unit = { component: 'f16', m: 16, n: 16, k: 16, lanes: 32 } as const;
    const keys = [
      ...SOFTWARE_CANDIDATES.map((software) => matmul({ layout, tried: { software } }).source('software', dims).key),
      ...GPU_CANDIDATES.map((gpu) => matmul({ layout, tried: { gpu } }).source('gpu', dims).key),
      ...MATRIX_CANDIDATES.map((matrix) => matmul({ layout, unit, tried: { matrix } }).source('gpu', dims).key),
    ];
    expect(new Set(keys).size).toBe(SOFTWARE_CANDIDATES.length + GPU_CANDIDATES.length + MATRIX_CANDIDATES.length);
    expect(keys).toContain(matmul({ layout }).source('software', dims).key);
    expect(keys).toContain(matmul({ layout }).source('gpu', dims).key);
    expect(keys).toContain(matmul({ layout, unit }).source('gpu', dims).key);
  });
});
