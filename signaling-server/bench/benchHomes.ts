/**
 * `shoal bench homes`: eight donors in four emulated homes, as two islands of two homes each and as one swarm that takes
 * its steps together: tokens a second, predicted and measured. Two donors in a home share its line.
 */

import { type Command, Option } from 'commander';
import { arrayOf } from '../../swarm/base.ts';
import { WIRE_ENCODINGS, type WireEncoding } from '../../swarm/wire.ts';
import { failed } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { HOME_RUN, HOME_TRAIN, type MeasuredSwarm, measuredSwarm } from './homes/homeSwarm.ts';
import { homesProblem } from './homes/homes.ts';
import { addLineOptions, type LineOptions, lineOf, names } from './homes/lineOptions.ts';

const HOMES = 4;
/** Those of one home stand beside each other in every pipeline. */
const DONORS = arrayOf(2 * HOMES, (donor) => Math.floor(donor / 2));
const KINDS = ['islands', 'swarm'] as const;
const ISLANDS = { islands: 2, swarm: 1 } as const;
/** Slow lines and little work: it is the lines that decide, on two cores too. */
const UPLOAD_BITS_PER_SECOND = 4e6;
const MODEL = {
  ...{ model_type: 'gpt2', n_layer: 8, n_head: 2, n_embd: 32, n_inner: 32, n_positions: 64, vocab_size: 256 },
  tie_word_embeddings: false,
};

interface HomesOptions extends LineOptions {
  readonly codec: readonly WireEncoding[];
  readonly kinds?: readonly (typeof KINDS)[number][];
  readonly steps: number;
  readonly json?: boolean;
}

interface Case extends MeasuredSwarm {
  readonly kind: (typeof KINDS)[number];
}

export function addHomesBench(bench: Command): void {
  addLineOptions(
    bench
      .command('homes')
      .description(
        'eight donors in four emulated homes, two islands beside one swarm: some minutes each (root on Linux)',
      ),
    '4Mbit',
  )
    .addOption(
      new Option('--codec <name>', `how the stream is written: ${WIRE_ENCODINGS.join(', ')}`)
        .argParser(names('--codec', WIRE_ENCODINGS, 1))
        .default(['f32'], 'f32'),
    )
    .option('--kinds <names>', `only these of ${KINDS.join(' and ')}`, names('--kinds', KINDS, KINDS.length))
    .option('--steps <n>', 'timed steps of each island', wholeNumber('--steps', 1), 6)
    .option('--json', 'one JSON document on standard output')
    .action(homes);
}

async function homes(options: HomesOptions): Promise<void> {
  const problem = homesProblem();
  if (problem !== null) throw failed(problem);
  const { json, nat = ['none'], steps, codec, upload = UPLOAD_BITS_PER_SECOND } = options;
  const cases: Case[] = [];
  for (const kind of options.kinds ?? KINDS) {
    const islands = ISLANDS[kind];
    const found = await measuredSwarm('homes', {
      ...{ line: lineOf({ ...options, upload }), hasTurn: false, steps, donors: DONORS, islands, microBatches: 16 },
      nats: arrayOf(HOMES, (home) => nat[home % nat.length] ?? 'none'),
      run: {
        ...{ ...HOME_RUN, name: 'bench-homes', model: MODEL, precision: { wire: codec[0] } },
        train: { ...HOME_TRAIN, globalBatchSize: 128, sequenceLength: 64 },
      },
    });
    cases.push({ kind, ...found });
    if (!json) print({ kind, ...found });
  }
  if (json) console.log(JSON.stringify({ cases }));
}

function print({ kind, tokensPerSecond, predictedTokensPerSecond, stepSeconds, ...one }: Case): void {
  const rates = `predicted ${predictedTokensPerSecond.toFixed(0)} tokens/s, measured ${tokensPerSecond.toFixed(0)}`;
  const steps = `a step predicted ${one.predictedSeconds.toFixed(2)} s, measured ${stepSeconds.toFixed(2)}`;
  console.log(`${kind.padEnd(8)} ${rates}; ${steps}; meetings of ${one.meetingSeconds.toFixed(2)} s`);
}
