/**
 * Bounds of every number that a donor reports: from the plan, from what was committed, from others' reports or from
 * arithmetic. What breaks a hard one is a fault of whoever said it (`reportProblem`, `evaluationProblem`). A loss or a norm
 * that could be, but is far from what was (`suspectOf`), is believed when it comes out again.
 */
import type { PeerId } from '../base.ts';
import type { EvaluatedMessage, ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';
import { stepTraffic } from '../ways/stepTraffic.ts';
import { bytesOf, wholeValues } from '../ways/tensors.ts';
import type { CoordinatorConfig, StepNorm } from './events.ts';
import { type Duties, type Reported, shardKey } from './state.ts';

/** A mean loss is at most so many times ln V, that of a model which knows nothing; in a run's first steps it may be anywhere below the second. */
const MOST_LOSS = 4;
const MOST_FIRST_LOSS = 64;
/** Past these steps it is at least such a part of the last committed one: parts of a text that was learned differ, but not by so much. */
const LEAST_LOSS = 1 / 64;
const FIRST_STEPS = 10;
/** A sum of cross-entropies that are all 0 may come out below 0 by rounding: nats a target. */
const LOSS_ROUNDING = 1e-3;
/** A norm is at most so many times the median of the newest committed ones. */
const MOST_NORM = 20;
export const NORMS_COMPARED = 20;
/** Of what is done again, relative. */
const AGREEMENT = 1e-3;
/** Squares are summed in float32 on the GPU: no element adds more than the largest one. */
const LARGEST_FLOAT32 = 3.4028234663852886e38;
/** Each target's loss is a float32, and there are no more than 2^32 of them. */
const LARGEST_LOSS_SUM = LARGEST_FLOAT32 * 2 ** 32;
/** A report may tell of so many times the bytes that the whole step sends. */
const MOST_TRAFFIC = 2;
/** Two clocks may differ by so much: a share, and seconds. */
const CLOCK_DRIFT = 0.1;
const CLOCK_SECONDS = 1;

/** Tensor bytes that a step of this plan sends from donor to donor. */
export function trafficBytes(config: CoordinatorConfig, plan: Plan): number {
  const model = acceptedModel(config);
  const { activation, gradient, slice, values } = stepTraffic(model, plan, {
    sequence: config.batch.sequence,
    wire: config.wire,
  });
  // The last step of an island's turn sends them as floats.
  const whole = config.train.islands ? wholeValues(model, plan) : [];
  const wholeBytes = whole.reduce((sum, passage) => sum + bytesOf(passage), 0);
  return activation + gradient + slice + Math.max(values, wholeBytes);
}

/** What is wrong with a report of a peer with these duties, or null. `elapsedMs`: since the server said start. */
export function reportProblem(
  { losses, primary, replica, replicated, sends }: Duties,
  report: ReportMessage,
  { trafficBytes: bytes, elapsedMs }: { readonly trafficBytes: number; readonly elapsedMs: number },
): string | null {
  const wrongLosses = lossesProblem(losses, report.losses);
  if (wrongLosses !== null) return `the report has ${wrongLosses}`;
  const keys = report.shards.map(({ block, range }) => shardKey(block, range));
  const stray = keys.find((key) => !primary.includes(key) && !replica.includes(key));
  if (stray !== undefined) return `the report has shard ${stray}, which this peer does not keep`;
  const reported = new Set(keys);
  if (reported.size !== keys.length) return 'the report has a shard twice';
  const missing = [...primary, ...replica].find((key) => !reported.has(key));
  if (missing !== undefined) return `the report lacks shard ${missing}`;
  for (const [index, { range, sumSquares, digests }] of report.shards.entries()) {
    const key = keys[index] ?? '';
    if ((sumSquares !== null) !== primary.includes(key))
      return sumSquares === null
        ? `the report lacks the squares of shard ${key}`
        : `the report has squares of shard ${key}, of which this peer is a replica`;
    const slices = Object.hasOwn(replicated, key) ? replicated[key] : undefined;
    if (digests?.length !== slices)
      return `the report has ${digests?.length ?? 'no'} digests of shard ${key}, of which ${slices ?? 'none'} are due`;
    if (Number(sumSquares) !== Number.POSITIVE_INFINITY && Number(sumSquares) > (range[1] - range[0]) * LARGEST_FLOAT32)
      return `the report says ${sumSquares} for the squares of shard ${key}, more than they can sum to`;
  }
  const { length: told } = report.sent ?? [];
  if (told !== sends) return `the report has ${told} digests of what it sent, not ${sends}`;
  const sent = report.bytesDirect + report.bytesRelayed;
  if (sent > MOST_TRAFFIC * bytes) return `the report tells of ${sent} bytes sent, of a step that sends ${bytes}`;
  return spansProblem(report, elapsedMs / 1000);
}

/** A donor begins after the server told it to, and ends before it says so. */
function spansProblem({ spans }: ReportMessage, elapsedSeconds: number): string | null {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { action, start, end } of spans) {
    if (end < start) return `the report says that ${action} ended before it began`;
    first = Math.min(first, start);
    last = Math.max(last, end);
  }
  return last - first > elapsedSeconds * (1 + CLOCK_DRIFT) + CLOCK_SECONDS
    ? `the report tells of ${(last - first).toFixed(1)} s of work, in a step of ${elapsedSeconds.toFixed(1)} s`
    : null;
}

/** The same of an evaluation: from each peer the micro-batches whose loss it computes, once. */
export function evaluationProblem({ losses }: Duties, evaluated: EvaluatedMessage): string | null {
  const problem = lossesProblem(losses, evaluated.losses);
  return problem === null ? null : `the evaluation has ${problem}`;
}

function lossesProblem(asked: readonly number[], said: ReportMessage['losses']): string | null {
  const ids = said.map(({ microBatch }) => microBatch).toSorted((a, b) => a - b);
  if (ids.length !== asked.length || ids.some((id, i) => id !== asked[i]))
    return `the losses of micro-batches ${ids.join(' ') || 'none'}, not of ${asked.join(' ') || 'none'}`;
  const wrong = said.find(
    ({ lossSum }) => lossSum !== null && !(lossSum >= -LOSS_ROUNDING && lossSum <= LARGEST_LOSS_SUM),
  );
  return wrong === undefined
    ? null
    : `a loss of ${wrong.lossSum} for micro-batch ${wrong.microBatch}, which none can be`;
}

/** Where a run stands: its committed steps, and the loss of the last one. */
interface SoFar {
  readonly config: CoordinatorConfig;
  readonly committedSteps: number;
  readonly loss: number | null;
}

/** Nats a target, at most. A run that is this bad already may be as bad again. */
function mostLoss({ config, committedSteps, loss }: SoFar): number {
  const blind = Math.log(Math.max(2, acceptedModel(config).vocabulary));
  return committedSteps < FIRST_STEPS ? MOST_FIRST_LOSS * blind : MOST_LOSS * Math.max(blind, loss ?? 0);
}

/** Nats a target, at least. */
const leastLoss = ({ committedSteps, loss }: SoFar): number =>
  committedSteps < FIRST_STEPS ? 0 : LEAST_LOSS * (loss ?? 0);

/** Targets of each micro-batch in so many rounds of a step's samples, as evaluations go: their last one may be a part. */
function targetsOf({ batch }: CoordinatorConfig, plan: Plan, rounds: number): Map<number, number> {
  return new Map(plan.microBatches.map(({ id, samples: [from, to] }) => [id, rounds * (to - from) * batch.sequence]));
}

interface Said {
  readonly peer: PeerId;
  readonly losses: ReportMessage['losses'];
}

/** Who says of a micro-batch that its loss is larger or smaller than any should be; null: nobody. */
export function suspectOfLoss(
  soFar: SoFar,
  plan: Plan,
  said: readonly Said[],
  windows = soFar.config.batch.samples,
): PeerId | null {
  const [most, least] = [mostLoss(soFar), leastLoss(soFar)];
  const rounds = windows / soFar.config.batch.samples;
  const atMost = targetsOf(soFar.config, plan, Math.ceil(rounds));
  const atLeast = targetsOf(soFar.config, plan, Math.floor(rounds));
  const isFarOff = ({ microBatch, lossSum }: ReportMessage['losses'][number]): boolean => {
    const sum = lossSum ?? 0;
    const isLarge = sum > most * (atMost.get(microBatch) ?? 0) + LOSS_ROUNDING;
    return isLarge || sum < least * (atLeast.get(microBatch) ?? 0) - LOSS_ROUNDING;
  };
  return said.find(({ losses }) => losses.some(isFarOff))?.peer ?? null;
}

/** Who adds most to a norm that is far above the newest committed ones; null: it is not. */
export function suspectOfNorm(
  norms: readonly StepNorm[],
  { step, gradientNorm }: Pick<StepNorm, 'step' | 'gradientNorm'>,
  reports: readonly Reported[],
): PeerId | null {
  const newest = norms.filter((one) => one.step < step).slice(-NORMS_COMPARED);
  const ordered = newest.map((one) => one.gradientNorm).toSorted((a, b) => a - b);
  const median = ((ordered[(ordered.length - 1) >> 1] ?? 0) + (ordered[ordered.length >> 1] ?? 0)) / 2;
  if (ordered.length < FIRST_STEPS || step < FIRST_STEPS || gradientNorm <= MOST_NORM * median) return null;
  const squares = ({ report }: Reported): number =>
    report.shards.reduce((sum, { sumSquares }) => sum + Number(sumSquares), 0);
  return reports.reduce((most, one) => (squares(one) > squares(most) ? one : most)).peer;
}

/** Of the newest steps, and of as many before the newest checkpoint: a roll-back goes on from there. */
export const normsKept = (norms: readonly StepNorm[], checkpointStep: number): StepNorm[] =>
  norms.filter(({ step }) => step >= checkpointStep - NORMS_COMPARED);

const isNear = (one: number, other: number): boolean =>
  Math.abs(one - other) <= AGREEMENT * Math.max(Math.abs(one), Math.abs(other));

interface Outcome {
  readonly loss: number;
  readonly gradientNorm: number;
}

/** Done again, it came out the same. */
export const agrees = (one: Outcome, other: Outcome): boolean =>
  isNear(one.loss, other.loss) && isNear(one.gradientNorm, other.gradientNorm);
