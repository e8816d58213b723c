/**
 * How long a piece of this donor's work takes when nothing else runs on the machine, before it was ever done: from the
 * layer times of the admission, which are measured alone, by the costs that the planner plans with.
 */
import {
  admittedProfile,
  hasTimes,
  recomputedBy,
  type StageWork,
  workSeconds,
} from '../../../swarm/autoplan/peerProfile.ts';
import { invariant, type PeerId } from '../../../swarm/base.ts';
import type { Profile } from '../../../swarm/messages/profile.ts';
import type { Model } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import { againAhead } from '../../../swarm/schedule/recompute.ts';

/** What is done on a micro-batch, as far as its time depends on it. */
export interface ComputeKind extends Omit<StageWork, 'op' | 'shape'> {
  readonly op: 'F' | 'R' | 'B' | 'evaluation';
  /** Half-open. */
  readonly layers: readonly [number, number];
}

export function samplesOf({ microBatches }: Plan, microBatch: number): number {
  const found = microBatches.find(({ id }) => id === microBatch);
  invariant(found, `no micro-batch ${microBatch}`);
  return found.samples[1] - found.samples[0];
}

/** What an action of this peer is. */
export function kindOf(
  { plan, peer }: { readonly plan: Plan; readonly peer: PeerId },
  { op, stage, microBatch }: ComputeAction,
  isEvaluation: boolean,
): ComputeKind {
  const planned = plan.stages[stage];
  invariant(planned, `the plan has no stage ${stage}`);
  const { recompute = [] } = planned.members.find((member) => member.peer === peer) ?? {};
  const work = { layers: planned.layers, samples: samplesOf(plan, microBatch) };
  if (isEvaluation) return { ...work, op: 'evaluation', recomputed: 0 };
  if (op === 'R') return { ...work, op, recomputed: againAhead(recompute) };
  return op === 'B' ? { ...work, op, ...recomputedBy(recompute) } : { ...work, op: 'F', recomputed: 0 };
}

/** Seconds; null: unknown. */
export type AloneSeconds = (kind: ComputeKind) => number | null;

export const UNKNOWN: AloneSeconds = () => null;

export function admittedSeconds(model: Model, train: Train, measured: Profile): AloneSeconds {
  const profile = admittedProfile(measured);
  if (!hasTimes(profile)) return UNKNOWN;
  const batch = { samples: train.globalBatchSize, sequence: train.sequenceLength };
  const secondsOf = workSeconds(model, batch, profile);
  return ({ op, layers: [from, to], samples, ...again }) => {
    const isEvaluation = op === 'evaluation'; // it has no gradient of the head
    const shape = { first: from === 0, last: to === model.layers && !isEvaluation, layers: to - from };
    return secondsOf({ op: isEvaluation ? 'F' : op, shape, samples, ...again });
  };
}
