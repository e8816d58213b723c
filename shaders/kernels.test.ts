/** The CPU references: each backward against finite differences of its forward, and the table's own promises. */
import { describe, expect, test } from 'vitest';
import { at, seededRandom } from '../swarm/base.ts';
import { crossEntropy as crossEntropyRow } from '../swarm/reference/rows.ts';
import { NO_TARGET } from '../swarm/run/data.ts';
import { geGluBackward, swiGluBackward } from './activation/gatedBackward.ts';
import { geGluForward, swiGluForward } from './activation/gatedForward.ts';
import { columnSum } from './arrays/columnSum.ts';
import { fillFirstKeys } from './attention/attention.ts';
import { attentionBackwardKeyValue } from './attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from './attention/attentionBackwardQuery.ts';
import { attentionForward } from './attention/attentionForward.ts';
import { rotary, rotaryTable } from './attention/rotary.ts';
import { embedBackwardToken } from './embedding/embedBackwardToken.ts';
import { embedForward } from './embedding/embedForward.ts';
import { embedTokens } from './embedding/embedTokens.ts';
import { sortTokens } from './embedding/sortTokens.ts';
import { kernels } from './kernels.ts';
import { crossEntropy } from './loss/crossEntropy.ts';
import { crossEntropyLoss } from './loss/crossEntropyLoss.ts';
import { preferencePairs } from './loss/preferencePairs.ts';
import { headNormBackward } from './norm/headNormBackward.ts';
import { headNormBackwardWeights } from './norm/headNormBackwardWeights.ts';
import { headNormForward } from './norm/headNormForward.ts';
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
    const dims = { N: 6, T: 3, C: 2, V: 4, F: 0, R: 4 };
    const forward = float64Arrays(embedForward, dims);
    const ids_N = Uint32Array.of(3, 0, 3, 1, 3, 0);
    const { x_NC: dx_NC } = float64Arrays(
      { ...embedForward, tensors: [{ name: 'x_NC', access: 'read', type: 'f32' }] },
      dims,
      2,
    );
    // Windows of an example of two rows and one of one.
    const first_N = Uint32Array.of(0, 0, 2, 0, 0, 2);
    const arrays = { ...forward, ids_N, first_N };
    const loss = weightedOutput(embedForward, arrays, dims, 'x_NC', dx_NC);

    const { order: order_N, segments } = sortTokens(ids_N);
    const { dtoken_VC } = float64Arrays(embedBackwardToken, dims);
    embedBackwardToken.cpu({ order_N, segments, dx_NC, dtoken_VC }, { ...dims, scale: 1 });
    expect(gradientError(dtoken_VC, numericalGradient(forward.token_VC, loss))).toBeLessThan(TOLERANCE);
    const scaled = new Float64Array(dtoken_VC.length) as unknown as Float32Array;
    embedBackwardToken.cpu({ order_N, segments, dx_NC, dtoken_VC: scaled }, { ...dims, scale: 3 });
    expect(
      gradientError(
        scaled,
        dtoken_VC.map((value) => 3 * value),
      ),
    ).toBeLessThan(1e-12);

    const positions = sortTokens(Uint32Array.of(0, 1, 0, 0, 1, 0));
    const { dtoken_VC: dposition_TC } = float64Arrays(embedBackwardToken, { ...dims, V: dims.T });
    const ofPositions = { order_N: positions.order, segments: positions.segments, dx_NC, dtoken_VC: dposition_TC };
    embedBackwardToken.cpu(ofPositions, { ...dims, R: dims.T, scale: 1 });
    expect(gradientError(dposition_TC, numericalGradient(forward.position_TC, loss))).toBeLessThan(TOLERANCE);
  });

  test('layer norm: input, weight and bias', () => {
    const dims = { N: 3, C: 5, epsilon: 1e-5, accumulate: 0 };
    const forward = float64Arrays(layerNormForward, dims);
    const backward = float64Arrays(layerNormBackward, dims, 2);
    const { dy_NC } = backward;
    const loss = weightedOutput(layerNormForward, forward, dims, 'y_NC', dy_NC);
    loss(); // fills stat_N2
    const { x_NC, weight_C, bias_C, stat_N2 } = forward;

    layerNormBackward.cpu({ x_NC, stat_N2, weight_C, dy_NC, dx_NC: backward.dx_NC }, dims);
    const dx_NC = backward.dx_NC.slice();
    const { dweight_C, dbias_C } = float64Arrays(layerNormBackwardWeights, dims);
    layerNormBackwardWeights.cpu({ x_NC, stat_N2, dy_NC, dweight_C, dbias_C }, dims);

    expect(gradientError(dx_NC, numericalGradient(x_NC, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dweight_C, numericalGradient(weight_C, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dbias_C, numericalGradient(bias_C, loss))).toBeLessThan(TOLERANCE);

    loss();
    layerNormBackward.cpu({ x_NC, stat_N2, weight_C, dy_NC, dx_NC: backward.dx_NC }, { ...dims, accumulate: 1 });
    expect(
      gradientError(
        backward.dx_NC,
        Array.from(dx_NC, (value) => 2 * value),
      ),
    ).toBeLessThan(1e-12);
  });

  test('token embedding: the rows of the table', () => {
    const dims = { N: 3, T: 3, C: 2, V: 4, F: 0, R: 4, scale: 1 };
    const { token_VC, x_NC } = float64Arrays(embedTokens, dims);
    embedTokens.cpu({ ids_N: Uint32Array.of(3, 0, 3), token_VC, x_NC }, dims);
    expect(Array.from(x_NC)).toEqual([token_VC[6], token_VC[7], token_VC[0], token_VC[1], token_VC[6], token_VC[7]]);
  });

  test('RMS norm: input and weight', () => {
    const dims = { N: 3, C: 5, epsilon: 1e-5, offset: 1, accumulate: 0 };
    const forward = float64Arrays(rmsNormForward, dims);
    const { dy_NC, dx_NC } = float64Arrays(rmsNormBackward, dims, 2);
    const loss = weightedOutput(rmsNormForward, forward, dims, 'y_NC', dy_NC);
    loss(); // fills stat_N
    const { x_NC, weight_C, stat_N } = forward;
    rmsNormBackward.cpu({ x_NC, stat_N, weight_C, dy_NC, dx_NC }, dims);
    const once = dx_NC.slice();
    rmsNormBackward.cpu({ x_NC, stat_N, weight_C, dy_NC, dx_NC }, { ...dims, accumulate: 1 });
    const { dweight_C } = float64Arrays(rmsNormBackwardWeights, dims);
    rmsNormBackwardWeights.cpu({ x_NC, stat_N, dy_NC, dweight_C }, dims);

    expect(gradientError(once, numericalGradient(x_NC, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dweight_C, numericalGradient(weight_C, loss))).toBeLessThan(TOLERANCE);
    const twice = Array.from(once, (value) => 2 * value);
    expect(gradientError(dx_NC, twice)).toBeLessThan(1e-12);
  });

  test('norms of heads: input and both weights', () => {
    const dims = { N: 3, H: 4, K: 2, D: 3, C: 6, epsilon: 1e-5, offset: 1 };
    const forward = float64Arrays(headNormForward, dims);
    const { dy_NED, dx_NED } = float64Arrays(headNormBackward, dims, 2);
    const loss = weightedOutput(headNormForward, forward, dims, 'y_NED', dy_NED);
    loss(); // fills stat_NG
    const { x_NED, weight_2D, stat_NG } = forward;
    headNormBackward.cpu({ x_NED, stat_NG, weight_2D, dy_NED, dx_NED }, dims);
    const { dweight_2D } = float64Arrays(headNormBackwardWeights, dims);
    headNormBackwardWeights.cpu({ x_NED, stat_NG, dy_NED, dweight_2D }, dims);
    expect(gradientError(dx_NED, numericalGradient(x_NED, loss))).toBeLessThan(TOLERANCE);
    expect(gradientError(dweight_2D, numericalGradient(weight_2D, loss))).toBeLessThan(TOLERANCE);
  });

  test('rotary positions: turning back is the gradient, and leaves what it does not turn', () => {
    const dims = { N: 6, T: 3, H: 2, D: 4, S: 10, sign: 1 };
    const table_TD = rotaryTable(dims.T, [1, 0.1]);
    const first_N = Uint32Array.of(0, 0, 0, 0, 1, 1);
    const { x_NS } = float64Arrays({ ...rotary, tensors: [{ name: 'x_NS', access: 'read', type: 'f32' }] }, dims);
    const { x_NS: dy_NS } = float64Arrays(
      { ...rotary, tensors: [{ name: 'x_NS', access: 'read', type: 'f32' }] },
      dims,
      2,
    );
    const loss = () => {
      const turned = x_NS.slice();
      rotary.cpu({ table_TD, first_N, x_NS: turned }, dims);
      return dy_NS.reduce((sum, weight, i) => sum + weight * at(turned, i), 0);
    };
    const dx_NS = dy_NS.slice();
    rotary.cpu({ table_TD, first_N, x_NS: dx_NS }, { ...dims, sign: -1 });
    expect(gradientError(dx_NS, numericalGradient(x_NS, loss))).toBeLessThan(TOLERANCE);
    for (let n = 0; n < dims.N; n++)
      expect([dx_NS[n * 10 + 8], dx_NS[n * 10 + 9]]).toEqual([dy_NS[n * 10 + 8], dy_NS[n * 10 + 9]]);
  });

  test('rotary table: the angle of a late position is that of float64', () => {
    const table = rotaryTable(
      8192,
      Array.from({ length: 32 }, (_, d) => 10_000 ** (-d / 32)),
    );
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

  test.each([
    ['SwiGLU', swiGluForward, swiGluBackward],
    ['GeGLU', geGluForward, geGluBackward],
  ] as const)('%s: gate and up', (_, gatedForward, gatedBackward) => {
    const dims = { N: 3, I: 5 };
    const forward = float64Arrays(gatedForward, dims);
    const { dy_NI, dx_N2I } = float64Arrays(gatedBackward, dims, 2);
    const { x_N2I } = forward;
    gatedBackward.cpu({ x_N2I, dy_NI, dx_N2I }, dims);
    const loss = weightedOutput(gatedForward, forward, dims, 'y_NI', dy_NI);
    expect(gradientError(dx_N2I, numericalGradient(x_N2I, loss))).toBeLessThan(TOLERANCE);
  });

  test('bias: the sum down the columns', () => {
    const dims = { N: 4, C: 3 };
    const { dy_NC, dbias_C } = float64Arrays(columnSum, dims);
    const bias_C = new Float64Array(3) as unknown as Float32Array;
    const loss = () => dy_NC.reduce((sum, value, i) => sum + value * at(bias_C, i % 3), 0);
    columnSum.cpu({ dy_NC, dbias_C }, dims);
    expect(gradientError(dbias_C, numericalGradient(bias_C, loss))).toBeLessThan(TOLERANCE);
  });

  test.each([
    { B: 2, T: 5, H: 2, K: 2, D: 3, scale: 0.6 },
    { B: 2, T: 4, H: 6, K: 2, D: 2, scale: 0.6 },
    { B: 1, T: 1, H: 1, K: 1, D: 1, scale: 0.6 },
    { B: 2, T: 9, H: 2, K: 1, D: 2, scale: 0.6, W: 3, L: 5 },
  ])('attention: queries, keys and values (%o)', (dims) => {
    const forward = float64Arrays(attentionForward, dims);
    fillFirstKeys(forward, dims, seededRandom(3));
    const { dy_BTHD, delta_BHT, dqkv_BTED } = float64Arrays(attentionBackwardQuery, dims, 2);
    const loss = weightedOutput(attentionForward, forward, dims, 'y_BTHD', dy_BTHD);
    loss(); // fills y_BTHD and lse_BHT
    const { qkv_BTED, first_BT, y_BTHD, lse_BHT } = forward;
    attentionBackwardQuery.cpu({ qkv_BTED, first_BT, y_BTHD, lse_BHT, dy_BTHD, delta_BHT, dqkv_BTED }, dims);
    attentionBackwardKeyValue.cpu({ qkv_BTED, first_BT, lse_BHT, delta_BHT, dy_BTHD, dqkv_BTED }, dims);
    expect(gradientError(dqkv_BTED, numericalGradient(qkv_BTED, loss))).toBeLessThan(TOLERANCE);
  });

  test('[CO102] preference pairs: what each row of a window counts, whose losses become one', () => {
    const dims = { B: 3, T: 14, beta: 0.7 };
    const { first_BT, loss_BT, weight_BT } = float64Arrays(preferencePairs, dims);
    const losses = () => {
      const own = loss_BT.slice();
      preferencePairs.cpu({ first_BT, loss_BT: own, weight_BT }, dims);
      return own;
    };
    const slopes = numericalGradient(loss_BT, () => losses().reduce((sum, loss) => sum + loss, 0));
    expect([...losses()].flatMap((loss, row) => (loss === 0 ? [] : [row]))).toEqual([0, 14, 28]);
    const isReference = (row: number): boolean => row % 14 >= 7;
    // What the reference loses is no function of the adapter.
    expect(
      gradientError(
        weight_BT,
        slopes.map((slope, row) => (isReference(row) ? 0 : slope)),
      ),
    ).toBeLessThan(TOLERANCE);
  });

  test('cross-entropy: logits, and both kernels have one loss', () => {
    const dims = { N: 4, V: 5, scale: 0.25 };
    const { logits_NV, loss_N } = float64Arrays(crossEntropyLoss, dims);
    const targets_N = Uint32Array.of(4, 0, NO_TARGET, 2);
    const scaledLoss = () => {
      crossEntropyLoss.cpu({ logits_NV, targets_N, loss_N }, dims);
      return loss_N.reduce((sum, value) => sum + value * dims.scale, 0);
    };
    const expected = numericalGradient(logits_NV, scaledLoss);
    scaledLoss();
    const gradients = logits_NV.slice();
    const lossAgain = loss_N.slice();
    crossEntropy.cpu({ logits_NV: gradients, targets_N, loss_N: lossAgain }, dims);
    expect(gradientError(gradients, expected)).toBeLessThan(TOLERANCE);
    expect(lossAgain).toEqual(loss_N);
  });
});

test('a target 40 ahead of the others has its loss and gradient from them, in the references too', () => {
  const [N, V, lead] = [1, 5, 40];
  const exact = Math.log1p((V - 1) * Math.exp(-lead));
  const logits_NV = new Float32Array(V);
  logits_NV[2] = lead;
  const dlogits = new Float64Array(V);
  const loss = new Float64Array(N);
  crossEntropyRow({ x: Float64Array.from(logits_NV), dx: dlogits }, [2], 1, loss);
  expect(at(loss, 0) / exact).toBeCloseTo(1, 12);
  const arrays = { logits_NV, targets_N: Uint32Array.of(2), loss_N: new Float32Array(N) };
  crossEntropy.cpu(arrays, { N, V, scale: 1 });
  expect(at(arrays.loss_N, 0) / exact).toBeCloseTo(1, 6);
  for (const [v, one] of [1, 1, -4, 1, 1].entries()) {
    expect((4 * at(dlogits, v)) / (one * exact)).toBeCloseTo(1, 12);
    expect((4 * at(logits_NV, v)) / (one * exact)).toBeCloseTo(1, 6);
  }
});

describe('sortTokens', () => {
  test('rows of one id are one segment, ids and rows ascending', () => {
    const { order, segments, count } = sortTokens([7, 2, 7, 2, 2, 9]);
    expect(count).toBe(3);
    expect(Array.from(order)).toEqual([1, 3, 4, 0, 2, 5]);
    expect(Array.from(segments)).toEqual([3, 2, 0, 3, 7, 3, 5, 9, 5, 6, ...Array(9).fill(0)]);
  });

  test('rows of the padding id are in no segment', () => {
    const { order, segments, count } = sortTokens([7, 2, 7, 2, 2, 9], 7);
    expect(count).toBe(2);
    expect(Array.from(order)).toEqual([1, 3, 4, 0, 2, 5]);
    expect(Array.from(segments)).toEqual([2, 2, 0, 3, 9, 5, 6, ...Array(12).fill(0)]);
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
          for (const count of kernel.source(family, dims).workgroups(dims)) {
            expect(count).toBeGreaterThanOrEqual(1);
            expect(count).toBeLessThanOrEqual(65_535);
          }
        }
      }
    },
  );
});
