/**
 * Counts the passes that the GPU did. A driver that is out of memory may drop a submit without a word, and buffers keep
 * what the step before left in them: a number that comes back with the values, and has to be the number of passes that
 * were submitted, is the proof that they are new.
 */

import type { Kernel } from '../kernel.ts';
import code from './countPass.wgsl?raw';

export const countPass: Kernel = {
  name: 'countPass',
  tensors: [{ name: 'passes', access: 'readWrite', type: 'u32' }],
  dims: [],
  sizes: () => ({ passes: 1 }),
  variant: () => ({ key: 'countPass', code, entryPoint: 'main', subgroups: false, workgroups: () => [1, 1, 1] }),
  cpu({ passes }) {
    passes[0]++;
  },
  cases: [{}],
  tolerance: { absolute: 0, relative: 0 },
  cost: () => ({ flops: 1, bytes: 8 }),
};
