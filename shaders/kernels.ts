/** The one table of kernels: tests, the admission check and the benchmark walk over it. */

import { geGluBackward, swiGluBackward } from './activation/gatedBackward.ts';
import { geGluForward, swiGluForward } from './activation/gatedForward.ts';
import { geluBackward } from './activation/geluBackward.ts';
import { geluForward } from './activation/geluForward.ts';
import { collectPart } from './adapter/collectPart.ts';
import { spreadPart } from './adapter/spreadPart.ts';
import { cachedAttention } from './answer/cachedAttention.ts';
import { drawTokens } from './answer/drawTokens.ts';
import { keepKeysValues } from './answer/keepKeysValues.ts';
import { addInto } from './arrays/addInto.ts';
import { columnSum } from './arrays/columnSum.ts';
import { copyIn, copyOut } from './arrays/copy.ts';
import { countPass } from './arrays/countPass.ts';
import { scaleRows } from './arrays/scaleRows.ts';
import { attentionBackwardKeyValue } from './attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from './attention/attentionBackwardQuery.ts';
import { attentionForward } from './attention/attentionForward.ts';
import { rotary } from './attention/rotary.ts';
import { embedBackwardToken } from './embedding/embedBackwardToken.ts';
import { embedForward } from './embedding/embedForward.ts';
import { embedTokens } from './embedding/embedTokens.ts';
import { matmul } from './family/matmul.ts';
import { sumSlices, sumSlicesBias, sumSlicesInput } from './family/sumSlices.ts';
import type { Kernel } from './kernel/kernel.ts';
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
import { rmsNormAdd, rmsNormForward } from './norm/rmsNormForward.ts';
import { adamw, adamwShadow } from './update/adamw.ts';
import { muonApply, muonApplyShadow, muonBegin, muonPolynomial, muonStart } from './update/muon.ts';
import { sumSquares } from './update/sumSquares.ts';
import { addInt8 } from './wire/addInt8.ts';
import { packF16 } from './wire/packF16.ts';
import { packInt4, packInt4Drawn } from './wire/packInt4.ts';
import { packInt8, packInt8Difference, packInt8Feedback, packInt8Rest } from './wire/packInt8.ts';
import { unpackF16 } from './wire/unpackF16.ts';
import { unpackInt4 } from './wire/unpackInt4.ts';
import { unpackInt8 } from './wire/unpackInt8.ts';

/** The forms of the matrix product that the models are made of: forward, weight gradients, input gradients, tied head. */
const products: readonly Kernel[] = [
  matmul({ layout: 'NN', epilogue: { bias: true } }),
  matmul({ layout: 'NN', epilogue: { bias: true, gelu: true } }),
  matmul({ layout: 'NN', epilogue: { bias: true, residual: true } }),
  matmul({ layout: 'NT' }),
  matmul({ layout: 'NT', epilogue: { bias: true } }),
  matmul({ layout: 'NT', epilogue: { residual: true } }),
  matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: true } }),
  matmul({ layout: 'NT', epilogue: { geluBackward: true } }),
  matmul({ layout: 'NN' }),
  matmul({ layout: 'NN', epilogue: { accumulate: true } }),
  matmul({ layout: 'TN', epilogue: { accumulate: true } }),
  // Of adapters.
  matmul({ layout: 'NT', epilogue: { accumulate: true } }),
  matmul({ layout: 'TN' }),
  // Of a table in pieces.
  matmul({ layout: 'NT', ofWider: true }),
  matmul({ layout: 'NN', ofWider: true }),
  matmul({ layout: 'NN', epilogue: { accumulate: true }, ofWider: true }),
  matmul({ layout: 'TN', epilogue: { accumulate: true }, ofWider: true }),
  // Of answers.
  matmul({ layout: 'NN', epilogue: { bias: true }, fewRows: true }),
  matmul({ layout: 'NN', epilogue: { bias: true, gelu: true }, fewRows: true }),
  matmul({ layout: 'NN', epilogue: { bias: true, residual: true }, fewRows: true }),
  matmul({ layout: 'NT', fewRows: true }),
  matmul({ layout: 'NT', epilogue: { bias: true }, fewRows: true }),
  matmul({ layout: 'NT', epilogue: { residual: true }, fewRows: true }),
  matmul({ layout: 'NT', epilogue: { accumulate: true }, fewRows: true }),
];

export const kernels: readonly Kernel[] = [
  ...products,
  sumSlices,
  sumSlicesBias,
  sumSlicesInput,
  embedForward,
  embedTokens,
  embedBackwardToken,
  layerNormForward,
  layerNormBackward,
  layerNormBackwardWeights,
  rmsNormForward,
  rmsNormAdd,
  rmsNormBackward,
  rmsNormBackwardWeights,
  headNormForward,
  headNormBackward,
  headNormBackwardWeights,
  columnSum,
  rotary,
  attentionForward,
  attentionBackwardQuery,
  attentionBackwardKeyValue,
  keepKeysValues,
  cachedAttention,
  drawTokens,
  swiGluForward,
  swiGluBackward,
  geGluForward,
  geGluBackward,
  geluForward,
  geluBackward,
  spreadPart,
  collectPart,
  crossEntropy,
  crossEntropyLoss,
  preferencePairs,
  scaleRows,
  addInto,
  sumSquares,
  adamw,
  adamwShadow,
  muonBegin,
  muonStart,
  muonPolynomial,
  muonApply,
  muonApplyShadow,
  copyIn,
  copyOut,
  countPass,
  packF16,
  unpackF16,
  packInt8,
  packInt8Feedback,
  packInt8Rest,
  packInt8Difference,
  addInt8,
  unpackInt8,
  packInt4,
  packInt4Drawn,
  unpackInt4,
];
