/** What a run wants of one more donor, from what its server knows of it (swarm/messages/neededMost.ts). */

import { type RunWant, USUAL_DONOR_BYTES } from '../../swarm/messages/neededMost.ts';
import { aloneBytes } from '../../swarm/planner/aloneBytes.ts';
import type { ActiveRun } from './run.ts';

/** `connected`: donors whose sockets are open, also such as are not measured yet: of these the usual is expected. */
export function runWant(run: ActiveRun, connected: number): RunWant {
  const { phase, committedSteps, steps, tokensPerSecond, donors } = run.snapshot();
  const { globalBatchSize, sequenceLength } = run.facts.train;
  const measured = run.donors();
  const coming = Math.max(0, connected - measured.length);
  const computing = donors.filter(({ state }) => state === 'computing').length;
  const said = { run: run.name, phase, committedSteps, steps, donors: computing };
  if (run.lacksPlan || measured.length === 0) {
    const here = measured.reduce((sum, { profile }) => sum + (profile?.memoryBytes ?? 0), coming * USUAL_DONOR_BYTES);
    const missing = aloneBytes(run.model, globalBatchSize, sequenceLength) - here;
    // Nobody is measured, and those who come are enough: it is about to begin.
    if (missing > 0 || coming === 0) return { ...said, missingBytes: Math.max(1, missing), secondsLeft: null };
  }
  const tokensLeft = (steps - committedSteps) * globalBatchSize * sequenceLength;
  const secondsLeft = tokensPerSecond ? tokensLeft / tokensPerSecond : null;
  const share = computing > 0 ? computing / (computing + coming) : 1;
  return { ...said, missingBytes: null, secondsLeft: secondsLeft === null ? null : secondsLeft * share };
}
