/**
 * `shoal bench wan`: two islands of two stages each, every donor in an emulated home network of its own, by each codec of
 * the stream: the step that is predicted beside the one that is measured, and what it sends. Real tabs, the real server;
 * only the lines are emulated.
 */

import type { Command } from 'commander';
import { WIRE_ENCODINGS, type WireEncoding } from '../../swarm/wire.ts';
import { failed } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { HOME_RUN, HOME_TRAIN, type MeasuredSwarm, measuredSwarm } from './homes/homeSwarm.ts';
import { homesProblem } from './homes/homes.ts';
import { addLineOptions, type LineOptions, lineOf, names } from './homes/lineOptions.ts';
import { turnProblem } from './homes/turn.ts';

/** Of each island, every one in a home of its own. */
const STAGES = 2;
const MICRO_BATCHES = 8;

/**
 * No weight is shared between the stages. A narrow model sends much for what it computes, so that two cores do for several
 * homes.
 */
const MODEL = {
  ...{ model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 32, n_inner: 32, n_positions: 64, vocab_size: 256 },
  tie_word_embeddings: false,
};

interface WanOptions extends LineOptions {
  readonly codecs?: readonly WireEncoding[];
  readonly islands: number;
  readonly steps: number;
  readonly turn?: boolean;
  readonly json?: boolean;
}

interface Case extends MeasuredSwarm {
  readonly codec: WireEncoding;
}

export function addWanBench(bench: Command): void {
  addLineOptions(
    bench
      .command('wan')
      .description(
        'two islands of two stages in four emulated home networks, by each codec: predicted beside measured (root on Linux)',
      ),
  )
    .option(
      '--codecs <names>',
      'only these, separated by commas',
      names('--codecs', WIRE_ENCODINGS, WIRE_ENCODINGS.length),
    )
    .option('--steps <n>', 'timed steps of each codec', wholeNumber('--steps', 1), 12)
    .option('--islands <n>', 'each of two stages, in two homes', wholeNumber('--islands', 1), 2)
    .option('--turn', 'by a STUN and TURN server (coturn) in a home of its own')
    .option('--json', 'one JSON document on standard output')
    .action(wan);
}

async function wan(options: WanOptions): Promise<void> {
  const problem = homesProblem() ?? (options.turn ? turnProblem() : null);
  if (problem !== null) throw failed(problem);
  const { json, nat = ['none'], turn = false, steps, islands } = options;
  const donors = Array.from({ length: STAGES * islands }, (_, home) => home);
  const cases: Case[] = [];
  for (const codec of options.codecs ?? WIRE_ENCODINGS) {
    const found = await measuredSwarm('wan', {
      ...{ line: lineOf(options), hasTurn: turn, steps, donors, islands, microBatches: MICRO_BATCHES },
      nats: donors.map((home) => nat[home % nat.length] ?? 'none'),
      run: {
        ...{ ...HOME_RUN, name: 'bench-wan', model: MODEL, precision: { wire: codec } },
        train: { ...HOME_TRAIN, globalBatchSize: 128, sequenceLength: 64 },
      },
    });
    cases.push({ codec, ...found });
    if (!json) print({ codec, ...found });
  }
  if (json) console.log(JSON.stringify({ cases }));
}

function print({ codec, bytesPerStep, bytesRelayed, tokensPerSecond, ...one }: Case): void {
  const { stepSeconds, predictedSeconds: predicted, meetingSeconds } = one;
  const way = bytesRelayed > 0 ? ` (${bytesRelayed} through the server)` : '';
  const seconds = `predicted ${predicted.toFixed(3)} s, measured ${stepSeconds.toFixed(3)} s, ratio ${(predicted / stepSeconds).toFixed(2)}`;
  console.log(
    `${codec.padEnd(5)} ${seconds}, ${bytesPerStep} bytes a step${way}, meetings of ${meetingSeconds.toFixed(2)} s, ${tokensPerSecond.toFixed(0)} tokens/s`,
  );
}
