/**
 * A shard's tensors in as few updates as can be. An arena's gaps are zero and stay zero under AdamW, so one launch goes
 * over all tensors that lie alike wherever it reads and writes; which of them decay it is told as ranges.
 */
import type { Dims } from '../kernel/kernel.ts';

/** Ranges that one launch takes: a GPT-2 layer has four matrices. */
export const MOST_DECAYS = 4;

/** A tensor, or the part of one that a shard has. */
export interface UpdatedTensor {
  /** Floats from the start of the shard's gradients. */
  readonly at: number;
  /** Floats from the start of its moments; absent: as many. */
  readonly momentsAt?: number;
  readonly length: number;
  readonly decays: boolean;
  /** Where it lies among the values, and in the halves that are made of them. */
  readonly valuesAt: number;
  readonly shadowAt?: number;
}

/** Floats of a launch, relative to its first. */
export type Decays = readonly (readonly [number, number])[];

interface UpdateRun {
  readonly first: UpdatedTensor;
  readonly count: number;
  readonly decays: Decays;
}

/** In order, each tensor in one run. */
export function updateRuns(tensors: readonly UpdatedTensor[]): UpdateRun[] {
  const runs: UpdateRun[] = [];
  for (const tensor of tensors) {
    const last = runs.at(-1);
    const run = last && joined(last, tensor);
    if (run) runs[runs.length - 1] = run;
    else runs.push({ first: tensor, count: tensor.length, decays: tensor.decays ? [[0, tensor.length]] : [] });
  }
  return runs;
}

/** A run in launches of at most so many floats, a multiple of four. */
export function runParts(run: UpdateRun, most: number): UpdateRun[] {
  const { first, count, decays } = run;
  if (count <= most) return [run];
  const parts: UpdateRun[] = [];
  for (let from = 0; from < count; from += most) {
    const length = Math.min(most, count - from);
    const moved = { ...first, at: first.at + from, valuesAt: first.valuesAt + from };
    parts.push({
      first: {
        ...moved,
        ...(first.momentsAt !== undefined && { momentsAt: first.momentsAt + from }),
        ...(first.shadowAt !== undefined && { shadowAt: first.shadowAt + from }),
      },
      count: length,
      decays: decays
        .map(([start, end]) => [Math.max(start - from, 0), Math.min(end - from, length)] as const)
        .filter(([start, end]) => start < end),
    });
  }
  return parts;
}

const momentsOf = ({ at, momentsAt = at }: UpdatedTensor): number => momentsAt;

/** Null where the tensor lies otherwise, would be a range too many, or would make the launch go by single floats. */
function joined({ first, count, decays }: UpdateRun, tensor: UpdatedTensor): UpdateRun | null {
  const start = tensor.at - first.at;
  const end = start + tensor.length;
  const liesAlike =
    tensor.valuesAt - first.valuesAt === start &&
    momentsOf(tensor) - momentsOf(first) === start &&
    (tensor.shadowAt ?? 0) === (first.shadowAt ?? -start) + start;
  if (!liesAlike || [count, start, end].some((floats) => floats % 4 !== 0)) return null;
  if (!tensor.decays) return { first, count: end, decays };
  const last = decays.at(-1);
  // What lies between two tensors that decay is zero.
  const more: Decays = last?.[1] === count ? [...decays.slice(0, -1), [last[0], end]] : [...decays, [start, end]];
  return more.length > MOST_DECAYS ? null : { first, count: end, decays: more };
}

/** Fields of the dims that say the ranges, `from0` and `to0` first. */
export const DECAY_DIMS = ['from0', 'to0', 'from1', 'to1', 'from2', 'to2', 'from3', 'to3'] as const;
export type DecayDim = (typeof DECAY_DIMS)[number];

/** Empty ranges where there are fewer. */
export function decayDims(decays: Decays): Dims<DecayDim> {
  const [[from0, to0] = NONE, [from1, to1] = NONE, [from2, to2] = NONE, [from3, to3] = NONE] = decays;
  return { from0, to0, from1, to1, from2, to2, from3, to3 };
}
const NONE = [0, 0] as const;

/** The dims of a run's launch. */
export const dimsOfRun = ({ first, count, decays }: UpdateRun) => ({
  offset: first.valuesAt,
  count,
  gradientOffset: first.at,
  momentOffset: momentsOf(first),
  ...decayDims(decays),
  ...(first.shadowAt === undefined ? {} : { shadowOffset: first.shadowAt }),
});
