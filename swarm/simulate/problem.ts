/**
 * One schedule to try: what `shoal simulate` reads. Peers are numbers; times are given for each peer's whole share of
 * the model. Fields that the named schedule does not know of (`chunks`, `pairs`, `warmup`, `maxInFlight`) are checked
 * and not used.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import {
  count,
  expecting,
  fieldPath,
  fields,
  natural,
  nonNegative,
  number,
  positive,
  sentence,
} from '../model/inputFields.ts';
import { chimeraMisfit, interleavedMisfit } from '../plan/ownerTable.ts';
import { SCHEDULE_NAMES } from '../plan/plan.ts';

/** Stages of micro-batches: what a timeline of a few hundred megabytes has. */
const MOST_WORK = 1_000_000;

const unlimited = number('a number above 0, or null', (value) => value > 0)
  .nullable()
  .default(null);

const link = fields({
  latencySeconds: nonNegative.default(0),
  bytesPerSecond: unlimited,
  windowBytes: unlimited,
  streams: count.default(1),
});
export type ProblemLink = z.output<typeof link>;

// One link for all, or one a hop: a plain union would answer with no sentence of either.
const links = z.unknown().transform((value, context): ProblemLink | readonly ProblemLink[] => {
  const parsed = (Array.isArray(value) ? z.array(link) : link).safeParse(value);
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues)
    context.addIssue({ code: 'custom', path: fieldPath(issue), message: issue.message });
  return z.NEVER;
});

const NO_LINK = { latencySeconds: 0, bytesPerSecond: null, windowBytes: null, streams: 1 };
const NO_JITTER = { computeSeconds: 0, linkSeconds: 0, seed: 1 };
const oneOf = (names: readonly string[]): string => `one of ${names.join(', ')}`;

const PROBLEM = fields({
  schedule: z.enum(SCHEDULE_NAMES, { error: expecting(oneOf(SCHEDULE_NAMES)) }),
  microBatches: count,
  stages: z
    .array(fields({ forwardSeconds: nonNegative, backwardSeconds: nonNegative }), {
      error: expecting('a list of one stage or more'),
    })
    .min(1, { error: expecting('a list of one stage or more') }),
  chunks: count.default(1),
  pairs: count.default(1),
  warmup: z.enum(['normal', 'overlap'], { error: expecting('"normal" or "overlap"') }).default('normal'),
  maxInFlight: number('a positive integer, or null', (value) => Number.isSafeInteger(value) && value > 0)
    .nullable()
    .default(null),
  link: links.default(NO_LINK),
  activationBytes: nonNegative.default(0),
  gradientBytes: nonNegative.default(0),
  jitter: fields({
    computeSeconds: nonNegative.default(0),
    linkSeconds: nonNegative.default(0),
    seed: natural.default(1),
  }).default(NO_JITTER),
  pipelines: count.default(1),
  sharedLinks: z.array(natural, { error: expecting('a list of numbers of links') }).default([]),
  sharing: z.enum(['mixed', 'turns'], { error: expecting('"mixed" or "turns"') }).exactOptional(),
  requests: fields({ pieceSeconds: positive, guardSeconds: nonNegative.default(0) }).exactOptional(),
});
export type SimulateProblem = z.output<typeof PROBLEM>;

/** Stages that each peer has. */
export const chunksOf = ({ schedule, chunks }: SimulateProblem): number =>
  schedule === 'interleaved' || schedule === 'breadth-first' ? chunks : 1;

/** A problem that can run, or the sentence that says what is wrong with it. */
export function parseSimulateProblem(json: unknown): Result<SimulateProblem> {
  const parsed = PROBLEM.safeParse(json);
  if (!parsed.success) return refusal(sentence(parsed.error.issues[0], 'the problem'));
  const misfit = misfitOf(parsed.data);
  return misfit === null ? success(parsed.data) : refusal(misfit);
}

function misfitOf(problem: SimulateProblem): string | null {
  const { schedule, microBatches, stages, pairs, pipelines } = problem;
  const work = microBatches * stages.length * chunksOf(problem) * pipelines;
  if (work > MOST_WORK) {
    const factors = `${chunksOf(problem) > 1 ? ' times chunks' : ''}${pipelines > 1 ? ' times pipelines' : ''}`;
    return `microBatches times stages${factors} must be at most ${MOST_WORK}, not ${work}`;
  }
  const own =
    schedule === 'interleaved'
      ? interleavedMisfit(stages.length, microBatches)
      : schedule === 'chimera'
        ? chimeraMisfit(stages.length, microBatches, pairs)
        : null;
  return own ?? linkMisfit(problem) ?? sharedLinksMisfit(problem);
}

function sharedLinksMisfit(problem: SimulateProblem): string | null {
  const { stages, sharedLinks } = problem;
  const most = (wraps(problem) ? stages.length : stages.length - 1) - 1;
  for (const [index, link] of sharedLinks.entries()) {
    if (link > most)
      return most < 0
        ? `sharedLinks must be empty where one peer has no link, not ${link}`
        : `sharedLinks[${index}] must be a number of a link, at most ${most}, not ${link}`;
    if (sharedLinks.indexOf(link) < index) return `sharedLinks must name each link once: ${link} stands there twice`;
  }
  return null;
}

/** Whether messages go from the last peer to the first one. */
const wraps = (problem: SimulateProblem): boolean =>
  problem.stages.length > 2 && (chunksOf(problem) > 1 || (problem.schedule === 'chimera' && problem.pairs > 1));

/** Where no message goes from the last peer to the first one, the entry for that may be left out. */
function linkMisfit(problem: SimulateProblem): string | null {
  const { link, stages } = problem;
  if (!('length' in link)) return null;
  const peers = stages.length;
  const least = wraps(problem) ? peers : peers - 1;
  if (link.length === peers || link.length === least) return null;
  return `link must have an entry for each of the ${peers} peers${wraps(problem) ? '' : ', the last of which may be left out'}: not ${link.length}`;
}
