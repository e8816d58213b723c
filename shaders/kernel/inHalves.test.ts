/** What becomes of a kernel where its activations and weights are halves. */
import { describe, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { copyIn } from '../arrays/copy.ts';
import { kernels } from '../kernels.ts';
import { sumSquares } from '../update/sumSquares.ts';
import { inHalves } from './inHalves.ts';

describe('kernels over halves', () => {
  test('cost less memory, and always a number', () => {
    const sums = inHalves(copyIn).cost({ n: 1024, offset: 0 });
    expect(sums.bytes).toBe(1024 * 6);
    for (const kernel of kernels) {
      const dims = at(kernel.cases, 0);
      const launched = Object.fromEntries(kernel.dims.map(({ name }) => [name, dims[name] ?? Number.NaN]));
      expect(inHalves(kernel).cost(launched).bytes).not.toBeNaN();
    }
  });

  test('one without activations and weights stays what it is; sums and statistics stay float32', () => {
    expect(inHalves(sumSquares)).toBe(sumSquares);
    const norm = inHalves(kernels.find(({ name }) => name === 'layerNorm.forward') ?? sumSquares);
    expect(norm.tensors.map(({ name, type }) => `${name} ${type}`)).toEqual([
      'x_NC f16',
      'weight_C f16',
      'bias_C f16',
      'y_NC f16',
      'stat_N2 f32',
    ]);
  });
});
