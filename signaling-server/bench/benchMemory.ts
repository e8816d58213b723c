/**
 * `shoal bench memory`: the largest model that one donor trains within its memory, with every layer's activations kept, with
 * all of them computed again, and so with the optimizer's state in main memory; and that four train who gather its layers. Nothing is measured: it is the prediction that plans are made by, which is what stages
 * and shards allocate.
 */
import type { Command } from 'commander';
import { peerId } from '../../swarm/base.ts';
import { hostBytes, predictedBytes } from '../../swarm/memory/memory.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { BlockState, Plan } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { firstLayers, recomputing } from '../../swarm/schedule/recompute.ts';
import { badInput } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { benchConfig } from './page/step.ts';

const DONORS = ['a', 'b', 'c', 'd'].map(peerId);
const GIGABYTES = [1, 4] as const;
/** Width of a head, as the published models of both families have it. */
const HEAD_WIDTH = 64;
const VOCABULARY: Readonly<Record<Model['family'], number>> = { gpt2: 50_257, llama: 32_000 };

/** What saves memory, each with all that stands before it but for the last two, which exclude each other. */
const WAYS = ['kept', 'recomputed', 'mainMemory', 'gatheredAmongFour'] as const;
type Way = (typeof WAYS)[number];

interface Largest {
  readonly family: Model['family'];
  readonly memoryBytes: number;
  readonly way: Way;
  readonly layers: number;
  readonly width: number;
  readonly parameters: number;
  readonly bytes: number;
  /** Of main memory, of each donor. */
  readonly hostBytes: number;
}

interface Shape {
  readonly family: Model['family'];
  readonly layers: number;
  readonly width: number;
}

export function addMemoryBench(bench: Command): void {
  bench
    .command('memory')
    .description('the largest model that trains in 1 GB and in 4 GB, and what saves memory: predicted, not run')
    .option('--sequence <n>', 'positions of the one sample of a micro-batch', wholeNumber('--sequence', 1), 1024)
    .option('--json', 'one JSON document on standard output')
    .action(({ sequence, json }: { readonly sequence: number; readonly json?: boolean }) => {
      const rows = (['gpt2', 'llama'] as const).flatMap((family) =>
        GIGABYTES.flatMap((gigabytes) => WAYS.map((way) => largest(family, gigabytes * 1e9, way, sequence))),
      );
      if (json) console.log(JSON.stringify({ sequence, largest: rows }));
      else for (const row of rows) console.log(line(row));
    });
}

/** The most parameters of widths of whole heads, with half to twice as many layers as heads (GPT-2 small: 12 and 12). */
function largest(family: Model['family'], memoryBytes: number, way: Way, sequence: number): Largest {
  let best: Largest | null = null;
  for (let heads = 1; ; heads++) {
    const width = heads * HEAD_WIDTH;
    const least = Math.max(1, Math.ceil(heads / 2));
    const tried = (layers: number) => sizeOf({ family, layers, width }, way, sequence);
    if (tried(least).bytes > memoryBytes) break;
    let [fits, fails] = [least, 2 * heads + 1];
    while (fails - fits > 1) {
      const middle = Math.floor((fits + fails) / 2);
      if (tried(middle).bytes <= memoryBytes) fits = middle;
      else fails = middle;
    }
    const size = tried(fits);
    if (!best || size.parameters > best.parameters) {
      best = { family, memoryBytes, way, layers: fits, width, ...size };
    }
  }
  if (!best)
    throw badInput(
      `--sequence ${sequence} is too long: no model of ${family} trains with it in ${memoryBytes / 1e9} GB`,
    );
  return best;
}

/** One stage of the whole model: values, gradients, moments, one micro-batch of one sample in flight. */
function sizeOf({ family, layers, width }: Shape, way: Way, sequence: number) {
  const heads = width / HEAD_WIDTH;
  const vocabulary = VOCABULARY[family];
  const read = modelFromConfig(benchConfig({ family, layers, width, heads, sequence, vocabulary }));
  if (!read.ok) return { parameters: 0, bytes: Number.POSITIVE_INFINITY, hostBytes: 0 }; // past what a model may have
  const model = read.value;
  const donors = DONORS.slice(0, way === 'gatheredAmongFour' ? DONORS.length : 1);
  const split = equalSplit(model, donors.length, donors, { stages: 1, schedule: '1f1b' });
  const plan = saving(recomputing(split, way === 'kept' ? [] : firstLayers([0, layers])), way);
  return {
    parameters: model.blocks.reduce((sum, { elements }) => sum + elements, 0),
    bytes: Math.max(...donors.map((donor) => predictedBytes(model, plan, donor, sequence))),
    hostBytes: Math.max(...donors.map((donor) => hostBytes(plan, donor, undefined))),
  };
}

function saving(plan: Plan, way: Way): Plan {
  switch (way) {
    case 'mainMemory':
      return { ...plan, state: plan.state.map(inHost) };
    case 'gatheredAmongFour':
      return { ...plan, stages: plan.stages.map((stage) => ({ ...stage, gathered: 1 })) };
    default:
      return plan;
  }
}

const inHost = ({ block, shards }: BlockState): BlockState => ({
  block,
  shards: shards.map((shard) => ({ ...shard, in: 'host' })),
});

const WORDS: Readonly<Record<Way, string>> = {
  kept: 'no recompute',
  recomputed: 'all layers recomputed',
  mainMemory: 'so, state in main memory',
  gatheredAmongFour: 'so, gathered by four',
};

function line({ family, memoryBytes, way, layers, width, parameters, bytes, hostBytes: inMain }: Largest): string {
  const host = inMain > 0 ? ` and ${(inMain / 1e9).toFixed(2)} GB of main memory` : '';
  const size = `${layers} layers of width ${width}, ${(parameters / 1e6).toFixed(1)} M parameters`;
  return `${family.padEnd(6)} ${memoryBytes / 1e9} GB  ${WORDS[way].padEnd(24)}  ${size}, ${(bytes / 1e9).toFixed(2)} GB${host}`;
}
