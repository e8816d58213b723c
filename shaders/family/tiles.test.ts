/** The table of tiles: every row is met by a case of the product, which is compared with its CPU reference. */
import { describe, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { gpuTile, largeTiles } from './gpu.ts';
import { LARGE_CASE, matmul, productOf, WIDE_CASES } from './matmul.ts';
import type { Layout } from './product.ts';
import { quadBytes, quadStrips } from './quads.ts';
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
    const rules = Object.values(GPU_TILES).flat();
    const gpu = new Set(
      Object.values(GPU_TILES).flatMap((rows) =>
        [...cases, LARGE_CASE, ...WIDE_CASES].map(({ M = 0, N = 0 }) => ruleFor(rows, layout, largeTiles(M, N))),
      ),
    );
    expect([...software].length).toBe(SOFTWARE_TILES.filter(({ layouts }) => layouts.includes(layout)).length);
    expect(gpu).toEqual(new Set(rules.filter(({ layouts }) => layouts.includes(layout))));
  });

  test('a size has one row, the smallest has one too, and a tile never exceeds what its row says', () => {
    for (const rows of [SOFTWARE_TILES, ...Object.values(GPU_TILES), MATRIX_TILES]) {
      const own = rows.filter(({ layouts }) => layouts.includes(layout)).map(({ from }) => from);
      expect(own.at(-1)).toBe(0);
      expect(own).toEqual(own.toSorted((a, b) => b - a));
    }
    cases.forEach(({ M = 0, K = 0 }, index) => {
      const product = at(products, index);
      expect(softwareTile(product, K).depth).toBeLessThanOrEqual(128);
      expect(gpuTile(product, M, { gpuClass: 'narrow' }).rows).toBeLessThanOrEqual(64);
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

test('no tile takes more registers of an invocation than its class of GPUs has, nor more memory than any has', () => {
  const most = { wide: 64, usual: 32, narrow: 16, cpu: 16 } as const;
  const classes = ['wide', 'usual', 'narrow', 'cpu'] as const;
  for (const gpuClass of classes) {
    for (const shape of GPU_TILES[gpuClass]) {
      expect(shape.ownRows * shape.ownColumns).toBeLessThanOrEqual(most[gpuClass]);
      for (const layout of LAYOUTS) {
        const product = productOf(layout, {}, { M: 1024, N: 1024, K: 1024 });
        expect(quadBytes(quadStrips(product, shape))).toBeLessThanOrEqual(16_384);
      }
    }
  }
});

test('what is cut for a GPU of many registers has the tile of a product that keeps it busy, in one text', () => {
  const dims = { M: 256, N: 768, K: 50_257 }; // 48 tiles of 64×64
  const key = (slices: boolean, S: number): string =>
    matmul({ layout: 'NN', gpuClass: 'wide', ...(slices && { slices }) }).source('gpu', { ...dims, S }).key;
  expect(key(false, 50_257)).toContain('32x32x16');
  expect(key(true, 3200)).toContain('128x64x16 8x8 ahead');
  expect(key(true, 6400)).toBe(key(true, 3200));
});
