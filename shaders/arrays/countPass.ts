/**
 * Counts the passes that the GPU did. A driver that is out of memory may drop a submit without a word, and buffers keep
 * what the step before left in them: a number that comes back with the values, and has to be the number of passes that
 * were submitted, is the proof that they are new.
 */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { readWrite } from '../kernel/slots.ts';
import code from './countPass.wgsl?raw';

export const countPass = kernel({
  name: 'countPass',
  tensors: [readWrite('passes', 'u32')],
  dims: [],
  sizes: () => ({ passes: 1 }),
  source: () => ({ key: 'countPass', body: () => code, width: 1, workgroupSize: 1, workgroups: () => [1, 1, 1] }),
  cpu({ passes }) {
    passes[0] = at(passes, 0) + 1;
  },
  cases: [{}],
  tolerance: { absolute: 0, relative: 0 },
  cost: () => ({ flops: 1, bytes: 8 }),
});
