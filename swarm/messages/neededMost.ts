/**
 * Which of a site's runs needs one more donor most, where the donor leaves that open. A run that stands, because those at hand
 * have too little memory for its model, gains most: from one with whom it can begin, else from one with whom the least is
 * missing. Where all runs go, the one that has the longest to go gains most: what a donor adds in operations a second is the
 * same anywhere, so that this is what brings the end of the last one nearest.
 */
import { z } from 'zod';
import { count } from '../fields.ts';
import { snapshotSchema } from './snapshot.ts';

/** What a run wants, as its server says it. */
export const runWantSchema = z.object({
  ...snapshotSchema.pick({ run: true, phase: true, committedSteps: true, steps: true }).shape,
  /** Those that compute. */
  donors: count,
  /** Memory that those at hand lack for it to begin; null: they have enough. */
  missingBytes: z.number().min(0).nullable(),
  /** To its last step at its pace of now; null: not known. */
  secondsLeft: z.number().min(0).nullable(),
});
export type RunWant = z.infer<typeof runWantSchema>;

/** What `/api/runs` answers: the active runs of this server's site. */
export const runWantsSchema = z.object({ runs: z.array(runWantSchema) });

/** Of a donor that has not said what it gives: a small graphics card's. */
export const USUAL_DONOR_BYTES = 2e9;

const byName = (one: RunWant, other: RunWant): number => (one.run < other.run ? -1 : 1);
const left = ({ secondsLeft }: RunWant): number => secondsLeft ?? Number.POSITIVE_INFINITY;

/** A donor with so much memory does most for this run; null: none of them has anything for donors to do. */
export function neededMost(wants: readonly RunWant[], memoryBytes: number): string | null {
  const wanting = wants.filter(({ phase }) => phase !== 'paused' && phase !== 'finished').toSorted(byName);
  const standing = wanting.flatMap(({ run, missingBytes }) => (missingBytes === null ? [] : { run, missingBytes }));
  const begun = standing.filter(({ missingBytes }) => missingBytes <= memoryBytes);
  // The most that it can fill: what lacks less is left to a smaller one.
  const filled = begun.toSorted((one, other) => other.missingBytes - one.missingBytes)[0];
  if (filled !== undefined) return filled.run;
  const nearest = standing.toSorted((one, other) => one.missingBytes - other.missingBytes)[0];
  if (nearest !== undefined) return nearest.run;
  // Equal ones stay in the order of their names; the difference of two infinite times would be no number.
  const longest = wanting.reduce<RunWant | null>(
    (most, want) => (most === null || left(want) > left(most) ? want : most),
    null,
  );
  return longest?.run ?? null;
}
