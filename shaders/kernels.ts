/** The one table of kernels: tests, the admission check and the benchmark walk over it. */
import { adamw } from './adamw.ts';
import { addInto } from './addInto.ts';
import { attentionBackwardKeyValue } from './attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from './attentionBackwardQuery.ts';
import { attentionForward } from './attentionForward.ts';
import { columnSum } from './columnSum.ts';
import { crossEntropy } from './crossEntropy.ts';
import { crossEntropyLoss } from './crossEntropyLoss.ts';
import { embedBackwardPosition } from './embedBackwardPosition.ts';
import { embedBackwardToken } from './embedBackwardToken.ts';
import { embedForward } from './embedForward.ts';
import type { Kernel } from './kernel.ts';
import { layerNormBackward } from './layerNormBackward.ts';
import { layerNormBackwardWeights } from './layerNormBackwardWeights.ts';
import { layerNormForward } from './layerNormForward.ts';
import { matmul } from './matmul.ts';
import { sumSquares } from './sumSquares.ts';

/** The forms of the matrix product that a GPT-2 is made of: forward, weight gradients, input gradients, tied head. */
const products: readonly Kernel[] = [
  matmul({ layout: 'NN', epilogue: { bias: true } }),
  matmul({ layout: 'NN', epilogue: { bias: true, gelu: true } }),
  matmul({ layout: 'NN', epilogue: { bias: true, residual: true } }),
  matmul({ layout: 'NT' }),
  matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: true } }),
  matmul({ layout: 'NT', epilogue: { geluBackward: true } }),
  matmul({ layout: 'NN', epilogue: { accumulate: true } }),
  matmul({ layout: 'TN', epilogue: { accumulate: true } }),
];

export const kernels: readonly Kernel[] = [
  ...products,
  embedForward,
  embedBackwardToken,
  embedBackwardPosition,
  layerNormForward,
  layerNormBackward,
  layerNormBackwardWeights,
  columnSum,
  attentionForward,
  attentionBackwardQuery,
  attentionBackwardKeyValue,
  crossEntropy,
  crossEntropyLoss,
  addInto,
  sumSquares,
  adamw,
];
