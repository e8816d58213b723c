/**
 * Runs whose operator keeps the first and last stage for donors of its own (`trust.ends` "own"). Those two stages see tokens
 * and targets, and gradients of the embedding and the head tell which tokens occurred: so strangers compute neither of these
 * stages, and keep no state of these two blocks. Anything else may be theirs. Rules OE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import { isEndBlock, keepersOf, type Plan } from './plan.ts';

/** Of a run with own ends: who is the operator's own. Null: everyone may have the ends. */
export type OwnEnds = ReadonlySet<PeerId> | null;

export const NEEDS_OWN = 'the first and last stage need a donor of the operator’s own';

/** Stages that see tokens or targets. */
const endsOf = <Stage>(stages: readonly Stage[]): readonly Stage[] =>
  stages.filter((_, stage) => stage === 0 || stage === stages.length - 1);

/** Who computes an end of a plan, or keeps what belongs to it. */
export const peersAtEnds = ({ stages, state }: Plan): ReadonlySet<PeerId> =>
  new Set([
    ...endsOf(stages).flatMap(({ members }) => members.map(({ peer }) => peer)),
    ...state.flatMap(({ block, shards }) => (isEndBlock(block) ? shards.flatMap(keepersOf) : [])),
  ]);

/** Whether nobody else than the operator's own donors has an end of this plan. */
export const hasOwnEnds = (plan: Plan, own: OwnEnds): boolean =>
  own === null || [...peersAtEnds(plan)].every((peer) => own.has(peer));
