/**
 * Bounds of every number that a donor reports, from the plan and from arithmetic alone. Breaking one is a fault of the
 * donor that said it. How usual a number is plays no part: honest training does everything once.
 */
import { countIn, total, totalOf } from '../base.ts';
import type { EvaluatedMessage, ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';
import { stepTraffic } from '../ways/stepTraffic.ts';
import { bytesOf, wholeValues } from '../ways/tensors.ts';
import type { CoordinatorConfig } from './events.ts';
import { type Duties, shardKey } from './state.ts';

/**
 * Nats a target by which rounding may bring a sum of cross-entropies below 0. WGSL allows a logarithm near 1 an error of
 * 2^-21, and a logit of 100 is rounded by 4e-6.
 */
const LOSS_ROUNDING = 1e-5;
/** Squares are summed in float32 on the GPU: no element adds more than the largest one. */
const LARGEST_FLOAT32 = 3.4028234663852886e38;
/** Of a sum of squares, relative: that many additions in float32 that all round the same way (shaders/update/sumSquares.ts). */
const SQUARES_ROUNDING = 1e-3;
/** A square below it may count as 0. */
const LEAST_NORMAL = 2 ** -126;
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
  const wholeBytes = totalOf(whole, bytesOf);
  return activation + gradient + slice + Math.max(values, wholeBytes);
}

/** What a report is held against. */
interface StepBounds {
  /** B·T: of the whole step. */
  readonly targets: number;
  readonly trafficBytes: number;
  /** Since the server said start. */
  readonly elapsedMs: number;
}

/** What is wrong with a report of a peer with these duties, or null. */
export function reportProblem(
  { losses, primary, replica, replicated, sends, commits = 0 }: Duties,
  report: ReportMessage,
  { targets, trafficBytes: bytes, elapsedMs }: StepBounds,
): string | null {
  const wrongLosses = lossesProblem(losses, report.losses, targets);
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
    const slices = Object.hasOwn(replicated, key) ? replicated[key] : undefined;
    if (digests?.length !== slices)
      return `the report has ${digests?.length ?? 'no'} digests of shard ${key}, of which ${slices ?? 'none'} are due`;
    if (Number(sumSquares) !== Number.POSITIVE_INFINITY && Number(sumSquares) > countIn(range) * LARGEST_FLOAT32)
      return `the report says ${sumSquares} for the squares of shard ${key}, more than they can sum to`;
  }
  const { length: told } = report.sent ?? [];
  if (told !== sends) return `the report has ${told} digests of what it sent, not ${sends}`;
  const { length: words } = report.committed ?? [];
  if (words !== commits) return `the report commits to ${words} tensors, not to ${commits}`;
  const sent = report.bytesDirect + report.bytesRelayed;
  if (sent > MOST_TRAFFIC * bytes) return `the report tells of ${sent} bytes sent, of a step that sends ${bytes}`;
  return spansProblem(report, elapsedMs / 1000);
}

type Squares = ReportMessage['shards'][number]['sumSquares'];

/** Two donors that added up the same slices of so many elements cannot come to these sums of their squares. */
export function differInSquares(one: Squares, other: Squares, elements: number): boolean {
  const [a, b] = [Number(one), Number(other)];
  if (!Number.isFinite(a) || !Number.isFinite(b)) return Number.isFinite(a) !== Number.isFinite(b);
  return Math.abs(a - b) > SQUARES_ROUNDING * Math.max(a, b) + elements * LEAST_NORMAL;
}

/** Nobody can come to this sum of squares by adding up slices with these norms (the triangle inequality). */
export function breaksSquares(said: Squares, norms: readonly number[], elements: number): boolean {
  const sum = total(norms);
  const least = Math.max(0, ...norms.map((norm) => 2 * norm - sum));
  const squares = Number(said);
  const slack = elements * LEAST_NORMAL;
  return !(
    squares <= sum ** 2 * (1 + SQUARES_ROUNDING) + slack && squares >= least ** 2 * (1 - SQUARES_ROUNDING) - slack
  );
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

/** The same of an evaluation of so many targets: from each peer the micro-batches whose loss it computes, once. */
export function evaluationProblem({ losses }: Duties, evaluated: EvaluatedMessage, targets: number): string | null {
  const problem = lossesProblem(losses, evaluated.losses, targets);
  return problem === null ? null : `the evaluation has ${problem}`;
}

function lossesProblem(asked: readonly number[], said: ReportMessage['losses'], targets: number): string | null {
  const ids = said.map(({ microBatch }) => microBatch).toSorted((a, b) => a - b);
  if (ids.length !== asked.length || ids.some((id, i) => id !== asked[i]))
    return `the losses of micro-batches ${ids.join(' ') || 'none'}, not of ${asked.join(' ') || 'none'}`;
  const wrong = said.find(
    ({ lossSum }) => lossSum !== null && !(lossSum >= -LOSS_ROUNDING * targets && lossSum <= LARGEST_FLOAT32 * targets),
  );
  return wrong === undefined
    ? null
    : `a loss of ${wrong.lossSum} for micro-batch ${wrong.microBatch}, which none can be`;
}
