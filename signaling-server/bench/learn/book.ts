/** The bundled book as windows of bytes: batches of a run by step number, and held-out ones. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { arrayOf, type Range } from '../../../swarm/base.ts';
import type { Trainer } from '../../../swarm/reference/trainer.ts';
import type { Window } from '../../../swarm/reference/transformer.ts';
import { windowCount, windowOfSample } from '../../../swarm/run/data.ts';
import { failed, need } from '../../commands/failure.ts';
import { WORK_FOLDER } from '../../files/projectRoot.ts';
import { MOBY_DICK } from '../../texts/books.ts';
import { prepareCorpus } from '../../texts/corpus.ts';
import { tensorsIn } from './flatState.ts';
import type { Batch } from './islandTraining.ts';

export interface Book {
  readonly train: Uint8Array;
  readonly heldOut: Uint8Array;
}

export interface BatchSize {
  readonly samples: number;
  readonly positions: number;
}

export async function openBook(): Promise<Book> {
  const paths = need(await prepareCorpus(MOBY_DICK, join(WORK_FOLDER, 'corpus')), failed);
  return { train: await readFile(paths.train), heldOut: await readFile(paths.heldOut) };
}

/** Shuffled by the seed. */
export function batches({ train }: Book, { samples, positions }: BatchSize, seed: number): Batch {
  const windows = windowCount({ tokens: train.length }, positions);
  return (number) =>
    arrayOf(samples, (i) => {
      const window = windowOfSample({ type: 'shuffled', seed }, number * samples + i, windows);
      return train.subarray(window * positions, (window + 1) * positions + 1);
    });
}

/** Mean loss of the held-out text, in nats a byte: of all whole batches of it. */
export function heldOutLoss(trainer: Trainer, values: Float32Array, { heldOut }: Book, size: BatchSize): number {
  const { samples, positions } = size;
  const count = Math.floor(windowCount({ tokens: heldOut.length }, positions) / samples);
  const tensors = tensorsIn(trainer.model, values);
  let sum = 0;
  for (let batch = 0; batch < count; batch++) {
    const window = (i: number): Range => [i * positions, (i + 1) * positions + 1];
    const windows: Window[] = arrayOf(samples, (i) => heldOut.subarray(...window(batch * samples + i)));
    sum += trainer.loss(tensors, windows);
  }
  return sum / count;
}
