/** What becomes of a kernel's text where its activations and weights are halves. */
import { describe, expect, test } from 'vitest';
import { copyIn, copyOut } from './arrays/copy.ts';
import { inHalves, textInHalves } from './inHalves.ts';
import { kernels } from './kernels.ts';
import { half, read, readWrite } from './slots.ts';
import { sumSquares } from './update/sumSquares.ts';

const rewritten = (declaration: string, line: string): string =>
  textInHalves(`${declaration}\n${line}`, [half(readWrite('x'))]).split('\n')[2] ?? '';

describe('text over halves', () => {
  const floats = '@group(0) @binding(0) var<storage, read_write> x: array<f32>;';
  const vectors = '@group(0) @binding(0) var<storage, read_write> x: array<array<vec4f, 3>>;';
  test.each([
    ['a load', 'let a = x[i + 1u] * y[i];', 'let a = f32(x[i + 1u]) * y[i];'],
    ['a store', 'x[i] = a;', 'x[i] = half1(a);'],
    ['a sum in place', 'x[i] -= b * (x[i] + 1.0);', 'x[i] = half1(f32(x[i]) - (b * (f32(x[i]) + 1.0)));'],
    ['a product in place', 'x[i] *= 2.0;', 'x[i] = half1(f32(x[i]) * (2.0));'],
    ['a load within an index', 'x[u32(x[i])] = x[0];', 'x[u32(f32(x[i]))] = half1(f32(x[0]));'],
    ['a comparison', 'if (x[i] == x[j]) { x[j] = a; }', 'if (f32(x[i]) == f32(x[j])) { x[j] = half1(a); }'],
    ['other names', 'let a = dx[i] + s.x + max[i]; // x[i] = 3', 'let a = dx[i] + s.x + max[i]; '],
  ])('%s', (_, line, expected) => {
    expect(rewritten(floats, line)).toBe(expected);
  });

  test('rows of vectors', () => {
    expect(rewritten(vectors, 'v += x[m][n / 4u].y; x[m][n] = v;')).toBe(
      'v += vec4f(x[m][n / 4u]).y; x[m][n] = half4(v);',
    );
    expect(textInHalves(vectors, [half(readWrite('x'))])).toContain('x: array<array<vec4h, 3>>;');
  });

  test('what the convention forbids is no text', () => {
    expect(() => rewritten(floats, 'let row = &x[m];')).toThrow('a pointer is taken to x');
    expect(() => rewritten(vectors, 'x[m][n].y = 1.0;')).toThrow('a part of x[…] is stored');
    expect(() => textInHalves('var<storage, read> x: array<u32>;', [half(read('x'))])).toThrow('not declared');
  });
});

describe('kernels over halves', () => {
  test('cost less memory, and always a number', () => {
    const sums = inHalves(copyIn).cost({ n: 1024, offset: 0 });
    expect(sums.bytes).toBe(1024 * 6);
    for (const kernel of kernels) {
      const [dims] = kernel.cases;
      const launched = Object.fromEntries(kernel.dims.map(({ name }) => [name, dims[name]]));
      expect(inHalves(kernel).cost(launched).bytes).not.toBeNaN();
    }
  });

  test('every one of the table that has something to keep has a text and a key of its own', () => {
    const keys = kernels.flatMap((kernel) => {
      const halves = inHalves(kernel);
      if (halves === kernel) return [];
      return kernel.cases.map((dims) => {
        const { key, code } = halves.variant('gpu', dims);
        expect(code.startsWith('enable f16;')).toBe(true);
        return `${key}\n${code}`;
      });
    });
    // Equal keys share a pipeline, so they must have equal texts.
    const texts = new Map(keys.map((text) => [text.slice(0, text.indexOf('\n')), text]));
    for (const text of keys) expect(texts.get(text.slice(0, text.indexOf('\n')))).toBe(text);
    expect(inHalves(copyIn).variant('gpu', { n: 4, offset: 0 }).key).not.toBe(
      inHalves(copyOut).variant('gpu', { n: 4, offset: 0 }).key,
    );
  });

  test('one without activations and weights stays what it is; sums and statistics stay float32', () => {
    expect(inHalves(sumSquares)).toBe(sumSquares);
    const norm = inHalves(kernels.find(({ name }) => name === 'layerNorm.forward') ?? sumSquares);
    expect(norm.tensors.map(({ name, type }) => `${name} ${type}`)).toEqual([
      'x f16',
      'weight f16',
      'bias f16',
      'y f16',
      'stat f32',
    ]);
  });
});
