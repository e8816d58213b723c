/**
 * The plan: who computes what, and who keeps which part of the training state. Plain data; every schedule, memory
 * figure, message and frame follows from it. A peer may own several stages, a stage several peers, a shard's keeper
 * need not compute with it. See SPEC.md, rules PL.
 */
import { invariant, type PeerId, type Range } from './base.ts';
import type { BlockName } from './model.ts';
import type { ScheduleName } from './schedule/action.ts';

export interface MicroBatch {
  readonly id: number;
  /** Samples of the step, `[from, to)` of B. */
  readonly samples: Range;
}

export interface Member {
  readonly peer: PeerId;
  /** Ids of the micro-batches this peer carries through the stage. */
  readonly microBatches: readonly number[];
  readonly samples: number;
  /** Layers recomputed in the backward. */
  readonly recompute: readonly number[];
}

export interface PlanStage {
  readonly layers: Range;
  readonly members: readonly Member[];
}

export interface Shard {
  /** The primary: owns the float32 master values and Adam's moments of the range. */
  readonly peer: PeerId;
  /** Elements of the block. */
  readonly range: Range;
  readonly replicas: readonly PeerId[];
}

export interface BlockState {
  readonly block: BlockName;
  readonly shards: readonly Shard[];
}

export interface Plan {
  readonly stages: readonly PlanStage[];
  readonly microBatches: readonly MicroBatch[];
  readonly state: readonly BlockState[];
  readonly schedule: ScheduleName;
}

/** The routing rule: who carries this micro-batch through this stage. */
export function owner(plan: Plan, stage: number, microBatch: number): PeerId {
  const member = plan.stages[stage]?.members.find(({ microBatches }) => microBatches.includes(microBatch));
  invariant(member, `micro-batch ${microBatch} has no owner in stage ${stage}`);
  return member.peer;
}
