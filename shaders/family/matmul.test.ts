/** The matrix product without a GPU: its reference against formulas written another way, its text, its workgroups. */
import { describe, expect, it } from 'vitest';
import { invariant, normal, seededRandom } from '../../swarm/base.ts';
import { MAX_WORKGROUPS_PER_DIMENSION } from '../kernel/grid.ts';
import type { AdapterFamily, Kernel } from '../kernel/kernel.ts';
import { textKey, textOf } from '../kernel/text.ts';
import { caseArrays } from '../kernel/verify.ts';
import { inputGradientSlices, matmul, weightGradientSlices } from './matmul.ts';
import type { Epilogue, Layout } from './product.ts';
import { gelu, geluSlope } from './reference.ts';
import { sumSlices, sumSlicesBias, sumSlicesInput } from './sumSlices.ts';

type Matrix = number[][];
const rows = (values: ArrayLike<number>, width: number): Matrix =>
  Array.from({ length: values.length / width }, (_, i) => Array.from(values).slice(i * width, (i + 1) * width));
const transposed = (x: Matrix): Matrix => (x[0] ?? []).map((_, j) => x.map((row) => row[j] ?? Number.NaN));
const dot = (x: number[], y: number[]): number => x.reduce((sum, value, i) => sum + value * (y[i] ?? Number.NaN), 0);
/** The logistic form of gelu_new: ½(1 + tanh u) = 1/(1 + e^(−2u)). */
const logisticGelu = (x: number): number =>
  x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));

describe('gelu', () => {
  it('equals published values of gelu_new', () => {
    expect(gelu(0)).toBe(0);
    expect(gelu(1)).toBeCloseTo(0.841192, 6);
    expect(gelu(-1)).toBeCloseTo(-0.158808, 6);
    expect(gelu(3)).toBeCloseTo(2.996363, 6);
  });

  it('has the slope that central differences give', () => {
    for (let x = -12; x <= 12; x += 0.25) {
      const h = 1e-5;
      expect(geluSlope(x)).toBeCloseTo((gelu(x + h) - gelu(x - h)) / (2 * h), 7);
    }
  });
});

describe('reference of the matrix product', () => {
  const shape = { M: 3, N: 5, K: 4 };
  const forms: readonly [Layout, Epilogue][] = [
    ['NN', { bias: true }],
    ['NN', { bias: true, gelu: true }],
    ['NT', { bias: true, gelu: true, residual: true }],
    ['NN', { bias: true, residual: true }],
    ['NT', { geluBackward: true }],
    ['TN', { accumulate: true, biasGradient: true }],
    ['TN', { biasGradient: true }],
    ['NT', {}],
  ];
  it.each(forms)('%s %o equals the formula over rows and columns', (layout, epilogue) => {
    const kernel = matmul({ layout, epilogue });
    const before = caseArrays(kernel, shape, 3);
    const after = Object.fromEntries(Object.entries(before).map(([name, values]) => [name, values.slice()]));
    kernel.cpu(after, shape);
    const list = (name: string): number[] => Array.from(before[name] ?? []);
    const a = layout === 'TN' ? rows(list('a'), shape.M) : transposed(rows(list('a'), shape.K));
    const b = layout === 'NT' ? transposed(rows(list('b'), shape.K)) : rows(list('b'), shape.N);
    const columnsOfA = transposed(a);
    const columnsOfB = transposed(b);
    const pre = columnsOfA.flatMap((row) =>
      columnsOfB.map((column, n) => dot(row, column) + (epilogue.bias ? (list('bias_N')[n] ?? Number.NaN) : 0)),
    );
    const expected = pre.map((value, i) => {
      const activated = epilogue.gelu ? logisticGelu(value) : value;
      const slope = epilogue.geluBackward ? geluSlope(list('pre_MN')[i] ?? Number.NaN) : 1;
      const added =
        (epilogue.residual ? list('residual_MN')[i] : epilogue.accumulate ? list('c_MN')[i] : 0) ?? Number.NaN;
      return activated * slope + added;
    });
    const close = (actual: ArrayLike<number> | undefined, wanted: number[]): void => {
      expect(actual?.length).toBe(wanted.length);
      wanted.forEach((value, i) => {
        expect(actual?.[i]).toBeCloseTo(value, 5);
      });
    };
    close(after.c_MN, expected);
    if (epilogue.gelu) close(after.pre_MN, pre);
    if (epilogue.biasGradient) {
      const start = (n: number): number => (epilogue.accumulate ? (list('dbias_N')[n] ?? Number.NaN) : 0);
      close(
        after.dbias_N,
        columnsOfB.map((column, n) => start(n) + column.reduce((sum, value) => sum + value, 0)),
      );
    }
  });

  it('is linear in the weights: dW of a bias-free product is xᵀ·dy (finite differences)', () => {
    const random = seededRandom(5);
    const draw = (length: number): Float32Array => Float32Array.from({ length }, () => normal(random));
    const { M, N, K } = shape;
    const [x, w, dy] = [draw(M * K), draw(K * N), draw(M * N)];
    const loss = (weights: Float32Array): number => {
      const c = new Float32Array(M * N);
      matmul({ layout: 'NN' }).cpu({ a: x, b: weights, c_MN: c }, shape);
      return c.reduce((sum, value, i) => sum + value * (dy[i] ?? Number.NaN), 0);
    };
    const dw = new Float32Array(K * N);
    matmul({ layout: 'TN' }).cpu({ a: x, b: dy, c_MN: dw }, { M: K, N, K: M });
    for (let i = 0; i < dw.length; i++) {
      const moved = (h: number): Float32Array => w.map((value, j) => (i === j ? value + h : value));
      expect(dw[i]).toBeCloseTo(loss(moved(0.5)) - loss(moved(-0.5)), 4);
    }
  });
});

describe('a weight gradient in slices', () => {
  it.each([false, true])('adds up to the whole one (bias gradient: %s)', (biasGradient) => {
    const whole = matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient } });
    const sliced = matmul({ layout: 'TN', epilogue: { biasGradient }, slices: true });
    const sum: Kernel = biasGradient ? sumSlicesBias : sumSlices;
    for (const [K, S] of [
      [1, 1],
      [7, 3],
      [12, 4],
    ] as const) {
      const dims = { M: 3, N: 5, K, S };
      const arrays = caseArrays(whole, dims, K);
      const { a, b, ...sums } = arrays;
      invariant(a && b, 'a product has two factors');
      const before = Object.fromEntries(Object.entries(sums).map(([name, values]) => [name, values.slice()]));
      const slices = new Float32Array(sliced.sizes(dims).c_MN ?? 0);
      sliced.cpu({ a, b, c_MN: slices }, dims);
      const count = Math.ceil(K / S);
      sum.cpu({ slices, ...before }, { count, floats: slices.length / count, elements: 15 });
      whole.cpu(arrays, dims);
      for (const [name, values] of Object.entries(before)) {
        values.forEach((value, i) => {
          expect(value).toBeCloseTo(arrays[name]?.[i] ?? Number.NaN, 5);
        });
      }
    }
  });

  it('is cut where a GPU has too little to do, into slices that have room and are long enough', () => {
    const cut = (family: AdapterFamily, M: number, N: number, K: number, roomBytes: number) =>
      weightGradientSlices({ M, N, K }, true, { family, roomBytes });
    const room = Number.POSITIVE_INFINITY;
    expect(cut('software', 128, 128, 4096, room).count).toBe(1);
    expect(cut('gpu', 768, 768, 4096, room).count).toBe(1);
    expect(cut('gpu', 128, 128, 511, room).count).toBe(1);
    expect(cut('gpu', 128, 128, 4096, 2 * 4 * 129 * 128 - 1).count).toBe(1);
    expect(cut('gpu', 128, 128, 4096, room)).toEqual({ count: 8, steps: 512, floats: 129 * 128, elements: 128 * 128 });
    for (let K = 1; K < 10_000; K += 37) {
      const { count, steps } = cut('gpu', 64, 100, K, room);
      expect((count - 1) * steps).toBeLessThan(K);
      expect(count * steps).toBeGreaterThanOrEqual(K);
      expect(count).toBeLessThanOrEqual(16);
      if (count > 1) expect(steps).toBeGreaterThanOrEqual(256);
    }
  });

  it('is not cut for a CPU, whose products use no workgroup memory and wait at no barrier', () => {
    const cutter = { family: 'gpu', gpuClass: 'cpu', roomBytes: 2 ** 40 } as const;
    expect(weightGradientSlices({ M: 128, N: 128, K: 4096 }, false, cutter).count).toBe(1);
    expect(inputGradientSlices({ M: 64, N: 64, K: 50_257 }, cutter).count).toBe(1);
    for (const layout of ['NN', 'NT', 'TN'] as const) {
      const kernel = matmul({ layout, gpuClass: 'cpu' });
      const code = textOf(kernel, { M: 128, N: 128, K: 128 }, { family: 'gpu', inBoxes: false });
      expect(code).not.toMatch(/workgroupBarrier|var<workgroup>/);
    }
  });

  it('is cut further for GPUs of many registers: until there are 1,024 tiles of 64×64', () => {
    const wide = (M: number, N: number, K: number) =>
      weightGradientSlices({ M, N, K }, false, { family: 'gpu', gpuClass: 'wide', roomBytes: 2 ** 40 }).count;
    expect(wide(768, 3072, 4096)).toBe(2); // 576 tiles
    expect(wide(768, 768, 4096)).toBe(8); // 144
    expect(wide(768, 768, 512)).toBe(2); // no slice is shorter than 256 steps
    expect(wide(2048, 2048, 4096)).toBe(1); // 1,024
  });
});

describe('the gradient of a head’s input in slices', () => {
  it('adds up to the whole one, of a wider matrix too', () => {
    for (const [K, S, P] of [
      [5, 128, 5],
      [300, 128, 300],
      [260, 128, 407],
    ] as const) {
      const dims = { M: 3, N: 5, K, P };
      const whole = matmul({ layout: 'NN', epilogue: { accumulate: true }, ofWider: true });
      const { a, b, c_MN } = caseArrays(whole, dims, K);
      invariant(a && b && c_MN, 'a product has two factors');
      const sliced = matmul({ layout: 'NN', slices: true, ofWider: true });
      const count = Math.ceil(K / S);
      const slices = new Float32Array(count * 15);
      sliced.cpu({ a, b, c_MN: slices }, { ...dims, S });
      const [added, set] = [c_MN.slice(), c_MN.slice()];
      sumSlicesInput.cpu({ slices, c_MN: added }, { count, floats: 15, accumulate: 1 });
      sumSlicesInput.cpu({ slices, c_MN: set }, { count, floats: 15, accumulate: 0 });
      const before = c_MN.slice();
      whole.cpu({ a, b, c_MN }, dims);
      c_MN.forEach((value, i) => {
        expect(added[i]).toBeCloseTo(value, 5);
        expect(set[i]).toBeCloseTo(value - (before[i] ?? Number.NaN), 5);
      });
    }
  });

  it('is cut where a GPU has too little to do, at steps that every tile begins with', () => {
    const room = Number.POSITIVE_INFINITY;
    const dims = { M: 32, N: 768, K: 50_257 };
    const gpu = (roomBytes: number) => ({ family: 'gpu', roomBytes }) as const;
    expect(inputGradientSlices(dims, gpu(room))).toEqual({ steps: 66 * 128, count: 6 });
    expect(inputGradientSlices(dims, gpu(4 * 32 * 768 * 2)).count).toBe(2);
    expect(inputGradientSlices({ ...dims, M: 256 }, gpu(room)).count).toBe(1);
    expect(inputGradientSlices(dims, { family: 'software', roomBytes: room }).count).toBe(1);
    // Of 256 rows an H100 has 48 tiles of 64×64.
    const wide = { ...gpu(room), gpuClass: 'wide' } as const;
    expect(inputGradientSlices({ ...dims, M: 256 }, wide)).toEqual({ steps: 25 * 128, count: 16 });
  });
});

describe('text of the matrix product', () => {
  const text = (layout: Layout, family: AdapterFamily, M: number, N: number, K: number, epilogue: Epilogue = {}) => {
    const kernel = matmul({ layout, epilogue });
    const dims = { M, N, K };
    const variant = { family, inBoxes: false };
    return { key: textKey(kernel, dims, variant), code: textOf(kernel, dims, variant) };
  };

  it('does not change with the rows of a micro-batch', () => {
    expect(text('NN', 'software', 7, 64, 128).key).toBe(text('NN', 'software', 1000, 64, 128).key);
    expect(text('NT', 'software', 7, 64, 128).code).toBe(text('NT', 'software', 1000, 64, 128).code);
    expect(text('TN', 'software', 64, 128, 7).code).toBe(text('TN', 'software', 64, 128, 64).code);
    expect(text('TN', 'software', 64, 128, 100).code).toBe(text('TN', 'software', 64, 128, 1000).code);
    expect(text('TN', 'gpu', 64, 128, 7).code).toBe(text('TN', 'gpu', 64, 128, 1000).code);
  });

  it('is one for shapes that a software adapter’s panels cut alike', () => {
    const key = (layout: Layout, N: number, K: number) => text(layout, 'software', 32, N, K).key;
    expect(key('NT', 64, 64)).toBe(key('NT', 256, 64));
    expect(key('NT', 64, 192)).toBe(key('NT', 48, 64));
    expect(key('NN', 64, 64)).toBe(key('NN', 52, 64));
    expect(text('TN', 'software', 64, 192, 8).key).toBe(text('TN', 'software', 256, 64, 8).key);
    const apart = [key('NN', 64, 64), key('NN', 64, 128), key('NN', 64, 100), key('NN', 64, 99)];
    expect(new Set([...apart, key('NN', 49, 64), key('NN', 16, 64)]).size).toBe(6);
  });

  it('has a key of its own for every text', () => {
    const codes = new Map<string, string>();
    for (const family of ['software', 'gpu'] as const) {
      for (const layout of ['NN', 'NT', 'TN'] as const) {
        for (const epilogue of [{}, { bias: true }, { geluBackward: true }, { accumulate: true }]) {
          for (const [M, N, K] of [
            [64, 60, 32],
            [64, 37, 32],
            [64, 60, 36],
            [60, 60, 32],
            [513, 516, 32],
          ] as const) {
            const { key, code } = text(layout, family, M, N, K, epilogue);
            expect(codes.get(key) ?? code).toBe(code);
            codes.set(key, code);
          }
        }
      }
    }
    expect(new Set(codes.values()).size).toBe(codes.size);
  });

  it('has neither workgroup memory nor barriers for software adapters, no subgroups for GPUs', () => {
    for (const layout of ['NN', 'NT', 'TN'] as const) {
      const software = text(layout, 'software', 256, 128, 128);
      expect(software.code).toMatch(/^enable subgroups;/);
      expect(software.code).not.toMatch(/var<workgroup>|Barrier/);
      const gpu = text(layout, 'gpu', 256, 128, 128);
      expect(gpu.code).not.toMatch(/subgroup|quad/);
    }
  });

  it('stays short enough to compile in a fraction of a second', () => {
    for (const layout of ['NN', 'NT', 'TN'] as const) {
      for (const family of ['software', 'gpu'] as const) {
        const { code } = text(layout, family, 513, 513, 513, { bias: layout !== 'TN', gelu: layout !== 'TN' });
        expect(code.length).toBeLessThan(24_000);
      }
    }
  });

  it('deals every row to a workgroup, within the limits of a dispatch', () => {
    for (const family of ['software', 'gpu'] as const) {
      for (const N of [1, 16, 37, 96, 512, 50_257]) {
        for (const M of [1, 2, 63, 64, 65, 127, 256, 1000, 65_536, 1_000_000]) {
          const [x, y, z] = matmul({ layout: 'NN' }).source(family, { M, N, K: 64 }).workgroups({ M, N, K: 64 });
          expect(Math.max(x, y, z)).toBeLessThanOrEqual(MAX_WORKGROUPS_PER_DIMENSION);
          expect(y).toBeLessThanOrEqual(M);
          expect(z).toBe(1);
        }
      }
    }
  });

  it('refuses epilogues that no text could do', () => {
    expect(() => matmul({ layout: 'NN', epilogue: { accumulate: true, bias: true } })).toThrow(/accumulate/);
    expect(() => matmul({ layout: 'NN', epilogue: { biasGradient: true } })).toThrow(/weight gradient/);
    expect(() => matmul({ layout: 'NN', epilogue: { gelu: true, geluBackward: true } })).toThrow(/one activation/);
  });
});
