/**
 * The problem that `shoal assign` reads: a group of unequal peers, each with measured times and memory, who share one
 * batch and one training state. Everything in it was measured on the peer itself; nothing is derived from a peak rate.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import {
  count,
  expecting,
  fields,
  isTooDeep,
  name,
  nonNegative,
  number,
  sentence,
  TOO_DEEP,
} from '../model/inputFields.ts';

/** More samples than this are no batch that a group shares in one step. */
const MOST_SAMPLES = 1_000_000;

/** Ms, GiB and a factor: more of them is a slip, and sums of such are no numbers any more. */
const MOST = 1e15;

const limited = (value: z.ZodNumber) =>
  value.refine((amount) => Math.abs(amount) <= MOST, { error: expecting(`at most ${MOST}`) });
const amount = limited(nonNegative);
const signed = limited(number('a number', () => true));
const atLeastOne = limited(number('a number of 1 or more', (value) => value >= 1));
const fraction = number('a number above 0 and at most 1', (value) => value > 0 && value <= 1);
const samples = number(
  `a positive integer up to ${MOST_SAMPLES}`,
  (value) => Number.isSafeInteger(value) && value > 0 && value <= MOST_SAMPLES,
);
const numbers = z.array(amount, { error: expecting('a list of numbers') });

const timeCurve = fields({ table: numbers, slope: amount, intercept: signed });

const sizingProblem = fields({
  globalBatch: samples,
  layers: count,
  stateGiB: amount,
  usableFraction: fraction,
  communicationGiB: amount,
  extraMicroBatchMs: amount,
  allGatherMs: amount,
  reduceScatterMs: amount,
  unevenFactor: atLeastOne,
  recompute: z.boolean({ error: expecting('true or false') }),
  peers: z
    .array(
      fields({
        id: name('a name'),
        memoryGiB: amount,
        forwardMs: timeCurve,
        backwardMs: timeCurve,
        activationGiB: fields({ table: numbers.min(1, { error: expecting('a list of one number or more') }) }),
      }),
      { error: expecting('a list of peers') },
    )
    .min(1, { error: expecting('a list of one peer or more') }),
});

/** Times are ms a layer for a micro-batch of m samples: `table[m−1]`, past it `slope·m + intercept`. */
export type SizingProblem = z.output<typeof sizingProblem>;

/** `fileName` opens every sentence. */
export function parseSizingProblem(json: unknown, fileName: string): Result<SizingProblem> {
  if (isTooDeep(json)) return refusal(`${fileName}: the problem ${TOO_DEEP}`);
  const parsed = sizingProblem.safeParse(json);
  if (!parsed.success) return refusal(`${fileName}: ${sentence(parsed.error.issues[0], 'the problem')}`);
  const problem = parsed.data;
  const fault = disagreement(problem);
  return fault === null ? success(problem) : refusal(`${fileName}: ${fault}`);
}

/** What is wrong although each field for itself is right. */
function disagreement({ globalBatch, peers }: SizingProblem): string | null {
  if (globalBatch < peers.length)
    return `globalBatch must be at least the number of peers (${peers.length}), a sample for each, not ${globalBatch}`;
  for (const [index, peer] of peers.entries()) {
    const first = peers.findIndex(({ id }) => id === peer.id);
    if (first !== index)
      return `peers[${index}].id must be a name of its own, not "${peer.id}" as peers[${first}].id is`;
    for (const pass of ['forwardMs', 'backwardMs'] as const) {
      const { table, slope, intercept } = peer[pass];
      const next = table.length + 1;
      // A fitted line may meet the axis below 0, as long as it is above where the table ends and it takes over.
      if (next <= globalBatch && slope * next + intercept < 0)
        return `peers[${index}].${pass} must be no negative time, not ${slope * next + intercept} ms for ${next} samples`;
    }
  }
  return null;
}
