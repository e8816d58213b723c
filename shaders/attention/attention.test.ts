import { expect, test } from 'vitest';
import { textOf } from '../kernel/text.ts';
import { attentionBackwardKeyValue } from './attentionBackwardKeyValue.ts';
import { TILE } from './tileSteps.ts';

test.each([64, 80, 128])('dk and dv: at heads %i wide each score is computed once on a GPU', (D) => {
  const dims = { B: 2, T: 70, H: 6, K: 3, D, scale: D ** -0.5 };
  // A tile of keys of one head belongs to one workgroup, which makes p of a tile of scores in one place.
  const { workgroups } = attentionBackwardKeyValue.source('gpu', dims);
  expect(workgroups(dims)).toEqual([2 * 3, Math.ceil(70 / TILE), 1]);
  const text = textOf(attentionBackwardKeyValue, dims, { family: 'gpu', inBoxes: false });
  expect(text.match(/[^_]p_of\(/g)).toHaveLength(2); // where it is written, and where it is called
  expect(text.match(/vec4f\(0\), exp\(/g)).toHaveLength(4);
});
