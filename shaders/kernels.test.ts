/** The CPU references: each backward against finite differences of its forward, and the table's own promises. */
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../swarm/base.ts';
import { swiGluBackward } from './activation/swiGluBackward.ts';
import { swiGluForward } from './activation/swiGluForward.ts';
import { columnSum } from './arrays/columnSum.ts';
import { attentionBackwardKeyValue } from './attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from './attention/attentionBackwardQuery.ts';
import { attentionForward } from './attention/attentionForward.ts';
import { rotary, rotaryTable } from './attention/rotary.ts';
import { embedBackwardPosition } from './embedding/embedBackwardPosition.ts';
import { embedBackwardToken } from './embedding/embedBackwardToken.ts';
import { embedForward } from './embedding/embedForward.ts';
import { embedTokens } from './embedding/embedTokens.ts';
import { sortTokens } from './embedding/sortTokens.ts';
import { kernels } from './kernels.ts';
import { crossEntropy } from './loss/crossEntropy.ts';
import { crossEntropyLoss } from './loss/crossEntropyLoss.ts';
import { layerNormBackward } from './norm/layerNormBackward.ts';
import { layerNormBackwardWeights } from './norm/layerNormBackwardWeights.ts';
import { layerNormForward } from './norm/layerNormForward.ts';
import { rmsNormBackward } from './norm/rmsNormBackward.ts';
import { rmsNormBackwardWeights } from './norm/rmsNormBackwardWeights.ts';
import { rmsNormForward } from './norm/rmsNormForward.ts';
import { float64Arrays, gradientError, numericalGradient, weightedOutput } from './testing/finiteDifferences.ts';

// A central difference with step 1e-5 is good to about 1e-9 here; a wrong formula is off by 1e-2 and more.
const TOLERANCE = 1e-7;

describe('backward references against finite differences', () => {
  test('embedding: token and position tables', () => {
    const dims = { N: 6, T: 3, C: 2, V: 4 };
    const forward = float64Arrays(embedForward, dims);
    const ids = Uint32Array.of(3, 0, 3, 1, 3, 0);
    const { x: dx } = float64Arrays(
      { ...embedForward, tensors: [{ name: 'x', access: 'read', type: 'f32' }] },
      dims,
      2,
    );
    const arrays = { ...forward, ids };
    const loss = weightedOutput(embedForward, arrays, dims, 'x', dx);

    const { order, segments } = sortTokens(ids);
    const { dtoken } = float64Arrays(embedBackwardToken, dims);
    embedBackwardToken.cpu({ order, segments, dx, dtoken }, dims);
    expect(gradientError(dtoken, numericalGradient(forward.token, loss))).toBeLessThan(TOLERANCE);

    const { dposition } = float64Arrays(embedBackwardPosition, dims);
    embedBackwardPosition.cpu({ dx, dposition }, dims);
    expect(gradientError(dposition, numericalGradient(forward.position, loss))).toBeLessThan(TOLERANCE);
  });

  test('layer norm: input, weight and bias', () => {
    const dims = { N: 3, C: 5, epsilon: 1e-5, accumulate: 0 };
    const forward = float64Arrays(layerNormForward, dims);
    const backward = float64Arrays(layerNormBackward, dims, 2);
    const { dy } = backward;
    const loss = weightedOutput(layerNormForward, forward, dims, 'y', dy);
    loss(); // fills stat
    const { x, weight, bias, stat } = forward;

    layerNormBackward.cpu({ x, stat, weight, dy, dx: backward.dx }, dims);
    const dx = backward.dx.slice();
    const { dweight, dbias } = float64Arrays(layerNormBackwardWeights, dims);
    layerNormBackwardWeights.cpu({ x, stat, dy, dweight, dbias }, dims);

    expect(gradientError(dx, numericalGradient(x, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dweight, numericalGradient(weight, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dbias, numericalGradient(bias, loss))).toBeLessThan(TOLERANCE);

    loss();
    layerNormBackward.cpu({ x, stat, weight, dy, dx: backward.dx }, { ...dims, accumulate: 1 });
    expect(
      gradientError(
        backward.dx,
        Array.from(dx, (value) => 2 * value),
      ),
    ).toBeLessThan(1e-12);
  });

  test('token embedding: the rows of the table', () => {
    const dims = { N: 3, C: 2, V: 4 };
    const { token, x } = float64Arrays(embedTokens, dims);
    embedTokens.cpu({ ids: Uint32Array.of(3, 0, 3), token, x }, dims);
    expect(Array.from(x)).toEqual([token[6], token[7], token[0], token[1], token[6], token[7]]);
  });

  test('RMS norm: input and weight', () => {
    const dims = { N: 3, C: 5, epsilon: 1e-5, accumulate: 0 };
    const forward = float64Arrays(rmsNormForward, dims);
    const { dy, dx } = float64Arrays(rmsNormBackward, dims, 2);
    const loss = weightedOutput(rmsNormForward, forward, dims, 'y', dy);
    loss(); // fills stat
    const { x, weight, stat } = forward;
    rmsNormBackward.cpu({ x, stat, weight, dy, dx }, dims);
    const once = dx.slice();
    rmsNormBackward.cpu({ x, stat, weight, dy, dx }, { ...dims, accumulate: 1 });
    const { dweight } = float64Arrays(rmsNormBackwardWeights, dims);
    rmsNormBackwardWeights.cpu({ x, stat, dy, dweight }, dims);

    expect(gradientError(once, numericalGradient(x, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dweight, numericalGradient(weight, loss))).toBeLessThan(TOLERANCE);
    const twice = Array.from(once, (value) => 2 * value);
    expect(gradientError(dx, twice)).toBeLessThan(1e-12);
  });

  test('rotary positions: turning back is the gradient, and leaves what it does not turn', () => {
    const dims = { N: 6, T: 3, H: 2, D: 4, S: 10, sign: 1 };
    const table = rotaryTable(dims.T, dims.D, 100);
    const { x } = float64Arrays({ ...rotary, tensors: [{ name: 'x', access: 'read', type: 'f32' }] }, dims);
    const { x: dy } = float64Arrays({ ...rotary, tensors: [{ name: 'x', access: 'read', type: 'f32' }] }, dims, 2);
    const loss = () => {
      const turned = x.slice();
      rotary.cpu({ table, x: turned }, dims);
      return dy.reduce((sum, weight, i) => sum + weight * turned[i], 0);
    };
    const dx = dy.slice();
    rotary.cpu({ table, x: dx }, { ...dims, sign: -1 });
    expect(gradientError(dx, numericalGradient(x, loss))).toBeLessThan(TOLERANCE);
    for (let n = 0; n < dims.N; n++) expect([dx[n * 10 + 8], dx[n * 10 + 9]]).toEqual([dy[n * 10 + 8], dy[n * 10 + 9]]);
  });

  test('rotary table: the angle of a late position is that of float64', () => {
    const table = rotaryTable(8192, 64, 10_000);
    for (const [t, d] of [
      [8191, 0],
      [8191, 5],
      [4097, 31],
    ] as const) {
      const angle = t * 10_000 ** (-d / 32);
      expect(table[t * 64 + d]).toBe(Math.fround(Math.cos(angle)));
      expect(table[t * 64 + 32 + d]).toBe(Math.fround(Math.sin(angle)));
    }
  });

  test('SwiGLU: gate and up', () => {
    const dims = { N: 3, I: 5 };
    const forward = float64Arrays(swiGluForward, dims);
    const { dy, dx } = float64Arrays(swiGluBackward, dims, 2);
    const { x } = forward;
    swiGluBackward.cpu({ x, dy, dx }, dims);
    const loss = weightedOutput(swiGluForward, forward, dims, 'y', dy);
    expect(gradientError(dx, numericalGradient(x, loss))).toBeLessThan(TOLERANCE);
  });

  test('bias: the sum down the columns', () => {
    const dims = { N: 4, C: 3 };
    const { dy, dbias } = float64Arrays(columnSum, dims);
    const bias = new Float64Array(3) as unknown as Float32Array;
    const loss = () => dy.reduce((sum, value, i) => sum + value * bias[i % 3], 0);
    columnSum.cpu({ dy, dbias }, dims);
    expect(gradientError(dbias, numericalGradient(bias, loss))).toBeLessThan(TOLERANCE);
  });

  test.each([
    { B: 2, T: 5, H: 2, K: 2, D: 3 },
    { B: 2, T: 4, H: 6, K: 2, D: 2 },
    { B: 1, T: 1, H: 1, K: 1, D: 1 },
  ])('attention: queries, keys and values (%o)', (dims) => {
    const forward = float64Arrays(attentionForward, dims);
    const { dy, delta, dqkv } = float64Arrays(attentionBackwardQuery, dims, 2);
    const loss = weightedOutput(attentionForward, forward, dims, 'y', dy);
    loss(); // fills y and lse
    const { qkv, y, lse } = forward;
    attentionBackwardQuery.cpu({ qkv, y, lse, dy, delta, dqkv }, dims);
    attentionBackwardKeyValue.cpu({ qkv, lse, delta, dy, dqkv }, dims);
    expect(gradientError(dqkv, numericalGradient(qkv, loss))).toBeLessThan(TOLERANCE);
  });

  test('cross-entropy: logits, and both kernels have one loss', () => {
    const dims = { N: 3, V: 5, scale: 0.25 };
    const { logits, loss } = float64Arrays(crossEntropyLoss, dims);
    const targets = Uint32Array.of(4, 0, 2);
    const scaledLoss = () => {
      crossEntropyLoss.cpu({ logits, targets, loss }, dims);
      return loss.reduce((sum, value) => sum + value * dims.scale, 0);
    };
    const expected = numericalGradient(logits, scaledLoss);
    scaledLoss();
    const gradients = logits.slice();
    const lossAgain = loss.slice();
    crossEntropy.cpu({ logits: gradients, targets, loss: lossAgain }, dims);
    expect(gradientError(gradients, expected)).toBeLessThan(TOLERANCE);
    expect(lossAgain).toEqual(loss);
  });
});

describe('sortTokens', () => {
  test('rows of one id are one segment, ids and rows ascending', () => {
    const { order, segments, count } = sortTokens([7, 2, 7, 2, 2, 9]);
    expect(count).toBe(3);
    expect(Array.from(order)).toEqual([1, 3, 4, 0, 2, 5]);
    expect(Array.from(segments)).toEqual([3, 2, 0, 3, 7, 3, 5, 9, 5, 6, ...Array(9).fill(0)]);
  });

  test.each([1, 2, 3])('every row is in the segment of its id, once (seed %i)', (seed) => {
    const random = seededRandom(seed);
    const ids = Array.from({ length: 50 }, () => Math.floor(random() * 20));
    const { order, segments, count } = sortTokens(ids);
    const seen: number[] = [];
    for (let s = 0; s < count; s++) {
      const [id, from, to] = segments.subarray(1 + 3 * s, 4 + 3 * s);
      for (const row of order.subarray(from, to)) {
        expect(ids[row]).toBe(id);
        seen.push(row);
      }
    }
    expect(seen.sort((a, b) => a - b)).toEqual(ids.map((_, row) => row));
  });
});

describe('the table', () => {
  test('names are unique', () => {
    expect(new Set(kernels.map(({ name }) => name)).size).toBe(kernels.length);
  });

  test.each(kernels.map((kernel) => [kernel.name, kernel] as const))(
    '%s keeps the limits and knows its sizes',
    (_, kernel) => {
      expect(kernel.tensors.length).toBeLessThanOrEqual(8);
      for (const dims of kernel.cases) {
        for (const { name } of kernel.tensors) expect(kernel.sizes(dims)[name], name).toBeGreaterThan(0);
        for (const { name } of kernel.dims) expect(dims[name], name).toBeDefined();
        for (const family of ['software', 'gpu'] as const) {
          for (const count of kernel.variant(family, dims).workgroups(dims)) {
            expect(count).toBeGreaterThanOrEqual(1);
            expect(count).toBeLessThanOrEqual(65_535);
          }
        }
      }
    },
  );
});
