/**
 * `shoal bench wan`: two islands of two stages each, every donor in an emulated home network of its own, by each codec of
 * the stream: the step that is predicted beside the one that is measured, and what it sends. Real tabs, the real server;
 * only the lines are emulated. Or two lanes in two homes, by how gradient sums and values travel.
 */

import type { Command } from 'commander';
import { arrayOf } from '../../swarm/base.ts';
import { STATE_WIRES, type StateWire, WIRE_ENCODINGS, type WireEncoding } from '../../swarm/wire.ts';
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

/** Two lanes send each other half of its gradients and values: a wider model, and few samples. */
const WIDE = { ...MODEL, n_embd: 128, n_inner: 128, n_positions: 16 };
const LANES = { stages: 1, islands: 1, microBatches: 2, donors: [0, 1] };

interface WanOptions extends LineOptions {
  readonly codecs?: readonly WireEncoding[];
  readonly states?: readonly StateWire[];
  readonly islands: number;
  readonly steps: number;
  readonly turn?: boolean;
  readonly json?: boolean;
}

type Case = MeasuredSwarm & ({ readonly codec: WireEncoding } | { readonly state: StateWire });

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
      `only these of ${WIRE_ENCODINGS.join(', ')}, separated by commas`,
      names('--codecs', WIRE_ENCODINGS, WIRE_ENCODINGS.length),
    )
    .option('--steps <n>', 'timed steps of each codec', wholeNumber('--steps', 1), 12)
    .option('--islands <n>', 'each of two stages, in two homes', wholeNumber('--islands', 1), 2)
    .option(
      '--states <names>',
      `in place of that: two lanes in two homes, by how gradient sums and values travel: ${STATE_WIRES.join(', ')}`,
      names('--states', STATE_WIRES, STATE_WIRES.length),
    )
    .option('--turn', 'by a STUN and TURN server (coturn) in a home of its own')
    .option('--json', 'one JSON document on standard output')
    .action(wan);
}

async function wan(options: WanOptions): Promise<void> {
  const problem = homesProblem() ?? (options.turn ? turnProblem() : null);
  if (problem !== null) throw failed(problem);
  const { json, nat = ['none'], turn = false, steps, islands } = options;
  const base = (homes: number) => ({
    ...{ line: lineOf(options), hasTurn: turn, steps },
    nats: arrayOf(homes, (home) => nat[home % nat.length] ?? 'none'),
  });
  const cases: Case[] = [];
  const found = (one: Case): void => {
    cases.push(one);
    if (!json) print(one);
  };
  const donors = arrayOf(STAGES * islands, (home) => home);
  for (const codec of options.states ? [] : (options.codecs ?? WIRE_ENCODINGS)) {
    const run = {
      ...{ ...HOME_RUN, name: 'bench-wan', model: MODEL, precision: { wire: codec } },
      train: { ...HOME_TRAIN, globalBatchSize: 128, sequenceLength: 64 },
    };
    const swarm = { ...base(donors.length), donors, islands, microBatches: MICRO_BATCHES, run };
    found({ codec, ...(await measuredSwarm('wan', swarm)) });
  }
  for (const state of options.states ?? []) {
    const run = {
      ...{ ...HOME_RUN, name: 'bench-wan', model: WIDE, precision: { state } },
      train: { ...HOME_TRAIN, globalBatchSize: 8, sequenceLength: 16 },
    };
    found({ state, ...(await measuredSwarm('wan', { ...base(LANES.donors.length), ...LANES, run })) });
  }
  if (json) console.log(JSON.stringify({ cases }));
}

function print({ bytesPerStep, bytesRelayed, tokensPerSecond, ...one }: Case): void {
  const name = 'codec' in one ? one.codec : `state ${one.state}`;
  const { stepSeconds, predictedSeconds: predicted, meetingSeconds } = one;
  const way = bytesRelayed > 0 ? ` (${bytesRelayed} through the server)` : '';
  const seconds = `predicted ${predicted.toFixed(3)} s, measured ${stepSeconds.toFixed(3)} s, ratio ${(predicted / stepSeconds).toFixed(2)}`;
  console.log(
    `${name.padEnd(5)} ${seconds}, ${bytesPerStep} bytes a step${way}, meetings of ${meetingSeconds.toFixed(2)} s, ${tokensPerSecond.toFixed(0)} tokens/s`,
  );
}
