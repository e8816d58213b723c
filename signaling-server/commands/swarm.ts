/** `shoal swarm`: a server and N headless donors train a run to its end. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { given, invariant, type Result, success } from '../../swarm/base.ts';
import { turnAt } from '../../swarm/islands/rounds.ts';
import type { BrowserName } from '../../swarm/limits.ts';
import { counted, speedText } from '../../swarm/quantityText.ts';
import { keepsEnds, modelOf, type RunFile, wholeModelOf } from '../../swarm/run/runFile.ts';
import { ModelRequests, readModelRequests } from '../answers/modelRequests.ts';
import { type ChaosEntry, parseChaosScript } from '../faults/chaosScript.ts';
import { filePlaceFault } from '../files/outputPlace.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { impossibleFault } from '../headless/donorTab.ts';
import { type Interrupt, onInterrupt } from '../headless/interrupt.ts';
import { fileProgress } from '../headless/progress.ts';
import { openServerProcess, openSiteProcesses } from '../headless/serverProcesses.ts';
import { type Trained, trainHeadless } from '../headless/trainHeadless.ts';
import {
  openTrainingServer,
  type RunStatus,
  type TrainingOptions,
  type TrainingServer,
} from '../headless/trainingServer.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { terminalLog } from '../monitoring/log.ts';
import { addRun, type DataDirectory, whereKept } from '../store/dataDirectory.ts';
import { copyData } from '../store/storeCopy.ts';
import { exportRoomFault, exportTarget } from '../weights/exportFolder.ts';
import { trainedRun } from '../weights/initialWeights.ts';
import { badInput, failed, need } from './failure.ts';
import { openData } from './openData.ts';
import {
  BROWSER_OPTION,
  browser,
  checkBrowsers,
  checkRecord,
  donorSpec,
  planOptions,
  positive,
  RECORD_OPTION,
  SCHEDULE_WISHES,
  schedule,
  shareOption,
  tryIt,
  wholeNumber,
} from './options.ts';
import { checkPlanOptions, choosePlan, type PlanOptions, strangersAmong } from './planChoice.ts';
import { conclude, type Wanted } from './swarmResult.ts';

const PROGRESS_INTERVAL_MS = 1_000;

interface SwarmOptions extends PlanOptions, Wanted {
  readonly steps?: number;
  readonly dataDir?: string;
  readonly seed?: number;
  readonly audit?: number;
  readonly chaos?: string;
  readonly browser: BrowserName;
  readonly servers?: number;
  readonly requests?: string;
}

/** What the examples of export, sample and replay go on with. */
const EXAMPLE =
  'swarm docs/examples/run.json --donors 2 --steps 20 --data-dir .shoal/example --record .shoal/example.jsonl';

export function addSwarmCommand(program: Command): void {
  const begun = program
    .command('swarm')
    .description('train a run with N headless donors on this machine, each in a browser of its own')
    .argument('<run.json>', 'the run file')
    .option('--donors <n>', 'how many headless donors; each gets a part', wholeNumber('--donors', 1))
    .option('--steps <k>', 'stop after K steps in all', wholeNumber('--steps', 1))
    .option(
      '--micro-batches <m>',
      'micro-batches a step (default: min(B, 4 x stages))',
      wholeNumber('--micro-batches', 1),
    )
    .option('--metrics <file>', 'write one JSON line for each step; an existing file is replaced')
    .option('--export <dir>', 'write the trained weights as a Hugging Face folder')
    .option('--export-merged <dir>', 'of a run with an adapter: write the whole model, the adapter added to its base')
    .option('--data-dir <dir>', 'keep the run here, and continue it if it is there (default: a temporary folder)')
    .option('--stages <p>', 'split the model into this many pipeline stages', wholeNumber('--stages', 1))
    .option(
      '--schedule <name>',
      `how a step’s work is ordered: ${SCHEDULE_WISHES.join(', ')} (default: gpipe)`,
      schedule,
    );
  planOptions(begun)
    .option('--plan <file>', 'use this plan; its peers are the donors in the order in which they are opened')
    .option('--seed <s>', 'in place of init.seed and data.seed', wholeNumber('--seed', 0))
    .option('--audit <x>', 'share of the work that is done again, in place of trust.audit', shareOption('--audit'))
    .option('--chaos <script>', 'faults to cause, for example kill:2@5,freeze:1@7+10s,slow:1@5*3,lie:0@3,join@9')
    .option('--report <file>', 'write what each fault cost, roll-backs, memory and who was removed, as JSON')
    .option('--record <file>', RECORD_OPTION)
    .option(
      '--servers <n>',
      'run this many server processes over a NATS of their own, and spread the donors over them',
      wholeNumber('--servers', 1),
    )
    .option(
      '--requests <file>',
      'ask the model at steps of its training, as /v1/completions is asked: one JSON line each',
    )
    .option('--answers <file>', 'where its answers go, one JSON line each')
    .option(
      '--until-loss <x>',
      'stop at the first held-out loss of X or less; exit code 3: none',
      positive('--until-loss'),
    )
    .option('--time-limit <s>', 'stop after S seconds, with what is done then; exit code 4', positive('--time-limit'))
    .option('--json', 'a summary as one JSON document on standard output')
    .option('--browser <name>', BROWSER_OPTION, browser, 'chromium')
    .option(
      '--donor <spec>',
      'a donor with limits of its own, in place of --donors; repeatable: own,browser=firefox,speed=0.5,memory=256MiB,host=1GiB,upload=2MB/s,download=8MB/s',
      donorSpec,
    )
    .addHelpText('after', tryIt(EXAMPLE))
    .action(swarm);
}

async function swarm(path: string, options: SwarmOptions): Promise<void> {
  checkPlanOptions(options);
  if (options.chaos !== undefined) need(parseChaosScript(options.chaos, options.donors ?? Infinity), badInput);
  await checkPlaces(options);
  const terms = await termsOf(path, options);
  const interrupt = onInterrupt();
  if (options.servers !== undefined) {
    await trainOverServers(path, terms, options.servers, interrupt).finally(() => interrupt.release());
    return;
  }
  // A temporary one is kept where it holds the only copy of what was trained.
  let isKept = options.dataDir !== undefined;
  const directory = options.dataDir ?? mkdtempSync(join(tmpdir(), 'shoal-swarm-'));
  const clean = (): void => {
    if (!isKept) rmSync(directory, { recursive: true, force: true });
  };
  process.once('exit', clean); // a second signal ends this process wherever it is
  let data: DataDirectory | null = null;
  try {
    data = await openData(directory, isKept);
    const opened = data;
    const task = need(await whereKept(opened, async () => success(await prepare(opened, path, terms))), failed);
    if (task.isServerKilled) {
      // While it serves, the data directory is the server process's own.
      data.close();
      data = null;
    }
    const trained = await (data === null
      ? trainBesideServer(directory, task, interrupt)
      : trainInside(data, task, interrupt));
    data ??= await openData(directory, isKept);
    const notExported = await conclude(data, task, need(trained, failed));
    if (notExported !== null) {
      isKept = true;
      throw failed(`${notExported}; the weights are kept: ${exportWords(directory, task)}`);
    }
  } finally {
    data?.close();
    interrupt.release();
    process.off('exit', clean);
    clean();
  }
}

/** What is written when all is trained can be written. */
async function checkPlaces({ metrics, report, requests, answers, ...options }: SwarmOptions): Promise<void> {
  checkRecord(options.record);
  if ((requests === undefined) !== (answers === undefined))
    throw badInput('--requests and --answers go together: the one says what is asked, the other where the answers go');
  const written = { '--metrics': metrics, '--report': report, '--answers': answers };
  for (const [name, path] of Object.entries(written)) {
    const fault = path === undefined ? null : filePlaceFault(path);
    if (fault !== null) throw badInput(`${name}: ${fault}`);
  }
  for (const folder of [options.export, options.exportMerged])
    if (folder !== undefined) need(await exportTarget(folder), badInput);
  if (options.dataDir !== undefined && options.servers !== undefined)
    throw badInput('--data-dir: what several servers keep is in a NATS of their own: leave it out beside --servers');
  if (options.dataDir === '') throw badInput('--data-dir: an empty path: a folder was expected');
}

/** What the run file and the options say together, checked before anything is written. */
interface Terms {
  readonly options: SwarmOptions;
  readonly train: RunFile['train'];
  readonly donors: number;
  readonly wishes: PlanWishes;
  /** Which donors are not the operator's own, by number; null: all are, and all who join. */
  readonly strangers: ((donor: number) => boolean) | null;
  readonly chaos: readonly ChaosEntry[];
  readonly isServerKilled: boolean;
  readonly requests: ModelRequests | undefined;
}

/** Everything about a training that is known before it begins. */
interface Task extends Terms {
  readonly runName: string;
  /** The newest event in the store before it began. */
  readonly eventsBefore: number;
}

async function termsOf(path: string, options: SwarmOptions): Promise<Terms> {
  const file = need(await trainedRun(need(await readRunFile(path), badInput), path), badInput);
  checkSteps(file, path, options);
  checkExports(file, path, options);
  const { donors, wishes } = await choosePlan(options, file, path);
  const strangers = keepsEnds(file) ? strangersAmong(options, file, path, { donors, wishes }) : null;
  const chaos = options.chaos === undefined ? [] : need(parseChaosScript(options.chaos, donors), badInput);
  const browserOf = (donor: number): BrowserName => options.donor?.[donor]?.browser ?? options.browser;
  const impossible = impossibleFault(chaos, browserOf);
  if (impossible !== null) throw badInput(impossible);
  checkBrowsers(Array.from({ length: donors }, (_, donor) => browserOf(donor)));
  const isServerKilled = chaos.some(({ kind }) => kind === 'server-kill');
  const asked =
    options.requests === undefined ? null : need(await readModelRequests(options.requests, file.name), badInput);
  const requests = asked === null ? undefined : new ModelRequests(asked);
  return { options, train: file.train, donors, wishes, strangers, chaos, isServerKilled, requests };
}

async function prepare(data: DataDirectory, path: string, terms: Terms): Promise<Task> {
  const progress = fileProgress((line) => terminalLog()('info', line));
  const note = (sentence: string): void => terminalLog()('warn', sentence);
  const { seed } = terms.options;
  const runName = need(await addRun(data, path, { progress, note, ...given({ seed }) }), badInput);
  return { ...terms, runName, eventsBefore: data.store.newestEvent() };
}

const serverOptions = ({ options, runName, donors, wishes }: Task): TrainingOptions => ({
  runName,
  ...wishes,
  expectedDonors: donors,
  ...given({ steps: options.steps, audit: options.audit, metricsPath: options.metrics, recordPath: options.record }),
});

async function trainInside(data: DataDirectory, task: Task, interrupt: Interrupt): Promise<Result<Trained>> {
  const log = terminalLog();
  return train(need(await openTrainingServer({ ...serverOptions(task), data, log }), failed), task, interrupt);
}

async function trainBesideServer(directory: string, task: Task, interrupt: Interrupt): Promise<Result<Trained>> {
  const server = need(await openServerProcess(serverOptions(task), directory), failed);
  return train(server, task, interrupt);
}

/** The data directory of the others is here what the servers' NATS has. */
async function trainOverServers(path: string, terms: Terms, servers: number, interrupt: Interrupt): Promise<void> {
  let task = null as Task | null;
  const prepared = async ({ data }: { readonly data: DataDirectory }): Promise<string> => {
    task = await prepare(data, path, terms);
    return task.runName;
  };
  const { runName: _, ...options } = serverOptions({ ...terms, runName: '', eventsBefore: 0 });
  const processes = need(await openSiteProcesses(options, servers, prepared), failed);
  try {
    invariant(task !== null, 'the run is in the site');
    const begun: Task = task;
    const trained = await train(processes.server, begun, interrupt);
    await processes.conclude(async ({ data }) => {
      const notExported = await conclude(data, begun, need(trained, failed));
      if (notExported !== null) throw failed(`${notExported}; ${await keptWords(data, begun)}`);
    });
  } finally {
    await processes.end();
  }
}

/** Copies what the site has, which ends with its NATS, into a data directory that stays; says how to export from there. */
async function keptWords(site: DataDirectory, task: Task): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'shoal-swarm-'));
  const data = await openData(directory);
  const copied = await copyData(site, data).finally(() => data.close());
  if (copied.ok) return `the weights are kept: ${exportWords(directory, task)}`;
  rmSync(directory, { recursive: true, force: true });
  return `the weights are lost: ${copied.reason}`;
}

async function train(
  server: TrainingServer,
  { options, runName, train: terms, donors, strangers, chaos, requests }: Task,
  interrupt: Interrupt,
): Promise<Result<Trained>> {
  const log = terminalLog();
  log('info', `training ${runName} at ${server.url} with ${counted(donors, 'headless donor')}`);
  log('info', `its dashboard: ${server.url}/operator#token=${server.operatorToken}`);
  return trainHeadless({
    server,
    donors,
    specs: options.donor ?? [],
    strangers,
    browser: options.browser,
    log,
    interrupt: interrupt.signal,
    chaos,
    requests,
    ...given({ untilLoss: options.untilLoss, timeLimitSeconds: options.timeLimit }),
    onChange: progressLines(terms, (line) => log('info', line)),
  });
}

/** For a shell. */
const quoted = (word: string): string => (/^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The command that exports later what could not be exported now. */
function exportWords(directory: string, { options, runName }: Task): string {
  const command = (folder: string): string =>
    `shoal export --data-dir ${quoted(directory)} --run ${runName} --out ${quoted(folder)}`;
  if (options.exportMerged === undefined) return command(options.export ?? '');
  return [
    ...(options.export === undefined ? [] : [command(options.export)]),
    `${command(options.exportMerged)} --merged`,
  ].join('; ');
}

/** That what is to be exported can be, and has room. */
function checkExports(file: RunFile, path: string, options: SwarmOptions): void {
  if (options.exportMerged !== undefined && file.train.adapter === undefined)
    throw badInput(`--export-merged: ${path} has no train.adapter that could be merged; --export writes its weights`);
  const folders = {
    export: [options.export, modelOf(file)],
    'export-merged': [options.exportMerged, wholeModelOf(file)],
  } as const;
  for (const [name, [folder, model]] of Object.entries(folders)) {
    const noRoom = folder === undefined ? null : exportRoomFault(folder, model);
    if (noRoom !== null) throw badInput(`--${name}: ${noRoom}`);
  }
}

function checkSteps({ train, evaluation }: RunFile, path: string, { steps, untilLoss }: SwarmOptions): void {
  if (untilLoss !== undefined && !evaluation)
    throw badInput(`--until-loss: ${path} has no evaluation, whose held-out loss it waits for`);
  if ((steps ?? 1) > train.steps) throw badInput(`--steps must be at most train.steps (${train.steps}) of ${path}`);
}

/** A line about the run, at most once in a while and at each end. */
function progressLines(train: RunFile['train'], print: (line: string) => void): (status: RunStatus) => void {
  let lastMs = Number.NEGATIVE_INFINITY;
  let lastStep = -1;
  let lastHeldOut = null as number | null;
  return ({ snapshot }) => {
    const { committedSteps, steps, loss, tokensPerSecond, evaluationLoss, groups = [] } = snapshot;
    const nowMs = monotonicMs();
    const isEnd = committedSteps === steps;
    // The last evaluation is over after the last step.
    if (isEnd && lastStep === steps && evaluationLoss !== null && evaluationLoss !== lastHeldOut) {
      lastHeldOut = evaluationLoss;
      print(`held-out loss at the end: ${evaluationLoss.toFixed(4)}`);
      return;
    }
    if (committedSteps === lastStep || committedSteps === 0) return;
    if (!isEnd && nowMs - lastMs < PROGRESS_INTERVAL_MS) return;
    lastMs = nowMs;
    lastStep = committedSteps;
    lastHeldOut = evaluationLoss;
    const heldOut = evaluationLoss === null ? '' : `, held-out ${evaluationLoss.toFixed(4)}`;
    const speed = tokensPerSecond === null ? '' : `, ${speedText(tokensPerSecond)} tokens/s`;
    // The next island begins its round where this one began its own: so does its loss.
    const whose = whoseLoss(train, committedSteps - 1, groups.length);
    print(`${committedSteps} of ${steps} steps, loss ${loss?.toFixed(4) ?? 'unknown'}${whose}${heldOut}${speed}`);
  };
}

function whoseLoss(train: RunFile['train'], step: number, groups: number): string {
  if (!train.islands || train.islands.count === 'auto') return groups > 1 ? ` by ${groups} groups` : '';
  const { island, round } = turnAt(train, step);
  const by = groups > 1 ? ` by ${groups} groups` : ` of island ${island + 1} of ${train.islands.count}`;
  return `${by} in round ${round + 1}`;
}
