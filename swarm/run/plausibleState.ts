/**
 * How far a training state can have come since an earlier one. With AdamW no weight moves further in a step than its
 * learning rate times a bound that follows from the betas, and no moment is larger than the gradients it is a mean of.
 * What a donor uploads for a checkpoint is held against that. See SPEC.md, SV50. Muon stays within the same bounds: an
 * orthogonal r×c matrix, whose norm is about √min(r, c), times 0.2·√max(r, c) moves r·c weights by a fifth of the rate each,
 * where AdamW's bound is never less than one rate.
 *
 * With m = Σ (1−β₁)·β₁ⁱ·g and v = Σ (1−β₂)·β₂ⁱ·g² over the last t gradients, Cauchy and Schwarz give
 * |m| ≤ (1−β₁)·√(Σ (β₁²/β₂)ⁱ / (1−β₂))·√v, and the bias corrections multiply that by √(1−β₂ᵗ) / (1−β₁ᵗ).
 */
import { learningRate } from './learningRate.ts';
import type { Train } from './runFile.ts';

/** Past every rounding of float32; who exceeds it has not computed what it was told. */
const SLACK = 2;
/** Relative to a weight, each step rounds by less. */
const ROUNDING = 2 ** -23;

export interface Progress {
  /** Of the steps between the two states. */
  readonly steps: number;
  /** The furthest that a weight can have moved by gradients. */
  readonly reach: number;
  /** The share of itself that a weight can have lost by decay. */
  readonly decay: number;
  /** What the islands' last meeting can have left behind, as so many of the furthest rounds of an island; null without islands. */
  readonly rounds: { readonly way: Way; readonly velocity: number; readonly leftOver: number } | null;
}

/** The furthest that an island's weight can go in a round: by gradients, and as a share of itself. */
interface Way {
  readonly reach: number;
  readonly decay: number;
}

/** Of one shard of a state. */
export interface StateSums {
  readonly elements: number;
  /** Sum of squares of what the values were in the earlier state. */
  readonly before: number;
  /** Sum of squares of how far the values are from that. */
  readonly moved: number;
  /** Sum of squares of the first moments; of several islands the largest. */
  readonly m: number;
  /** Sum of the second moments, which are squares; of several islands the largest. */
  readonly v: number;
  /** Sums of squares of the outer momentum, and of what packets left over: of several islands the largest. */
  readonly velocity: number;
  readonly leftOver: number;
}

/** The largest |m̂| / √v̂ after `time` gradients; infinite where these betas have no bound. */
export function largestUpdate([beta1, beta2]: readonly [number, number], time: number): number {
  if (beta1 > 0 && beta2 === 0) return Number.POSITIVE_INFINITY;
  const ratio = beta2 === 0 ? 0 : beta1 ** 2 / beta2;
  const sum = ratio === 1 ? time : (1 - ratio ** time) / (1 - ratio);
  return ((1 - beta1) / (1 - beta1 ** time)) * Math.sqrt(((1 - beta2 ** time) / (1 - beta2)) * sum);
}

/** What the steps `[from, to)` can have done to a weight. */
export function progress(train: Pick<Train, 'optimizer' | 'schedule'>, from: number, to: number): Progress {
  const { betas, weightDecay } = train.optimizer;
  let reach = 0;
  let decay = 0;
  for (let step = from; step < to; step++) {
    const rate = learningRate(train, step);
    if (rate > 0) reach += rate * largestUpdate(betas, step + 1);
    decay += rate * weightDecay;
  }
  return { steps: to - from, reach, decay, rounds: null };
}

/** What cannot be true of a shard, or null. `largestGradient`: norm of the largest gradient that any step applied so far. */
export function implausible(
  sums: StateSums,
  { steps, reach, decay, rounds }: Progress,
  largestGradient: number,
): string | null {
  const gradients = Math.sqrt(sums.elements) * reach;
  const farthest = gradients + (decay + steps * ROUNDING) * (Math.sqrt(sums.before) + gradients);
  if (Math.sqrt(sums.moved) > SLACK * farthest)
    return `its values are ${text(Math.sqrt(sums.moved))} from those ${steps} steps before: ${text(farthest)} at most can be`;
  const norm = SLACK * largestGradient;
  if (Math.sqrt(sums.m) > norm)
    return `its first moments have a norm of ${text(Math.sqrt(sums.m))}: no gradient had more than ${text(largestGradient)}`;
  if (sums.v > norm ** 2)
    return `its second moments add up to ${text(sums.v)}: no gradient had more than ${text(largestGradient ** 2)}`;
  return rounds && implausibleMeeting(sums, rounds, farthest);
}

function implausibleMeeting(
  { elements, before, velocity, leftOver }: StateSums,
  { way, ...most }: NonNullable<Progress['rounds']>,
  moved: number,
): string | null {
  const furthest = Math.sqrt(elements) * way.reach + (way.decay + ROUNDING) * (Math.sqrt(before) + moved);
  if (Math.sqrt(velocity) > SLACK * most.velocity * furthest)
    return `its outer momentum has a norm of ${text(Math.sqrt(velocity))}: ${text(most.velocity * furthest)} at most can be`;
  if (Math.sqrt(leftOver) > SLACK * most.leftOver * furthest)
    return `what its packets left over has a norm of ${text(Math.sqrt(leftOver))}: ${text(most.leftOver * furthest)} at most can be`;
  return null;
}

const text = (value: number): string => value.toPrecision(3);
