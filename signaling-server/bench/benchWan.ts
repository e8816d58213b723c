/**
 * `shoal bench wan`: two stages in two emulated home networks, by each codec of the stream: the step that is predicted
 * beside the one that is measured, and what it sends. Real tabs, the real server; only the lines are emulated.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { predictedSeconds } from '../../swarm/autoplan/predicting.ts';
import { median } from '../../swarm/base.ts';
import { NO_LIMITS } from '../../swarm/limits.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { WIRE_ENCODINGS, type WireEncoding } from '../../swarm/wire.ts';
import { failed, need } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { PAGES_FOLDER } from '../files/projectRoot.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonor } from '../headless/headless.ts';
import { terminalLog } from '../monitoring/log.ts';
import { createServer, type Server } from '../server.ts';
import { addRun, type DataDirectory, openDataDirectory } from '../store/dataDirectory.ts';
import { type BenchFolder, inBenchFolder } from './benchFolder.ts';
import { homesProblem, openHomes, STUN_SERVER, turnServerOf } from './homes/homes.ts';
import type { Line } from './homes/line.ts';
import { addLineOptions, type LineOptions, lineOf, names } from './homes/lineOptions.ts';
import { turnProblem } from './homes/turn.ts';
import { benchOptimizer } from './page/optimizer.ts';

const HOMES = 2;
/** Pipelines are warm, links have found their rate, and the donors know what their work takes. */
const WARM_UP_STEPS = 6;
const MICRO_BATCHES = 8;

/**
 * No weight is shared between the stages, and no part of the state is anywhere but where it is used: only the stream goes
 * over the line. A narrow model sends much for what it computes, so that two cores do for several homes.
 */
const RUN = {
  name: 'bench-wan',
  model: {
    ...{ model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 32, n_inner: 32, n_positions: 64, vocab_size: 256 },
    tie_word_embeddings: false,
  },
  data: { files: ['text.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: {
    ...{ steps: 10_000, globalBatchSize: 128, sequenceLength: 64 },
    optimizer: benchOptimizer(),
  },
  state: { replicas: 0 },
  checkpoint: { everySteps: 1_000 },
};
const { globalBatchSize: SAMPLES, sequenceLength: SEQUENCE } = RUN.train;

interface WanOptions extends LineOptions {
  readonly codecs?: readonly WireEncoding[];
  readonly steps: number;
  readonly turn?: boolean;
  readonly json?: boolean;
}

interface Case {
  readonly codec: WireEncoding;
  readonly stepSeconds: number;
  /** Of activations and their gradients. */
  readonly bytesPerStep: number;
  /** Of these what went through the server, because no way of their own opened. */
  readonly bytesRelayed: number;
  readonly tokensPerSecond: number;
  readonly predictedSeconds: number;
}

export function addWanBench(bench: Command): void {
  addLineOptions(
    bench
      .command('wan')
      .description(
        'two stages in two emulated home networks, by each codec: predicted beside measured (root on Linux)',
      ),
  )
    .option(
      '--codecs <names>',
      'only these, separated by commas',
      names('--codecs', WIRE_ENCODINGS, WIRE_ENCODINGS.length),
    )
    .option('--steps <n>', 'timed steps of each codec', wholeNumber('--steps', 1), 12)
    .option('--turn', 'by a STUN and TURN server (coturn) in a home of its own')
    .option('--json', 'one JSON document on standard output')
    .action(wan);
}

async function wan(options: WanOptions): Promise<void> {
  const problem = homesProblem() ?? (options.turn ? turnProblem() : null);
  if (problem !== null) throw failed(problem);
  const { json } = options;
  const line = lineOf(options);
  const cases: Case[] = [];
  for (const codec of options.codecs ?? WIRE_ENCODINGS) {
    cases.push(await inBenchFolder('wan', (folder) => measured(codec, line, options, folder)));
    if (!json) print(cases.at(-1));
  }
  if (json) console.log(JSON.stringify({ cases }));
}

async function measured(
  codec: WireEncoding,
  line: Line,
  { nat = ['none'], steps, turn = false }: WanOptions,
  { path: folder, unlessStopped }: BenchFolder,
): Promise<Case> {
  const data = need(await openDataDirectory(join(folder, 'data'), false), failed);
  const donors: HeadlessDonor[] = [];
  const log = terminalLog('warn');
  writeFileSync(
    join(folder, 'text.txt'),
    'Call me Ishmael. Some years ago, never mind how long precisely. '.repeat(400),
  );
  writeFileSync(join(folder, 'run.json'), JSON.stringify({ ...RUN, precision: { wire: codec } }));
  try {
    const runName = need(await addRun(data, join(folder, 'run.json')), failed);
    const server = need(
      await createServer({
        ...{ data, runName, host: '127.0.0.1', port: 0, pages: PAGES_FOLDER, log },
        ...{
          expectedDonors: HOMES,
          microBatches: MICRO_BATCHES,
          iceServers: [turn ? turnServerOf(HOMES) : STUN_SERVER],
        },
      }),
      failed,
    );
    const homes = need(
      await openHomes([nat[0] ?? 'none', nat[1] ?? nat[0] ?? 'none'], line, Number(new URL(server.url).port), turn),
      failed,
    );
    try {
      const { pathname, search, hash } = new URL(server.ownDonorUrl);
      const url = homes.origin + pathname + search + hash;
      for (let home = 0; home < HOMES; home++)
        donors.push(
          need(await unlessStopped(openHeadlessDonor(url, home, log, NO_LIMITS, homes.browserIn(home))), failed),
        );
      return await unlessStopped(timed(codec, server, data, steps));
    } finally {
      await server.close();
      await closeAll(donors);
      await homes.close();
    }
  } finally {
    data.close();
  }
}

/** What is known when the links have carried some steps predicts the next ones, each from what is known before it. */
async function timed(codec: WireEncoding, { run }: Server, { store }: DataDirectory, steps: number): Promise<Case> {
  await run.until(({ committedSteps, phase }) => committedSteps >= WARM_UP_STEPS || phase === 'diverged');
  const peers = run.donors().map(({ peer }) => peer);
  const plan = equalSplit(need(modelFromConfig(RUN.model), failed), SAMPLES, peers, { microBatches: MICRO_BATCHES });
  const predicted: number[] = [];
  for (let step = WARM_UP_STEPS; step < WARM_UP_STEPS + steps; step++) {
    predicted.push(predictedSeconds(run.replanner, plan) ?? Number.NaN);
    await run.until(({ committedSteps, phase }) => committedSteps > step || phase === 'diverged');
  }
  if (run.phase === 'diverged') throw failed(run.snapshot().sentence);
  const done = store.steps(run.name, WARM_UP_STEPS).slice(0, steps);
  const stepSeconds = median(done.map(({ seconds }) => seconds)) ?? Number.NaN;
  return {
    ...{ codec, stepSeconds, predictedSeconds: median(predicted) ?? Number.NaN },
    bytesPerStep: median(done.map(({ bytesDirect, bytesRelayed }) => bytesDirect + bytesRelayed)) ?? Number.NaN,
    bytesRelayed: median(done.map(({ bytesRelayed }) => bytesRelayed)) ?? Number.NaN,
    tokensPerSecond: (SAMPLES * SEQUENCE) / stepSeconds,
  };
}

function print(one: Case | undefined): void {
  if (!one) return;
  const { codec, stepSeconds, bytesPerStep, bytesRelayed, tokensPerSecond, predictedSeconds: predicted } = one;
  const way = bytesRelayed > 0 ? ` (${bytesRelayed} through the server)` : '';
  const seconds = `predicted ${predicted.toFixed(3)} s, measured ${stepSeconds.toFixed(3)} s, ratio ${(predicted / stepSeconds).toFixed(2)}`;
  console.log(
    `${codec.padEnd(5)} ${seconds}, ${bytesPerStep} bytes a step${way}, ${tokensPerSecond.toFixed(0)} tokens/s`,
  );
}
