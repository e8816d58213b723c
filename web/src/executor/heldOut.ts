/**
 * An evaluation on this peer: the held-out windows in rounds of a step's samples, each a run of forwards, and the sums of
 * their cross-entropy by micro-batch.
 */
import { got } from '../../../swarm/base.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { forwardOnly } from '../../../swarm/schedule/lower.ts';
import { StepRun } from './execute.ts';
import type { Role } from './role.ts';
import type { Surroundings } from './surroundings.ts';
import type { TokenSource } from './tokenSource.ts';
import { expectHeldOut, samplesRead } from './tokensAhead.ts';

interface LossSum {
  readonly microBatch: number;
  /** Null: not a finite number. */
  readonly lossSum: number | null;
}

/** `around`: what a round meets whose first window is this one. */
export async function evaluateHeldOut(
  role: Role,
  train: Train,
  source: TokenSource,
  step: number,
  around: (first: number) => Surroundings,
): Promise<LossSum[]> {
  const { plan, peer } = role;
  const { globalBatchSize, sequenceLength } = train;
  const samples = samplesRead(plan, peer, source);
  const actions = got(forwardOnly(plan), peer);
  const sums = new Map<number, number | null>();
  const firstSample = new Map(plan.microBatches.map(({ id, samples: [from] }) => [id, from]));
  for (let first = 0, round = 0; first < source.windows; first += globalBatchSize, round++) {
    expectHeldOut(source, train, samples, first);
    const counted = (microBatch: number, row: number): boolean =>
      first + got(firstSample, microBatch) + Math.floor(row / sequenceLength) < source.windows;
    for (const { microBatch, lossSum } of await new StepRun(role, around(first), step, round).evaluate(
      actions,
      counted,
    )) {
      const sum = sums.get(microBatch) ?? 0;
      sums.set(microBatch, lossSum === null || sums.get(microBatch) === null ? null : sum + lossSum);
    }
  }
  return [...sums].map(([microBatch, lossSum]) => ({ microBatch, lossSum }));
}
