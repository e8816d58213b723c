/** The runs that `bench learn` trains: a byte-level GPT-2 of the bundled book. */

import { invariant } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { type Train, trainSchema } from '../../../swarm/run/runFile.ts';
import { benchOptimizer } from '../page/optimizer.ts';
import type { BatchSize } from './book.ts';

interface Sizes {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly positions: number;
}

export function bookModel({ layers, width, heads, positions }: Sizes): Model {
  const sizes = { n_layer: layers, n_embd: width, n_head: heads, n_positions: positions, vocab_size: 256 };
  const model = modelFromConfig({ model_type: 'gpt2', ...sizes });
  invariant(model.ok, 'a model of the benchmark');
  return model.value;
}

/** The rate falls to a tenth over all steps of the run, whoever does them. */
export function trainOf({
  samples,
  positions,
  ...own
}: BatchSize & { readonly steps: number; readonly learningRate: number }): Train {
  return trainSchema.parse({
    ...{ steps: own.steps, globalBatchSize: samples, sequenceLength: positions, gradientClipNorm: 1 },
    optimizer: benchOptimizer(own.learningRate),
    schedule: { type: 'cosine', warmupSteps: 20 },
  });
}
