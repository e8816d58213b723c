/** Elements by the formula alone against the whole reference of the same case. */
import { expect, test } from 'vitest';
import { seededRandom } from '../../swarm/base.ts';
import { matmul } from '../family/matmul.ts';
import { kernels } from '../kernels.ts';
import { caseArrays } from './verify.ts';

const sliced = matmul({ layout: 'TN', epilogue: { biasGradient: true }, slices: true });
const LARGEST_FLOPS = 3e6;

test.each([...kernels, sliced].flatMap(({ name, sampled, ...kernel }) => (sampled ? [{ name, sampled, kernel }] : [])))(
  '$name: single elements are those of the whole reference, in every output',
  ({ name, sampled, kernel }) => {
    for (const dims of kernel.cases) {
      if (kernel.cost(dims).flops > LARGEST_FLOPS) continue;
      const arrays = caseArrays({ ...kernel, name }, dims);
      const drawn = sampled.draw(arrays, dims, seededRandom(3), 200);
      expect(drawn.length).toBeGreaterThanOrEqual(100);
      kernel.cpu(arrays, dims);
      for (const { tensor, index, value } of drawn) {
        const whole = arrays[tensor]?.[index];
        expect(Math.abs((whole ?? Number.NaN) - value), `${tensor}[${index}]`).toBeLessThan(
          1e-6 * (1 + Math.abs(value)),
        );
      }
      const written = kernel.tensors.filter(({ access }) => access === 'readWrite').map((slot) => slot.name);
      expect(new Set(drawn.map(({ tensor }) => tensor))).toEqual(new Set(written));
    }
  },
);
