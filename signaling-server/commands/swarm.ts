/** `shoal swarm`: a server and N headless donors train a run to its end. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { RunFile } from '../../swarm/runFile.ts';
import { SCHEDULE_NAMES } from '../../swarm/schedule/action.ts';
import { addRun, type DataDirectory, openDataDirectory } from '../dataDirectory.ts';
import { exportTarget } from '../exportFolder.ts';
import { exportRun } from '../exportRun.ts';
import { onInterrupt } from '../interrupt.ts';
import { terminalLog } from '../log.ts';
import { fileProgress } from '../progress.ts';
import { PAGES_FOLDER } from '../projectRoot.ts';
import type { ActiveRun } from '../run.ts';
import { parseDocument } from '../runDocument.ts';
import { trainHeadless } from '../trainHeadless.ts';
import { badInput, failed, need } from './failure.ts';
import { browser, laterOption, schedule, wholeNumber } from './options.ts';
import { checkPlanOptions, choosePlan, type PlanOptions } from './planChoice.ts';

const PROGRESS_INTERVAL_MS = 1_000;

interface SwarmOptions extends PlanOptions {
  readonly steps?: number;
  readonly metrics?: string;
  readonly export?: string;
  readonly dataDir?: string;
  readonly seed?: number;
  readonly report?: string;
}

export function addSwarmCommand(program: Command): void {
  program
    .command('swarm')
    .description('train a run with N headless donors on this machine, each in a browser of its own')
    .argument('<run.json>', 'the run file')
    .option('--donors <n>', 'headless donors; every one computes', wholeNumber('--donors', 1))
    .option('--steps <k>', 'until K steps stand committed in all', wholeNumber('--steps', 1))
    .option(
      '--micro-batches <m>',
      'micro-batches a step (default: min(B, 4 x stages))',
      wholeNumber('--micro-batches', 1),
    )
    .option('--metrics <file>', 'one JSON line a committed step; the file is replaced')
    .option('--export <dir>', 'write the trained weights as a Hugging Face folder')
    .option('--data-dir <dir>', 'keep the run here and go on with it (default: a temporary folder)')
    .option('--stages <p>', 'pipeline stages, over which the donors are shared out', wholeNumber('--stages', 1))
    .option('--schedule <name>', `order of the work, one of ${SCHEDULE_NAMES.join(', ')} (default: gpipe)`, schedule)
    .option('--plan <file>', 'a plan in place of the equal split; its peers are the donors in the order opened')
    .option('--seed <s>', 'in place of init.seed and data.seed', wholeNumber('--seed', 0))
    .option('--report <file>', 'roll-backs and memory, as JSON')
    .option('--browser <name>', 'which browser the donors run in', browser, 'chromium')
    .addOption(laterOption('--donor <spec>', 'a donor with limits of its own'))
    .addOption(laterOption('--chaos <script>', 'faults to happen during the run'))
    .action(swarm);
}

async function swarm(path: string, options: SwarmOptions): Promise<void> {
  checkPlanOptions(options);
  if (options.export !== undefined) need(await exportTarget(options.export), badInput);
  const directory = options.dataDir ?? mkdtempSync(join(tmpdir(), 'shoal-swarm-'));
  const data = need(await openDataDirectory(directory), failed);
  try {
    await trainIn(data, path, options);
  } finally {
    data.close();
    if (options.dataDir === undefined) rmSync(directory, { recursive: true, force: true });
  }
}

async function trainIn(data: DataDirectory, path: string, options: SwarmOptions): Promise<void> {
  const progress = fileProgress((line) => terminalLog()('info', line));
  const seed = options.seed === undefined ? {} : { seed: options.seed };
  const runName = need(await addRun(data, path, { progress, ...seed }), badInput);
  const { file } = parseDocument(data.store.run(runName)?.document ?? '');
  checkSteps(file, path, options);
  const { donors, wishes } = await choosePlan(options, file, path);
  const log = terminalLog();
  const interrupt = onInterrupt();
  const trained = need(
    await trainHeadless({
      data,
      runName,
      donors,
      ...wishes,
      pages: PAGES_FOLDER,
      log,
      interrupt: interrupt.signal,
      ...(options.steps === undefined ? {} : { steps: options.steps }),
      ...(options.metrics === undefined ? {} : { metricsPath: options.metrics }),
      onServing: (server) => log('info', `training ${runName} at ${server.url} with ${donors} headless donors`),
      onChange: progressLines((line) => log('info', line)),
    }),
    failed,
  );
  interrupt.release();
  if (options.report !== undefined) writeFileSync(options.report, `${JSON.stringify(report(trained.run))}\n`);
  if (trained.outcome === 'interrupted') {
    log('info', `stopped after ${trained.run.committedSteps} steps`);
    process.exitCode = 130;
    return;
  }
  if (options.export !== undefined) {
    log('info', `exported to ${need(await exportRun(data, runName, options.export), failed)}`);
  }
}

function checkSteps({ train }: RunFile, path: string, { steps }: SwarmOptions): void {
  if ((steps ?? 1) > train.steps) throw badInput(`--steps must be at most train.steps (${train.steps}) of ${path}`);
}

/** A line about the run, at most once in a while and at each end. */
function progressLines(print: (line: string) => void): (run: ActiveRun) => void {
  let lastMs = 0;
  let lastStep = -1;
  return (run) => {
    const { committedSteps, steps, loss, tokensPerSecond, evaluationLoss } = run.snapshot();
    const nowMs = Date.now();
    const isEnd = committedSteps === steps;
    if (committedSteps === lastStep || committedSteps === 0) return;
    if (!isEnd && nowMs - lastMs < PROGRESS_INTERVAL_MS) return;
    lastMs = nowMs;
    lastStep = committedSteps;
    const heldOut = evaluationLoss === null ? '' : `, held-out ${evaluationLoss.toFixed(4)}`;
    const speed = tokensPerSecond === null ? '' : `, ${Math.round(tokensPerSecond)} tokens/s`;
    print(`step ${committedSteps} of ${steps}, loss ${loss?.toFixed(4) ?? 'unknown'}${heldOut}${speed}`);
  };
}

/** The contract's `--report`. Donors are numbered in the order in which they joined. */
function report(run: ActiveRun) {
  const order = run.joined;
  return {
    chaos: [],
    rollbacks: run.rollBacks,
    memory: order.flatMap((peer, donor) => {
      const memory = run.memory.get(peer);
      return memory === undefined ? [] : [{ donor, ...memory }];
    }),
  };
}
