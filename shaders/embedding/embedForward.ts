/**
 * Token and position embedding: x_NC[n] = token_VC[ids_N[n]] + position_TC[n mod T − first_N[n]]. Rows are whole
 * windows of T one after the other, in which an example begins at row first_N of its rows' window. Of a table in pieces token_VC is the R rows
 * from F on, and rows with other ids are left to the other pieces.
 */

import { at } from '../../swarm/base.ts';
import { drawFirstRows } from '../attention/firstKeys.ts';
import { fillBelow } from '../kernel/fill.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './embedForward.wgsl?raw';

/** Rows of an example in a case. */
const LONGEST = 15;

export const embedForward = kernel({
  name: 'embed.forward',
  tensors: [
    read('ids_N', 'u32'),
    read('first_N', 'u32'),
    half(read('token_VC')),
    half(read('position_TC')),
    half(readWrite('x_NC')),
  ],
  dims: [u32('N'), u32('T'), u32('C'), u32('F'), u32('R')],
  // V is no dim of the kernel, only of its cases: ids are trusted to be below it.
  sizes: ({ N, T, C, V }) => ({ ids_N: N, first_N: N, token_VC: V * C, position_TC: T * C, x_NC: N * C }),
  source: (_family, { C }) =>
    laneSource({ name: 'embed.forward', code, width: laneWidth(C) }, (dims) => dims.N * dims.C),
  cpu({ ids_N, first_N, token_VC, position_TC, x_NC }, { N, T, C, F, R }) {
    for (let n = 0; n < N; n++) {
      const row = at(ids_N, n) - F;
      if (row < 0 || row >= R) continue;
      const position = (n % T) - at(first_N, n);
      for (let c = 0; c < C; c++) x_NC[n * C + c] = at(token_VC, row * C + c) + at(position_TC, position * C + c);
    }
  },
  cases: [
    { N: 1, T: 1, C: 1, V: 1, F: 0, R: 1 },
    { N: 14, T: 7, C: 5, V: 11, F: 3, R: 4 },
    { N: 74, T: 37, C: 60, V: 50, F: 0, R: 50 },
    { N: 256, T: 64, C: 128, V: 256, F: 128, R: 128 },
  ],
  fill({ ids_N, first_N }, { N, T, V }, random) {
    fillBelow(ids_N, V, random);
    first_N.set(drawFirstRows(N, T, LONGEST, random));
  },
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * (3 * N * C + N) }),
});
