/** The one table of kernels: tests, the admission check and the benchmark walk over it. */
import { adamw, adamwShadow } from './adamw.ts';
import { addInto } from './addInto.ts';
import { attentionBackwardKeyValue } from './attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from './attentionBackwardQuery.ts';
import { attentionForward } from './attentionForward.ts';
import { columnSum } from './columnSum.ts';
import { copyIn, copyOut } from './copy.ts';
import { countPass } from './countPass.ts';
import { crossEntropy } from './crossEntropy.ts';
import { crossEntropyLoss } from './crossEntropyLoss.ts';
import { embedBackwardPosition } from './embedBackwardPosition.ts';
import { embedBackwardToken } from './embedBackwardToken.ts';
import { embedForward } from './embedForward.ts';
import { embedTokens } from './embedTokens.ts';
import type { Kernel } from './kernel.ts';
import { layerNormBackward } from './layerNormBackward.ts';
import { layerNormBackwardWeights } from './layerNormBackwardWeights.ts';
import { layerNormForward } from './layerNormForward.ts';
import { matmul } from './matmul.ts';
import { packF16 } from './packF16.ts';
import { packInt8, packInt8Feedback } from './packInt8.ts';
import { rmsNormBackward } from './rmsNormBackward.ts';
import { rmsNormBackwardWeights } from './rmsNormBackwardWeights.ts';
import { rmsNormForward } from './rmsNormForward.ts';
import { rotary } from './rotary.ts';
import { sumSquares } from './sumSquares.ts';
import { swiGluBackward } from './swiGluBackward.ts';
import { swiGluForward } from './swiGluForward.ts';
import { unpackF16 } from './unpackF16.ts';
import { unpackInt8 } from './unpackInt8.ts';

/** The forms of the matrix product that the models are made of: forward, weight gradients, input gradients, tied head. */
const products: readonly Kernel[] = [
  matmul({ layout: 'NN', epilogue: { bias: true } }),
  matmul({ layout: 'NN', epilogue: { bias: true, gelu: true } }),
  matmul({ layout: 'NN', epilogue: { bias: true, residual: true } }),
  matmul({ layout: 'NT' }),
  matmul({ layout: 'NT', epilogue: { residual: true } }),
  matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: true } }),
  matmul({ layout: 'NT', epilogue: { geluBackward: true } }),
  matmul({ layout: 'NN' }),
  matmul({ layout: 'NN', epilogue: { accumulate: true } }),
  matmul({ layout: 'TN', epilogue: { accumulate: true } }),
];

export const kernels: readonly Kernel[] = [
  ...products,
  embedForward,
  embedTokens,
  embedBackwardToken,
  embedBackwardPosition,
  layerNormForward,
  layerNormBackward,
  layerNormBackwardWeights,
  rmsNormForward,
  rmsNormBackward,
  rmsNormBackwardWeights,
  columnSum,
  rotary,
  attentionForward,
  attentionBackwardQuery,
  attentionBackwardKeyValue,
  swiGluForward,
  swiGluBackward,
  crossEntropy,
  crossEntropyLoss,
  addInto,
  sumSquares,
  adamw,
  adamwShadow,
  copyIn,
  copyOut,
  countPass,
  packF16,
  unpackF16,
  packInt8,
  packInt8Feedback,
  unpackInt8,
];
