/**
 * Which stages compute activations again (Merak, Lai et al. 2023): a later stage of 1F1B has fewer micro-batches in
 * flight, so it may have room for all of their activations where an earlier one has not. Recompute is off wherever they
 * fit. Where it is on, the lowering puts it before the receive of the gradient: a peer computes while that is on its
 * way. See SPEC.md, SC5.
 */
import { arrayOf, type Range } from '../base.ts';
import type { Plan } from '../plan/plan.ts';

/** The plan with these layers, and no others, computed again by everyone who has them. */
export const recomputing = (plan: Plan, layers: readonly number[]): Plan => ({
  ...plan,
  stages: plan.stages.map((stage) => {
    const [from, to] = stage.layers;
    const recompute = layers.filter((layer) => from <= layer && layer < to);
    return { ...stage, members: stage.members.map((member) => ({ ...member, recompute })) };
  }),
});

/**
 * Of the layers that a member recomputes, so many are R's: the one whose backward comes first. What is computed again has
 * room for one layer, so the backward does the others, each when its turn comes.
 */
export const againAhead = (recompute: readonly number[]): number => Math.min(1, recompute.length);
export const againInBackward = (recompute: readonly number[]): number => recompute.length - againAhead(recompute);

/** A member that computes some layers again begins with the first: so many of a stage's, or all. */
export const firstLayers = ([from, to]: Range, count = to - from): number[] => arrayOf(count, (index) => from + index);
