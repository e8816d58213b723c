/**
 * What `shoal swarm` leaves behind: report, answers, export, a summary as JSON or for the page of a CI job, and the exit code
 * that says whether what was asked for was reached.
 */
import { appendFileSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { refusal, rounded } from '../../swarm/base.ts';
import { counted, speedText } from '../../swarm/quantityText.ts';
import { messageOf } from '../files/errorWords.ts';
import { makeFolder } from '../files/makeFolder.ts';
import type { Trained } from '../headless/trainHeadless.ts';
import { terminalLog } from '../monitoring/log.ts';
import { evaluated } from '../run/metricsFile.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { exportRun } from '../store/exportRun.ts';
import { rollBacksSince } from '../store/rollBacks.ts';
import type { Store } from '../store/store.ts';
import { CommandFailure, failed } from './failure.ts';

/** Paths and ends that a training was asked for. */
export interface Wanted {
  readonly metrics?: string;
  readonly report?: string;
  readonly answers?: string;
  readonly export?: string;
  readonly exportMerged?: string;
  readonly record?: string;
  readonly untilLoss?: number;
  readonly timeLimit?: number;
  readonly json?: boolean;
}

interface Ended {
  readonly options: Wanted;
  readonly runName: string;
  /** The newest event in the store before it began. */
  readonly eventsBefore: number;
}

const LOSS_NOT_REACHED = 3;
const TIME_OVER = 4;

/** Some held-out loss is low enough. */
export const isReached = (store: Store, run: string, untilLoss: number | undefined): boolean =>
  untilLoss !== undefined && [...store.evaluations(run).values()].some((loss) => loss <= untilLoss);

/** Report, export and exit code, with the store as the training left it. Answers with why nothing was exported. */
export async function conclude(data: DataDirectory, ended: Ended, trained: Trained): Promise<string | null> {
  const { options, runName } = ended;
  const { outcome, chaos } = trained;
  const report = reportOf(data.store, ended, trained);
  if (options.report !== undefined) write(options.report, `${JSON.stringify(report)}\n`);
  if (options.answers !== undefined && outcome !== 'interrupted')
    write(options.answers, trained.answers.map((answer) => `${JSON.stringify(answer)}\n`).join(''));
  const stopped = `stopped after ${counted(trained.committedSteps, 'step')}, before the end of the run`;
  if (outcome === 'interrupted') throw failed(stopped);
  const notExported =
    (await exported(data, runName, options.export)) ?? (await exported(data, runName, options.exportMerged, true));
  const failure = failureOf(data.store, ended, trained);
  const summary = summaryOf(data.store, ended, trained, failure);
  if (options.json) process.stdout.write(`${JSON.stringify({ ...summary, ...report })}\n`);
  const { GITHUB_STEP_SUMMARY: page = '' } = process.env;
  if (page !== '') appendFileSync(page, pageText(summary, report));
  if (notExported !== null) return notExported;
  const missed = chaos.flatMap(({ entry, firedAtStep }) => (firedAtStep === null ? entry : []));
  if (missed.length > 0) throw failed(`--chaos ${missed.join(',')} had no effect before the run ended`);
  if (failure !== null) throw failure;
  return null;
}

async function exported(
  data: DataDirectory,
  run: string,
  folder: string | undefined,
  isMerged = false,
): Promise<string | null> {
  if (folder === undefined) return null;
  const done = await exportRun(data, run, folder, { isMerged }).catch((error: unknown) => refusal(messageOf(error)));
  if (!done.ok) return done.reason;
  terminalLog()('info', `exported to ${done.value}`);
  return null;
}

function write(path: string, text: string): void {
  makeFolder(dirname(path));
  writeFileSync(path, text);
}

function reportOf(
  store: Store,
  { runName, eventsBefore }: Ended,
  { chaos, memory, faults, refused, convictions }: Trained,
) {
  const rollbacks = rollBacksSince(store, runName, eventsBefore);
  return { chaos, rollbacks, memory, faults, refused, convictions };
}

/** Null: what was asked for was reached. */
function failureOf(store: Store, { options, runName }: Ended, { outcome, committedSteps }: Trained) {
  const { untilLoss, timeLimit } = options;
  if (isReached(store, runName, untilLoss)) return null;
  const losses = [...store.evaluations(runName).values()];
  const best = losses.length === 0 ? 'there was none' : `the lowest was ${Math.min(...losses).toFixed(4)}`;
  const after = `after ${counted(committedSteps, 'step')}`;
  if (outcome === 'timeOver') return new CommandFailure(`the time of ${timeLimit} s is over ${after}`, TIME_OVER);
  if (untilLoss === undefined) return null;
  return new CommandFailure(`no held-out loss of ${untilLoss} or less ${after}: ${best}`, LOSS_NOT_REACHED);
}

function summaryOf(store: Store, { options, runName }: Ended, trained: Trained, failure: CommandFailure | null) {
  const steps = store.steps(runName);
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  const stepSeconds = steps.reduce((sum, step) => sum + step.seconds, 0);
  const paths = { metrics: options.metrics, report: options.report, export: options.export };
  const others = { exportMerged: options.exportMerged, answers: options.answers, record: options.record };
  const files = Object.entries({ ...paths, ...others }).flatMap(([name, path]) =>
    path === undefined ? [] : [[name, resolve(path)] as const],
  );
  const answers = store.rightAnswers(runName);
  const outcomes: Readonly<Record<number, string>> = { [LOSS_NOT_REACHED]: 'lossNotReached', [TIME_OVER]: 'timeOver' };
  return {
    run: runName,
    outcome: outcomes[failure?.exitCode ?? 0] ?? (options.untilLoss === undefined ? 'finished' : 'lossReached'),
    steps: trained.committedSteps,
    seconds: trained.seconds,
    tokens,
    tokensPerSecond: stepSeconds > 0 ? tokens / stepSeconds : null,
    losses: steps.map(({ loss }) => loss),
    evaluations: [...store.evaluations(runName)].map(([step, loss]) => {
      const { evaluationLoss, ...others } = evaluated(loss, answers.get(step));
      return { steps: step, loss: evaluationLoss, ...others };
    }),
    files: Object.fromEntries(files),
  };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  finished: 'finished',
  lossReached: 'held-out loss reached',
  lossNotReached: 'held-out loss not reached',
  timeOver: 'the time is over',
};

/** GitHub's Markdown, for the page of the job. */
function pageText(summary: ReturnType<typeof summaryOf>, report: ReturnType<typeof reportOf>) {
  const { rollbacks, faults, refused, convictions } = report;
  const { losses, evaluations, tokensPerSecond } = summary;
  const change = (values: readonly number[], text = (loss: number): string => loss.toFixed(4)): string =>
    values.length === 0 ? 'none' : [...new Set([...values.slice(0, 1), ...values.slice(-1)])].map(text).join(' → ');
  const shares = evaluations.flatMap(({ answersRight }) => answersRight ?? []);
  const rows = [
    ['Outcome', OUTCOMES[summary.outcome] ?? summary.outcome],
    ['Steps', `${summary.steps} in ${Math.round(summary.seconds)} s`],
    ['Loss', change(losses)],
    ['Held-out loss', change(evaluations.map(({ loss }) => loss))],
    ...(shares.length === 0 ? [] : [['Right answers', change(shares, (share) => `${rounded(100 * share, 3)} %`)]]),
    ['Speed', tokensPerSecond === null ? 'none' : `${speedText(tokensPerSecond)} tokens a second`],
    ['Faults', counted(faults.length, 'fault')],
    ['Roll-backs', counted(rollbacks.length, 'roll-back')],
    ['Thrown out', counted(refused.length, 'donor')],
    ['Convicted', counted(convictions.length, 'donor')],
  ];
  const table = rows.map(([name, value]) => `| ${name} | ${value} |\n`).join('');
  return `### Shoal: ${summary.run}\n\n| | |\n| --- | --- |\n${table}\n`;
}
