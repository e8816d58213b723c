/**
 * `shoal bench memory`: the largest model that one donor trains within its memory, with every layer's activations kept and
 * with all of them computed again. Nothing is measured: it is the prediction that plans are made by, which is what stages
 * and shards allocate.
 */
import type { Command } from 'commander';
import { peerId } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { firstLayers, recomputing } from '../../swarm/schedule/recompute.ts';
import { badInput } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { benchConfig } from './page/step.ts';

const GIGABYTES = [1, 4] as const;
/** Width of a head, as the published models of both families have it. */
const HEAD_WIDTH = 64;
const VOCABULARY: Readonly<Record<Model['family'], number>> = { gpt2: 50_257, llama: 32_000 };

interface Largest {
  readonly family: Model['family'];
  readonly memoryBytes: number;
  readonly recompute: boolean;
  readonly layers: number;
  readonly width: number;
  readonly parameters: number;
  readonly bytes: number;
}

interface Shape {
  readonly family: Model['family'];
  readonly layers: number;
  readonly width: number;
}

export function addMemoryBench(bench: Command): void {
  bench
    .command('memory')
    .description('the largest model that trains in 1 GB and in 4 GB, with and without recompute: predicted, not run')
    .option('--sequence <n>', 'positions of the one sample of a micro-batch', wholeNumber('--sequence', 1), 1024)
    .option('--json', 'one JSON document on standard output')
    .action(({ sequence, json }: { readonly sequence: number; readonly json?: boolean }) => {
      const rows = (['gpt2', 'llama'] as const).flatMap((family) =>
        GIGABYTES.flatMap((gigabytes) =>
          [false, true].map((recompute) => largest(family, gigabytes * 1e9, recompute, sequence)),
        ),
      );
      if (json) console.log(JSON.stringify({ sequence, largest: rows }));
      else for (const row of rows) console.log(line(row));
    });
}

/** The most parameters of widths of whole heads, with half to twice as many layers as heads (GPT-2 small: 12 and 12). */
function largest(family: Model['family'], memoryBytes: number, recompute: boolean, sequence: number): Largest {
  let best: Largest | null = null;
  for (let heads = 1; ; heads++) {
    const width = heads * HEAD_WIDTH;
    const least = Math.max(1, Math.ceil(heads / 2));
    const tried = (layers: number) => sizeOf({ family, layers, width }, recompute, sequence);
    if (tried(least).bytes > memoryBytes) break;
    let [fits, fails] = [least, 2 * heads + 1];
    while (fails - fits > 1) {
      const middle = Math.floor((fits + fails) / 2);
      if (tried(middle).bytes <= memoryBytes) fits = middle;
      else fails = middle;
    }
    const size = tried(fits);
    if (!best || size.parameters > best.parameters) {
      best = { family, memoryBytes, recompute, layers: fits, width, ...size };
    }
  }
  if (!best)
    throw badInput(
      `--sequence ${sequence} is too long: no model of ${family} trains with it in ${memoryBytes / 1e9} GB`,
    );
  return best;
}

/** Alone with the whole model: values, gradients, moments, one micro-batch of one sample. */
function sizeOf({ family, layers, width }: Shape, recompute: boolean, sequence: number) {
  const heads = width / HEAD_WIDTH;
  const vocabulary = VOCABULARY[family];
  const read = modelFromConfig(benchConfig({ family, layers, width, heads, sequence, vocabulary }));
  if (!read.ok) return { parameters: 0, bytes: Number.POSITIVE_INFINITY }; // past what a model may have
  const model = read.value;
  const alone = peerId('alone');
  const plan = recomputing(equalSplit(model, 1, [alone]), recompute ? firstLayers([0, layers]) : []);
  return {
    parameters: model.blocks.reduce((sum, { elements }) => sum + elements, 0),
    bytes: predictedBytes(model, plan, alone, sequence),
  };
}

function line({ family, memoryBytes, recompute, layers, width, parameters, bytes }: Largest): string {
  const kept = recompute ? 'all layers recomputed' : 'no recompute';
  const size = `${layers} layers of width ${width}, ${(parameters / 1e6).toFixed(1)} M parameters`;
  return `${family.padEnd(6)} ${memoryBytes / 1e9} GB  ${kept.padEnd(21)}  ${size}, ${(bytes / 1e9).toFixed(2)} GB`;
}
