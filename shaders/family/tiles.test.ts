/** The table of tiles: every row is met by a case of the product, which is compared with its CPU reference. */
import { describe, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { gpuTile, largeTiles } from './gpu.ts';
import { LARGE_CASE, matmul, productOf, WIDE_CASES, weightGradientSlices } from './matmul.ts';
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
      expect(gpuTile(product, M, 'narrow').rows).toBeLessThanOrEqual(64);
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

test('[KE40] a class of GPUs gets another tile only where as many as keep a GPU busy are left: weight gradients are cut alike', () => {
  for (const [name, rows] of Object.entries(GPU_TILES)) {
    for (let m = 1; m <= 64; m++) {
      for (let n = m; n <= 64; n++) {
        const { rows: height, columns, ownRows, ownColumns } = ruleFor(rows, 'TN', m * n);
        const usual = ruleFor(GPU_TILES.usual, 'TN', m * n);
        if (height === usual.rows && columns === usual.columns) continue;
        const count = Math.ceil((64 * m) / height) * Math.ceil((64 * n) / columns);
        expect(count, `${name} ${m}×${n}`).toBeGreaterThanOrEqual(128);
        expect(ownRows * ownColumns).toBeLessThanOrEqual({ wide: 64, usual: 32, narrow: 16 }[name] ?? 0);
      }
    }
  }
  const cut = weightGradientSlices('gpu', { M: 1024, N: 1024, K: 4096 }, { biasGradient: false, roomBytes: 2 ** 40 });
  expect(cut.count).toBe(1);
});
