/**
 * Tensor bytes that a step sends from donor to donor, by what they are: a pure function of the plan, since a plan says
 * who hands what to whom. A step that is done again sends them again. What passes between steps (held-out activations,
 * state that changes hands) is not in it.
 */
import { at, got, overlap } from '../base.ts';
import { blocksOfStage, type Model } from '../model/model.ts';
import { packedBytes, type WireEncoding } from '../wire.ts';
import type { Plan } from './plan.ts';

export const STEP_TENSORS = ['activation', 'gradient', 'slice', 'values'] as const;
type StepTensor = (typeof STEP_TENSORS)[number];
export type StepTraffic = Readonly<Record<StepTensor, number>>;

const ELEMENT_BYTES = 4;

export function stepTraffic(
  model: Model,
  plan: Plan,
  { sequence, wire }: { readonly sequence: number; readonly wire: WireEncoding },
): StepTraffic {
  const stream = streamBytes(plan, (samples) => packedBytes(wire, samples * sequence * model.width));
  const state = stateBytes(model, plan);
  return { activation: stream, gradient: stream, slice: state, values: state };
}

/** One way along the stages; the gradients come back the same way. */
function streamBytes({ stages, microBatches }: Plan, bytesOf: (samples: number) => number): number {
  const owners = stages.map(
    ({ members }) => new Map(members.flatMap(({ peer, microBatches: ids }) => ids.map((id) => [id, peer] as const))),
  );
  let bytes = 0;
  for (const [stage, next] of owners.slice(1).entries())
    for (const { id, samples } of microBatches)
      if (got(at(owners, stage), id) !== got(next, id)) bytes += bytesOf(samples[1] - samples[0]);
  return bytes;
}

/** What holders send to the primaries elsewhere; the new values come back the same way. */
function stateBytes(model: Model, { stages, state }: Plan): number {
  const shardsOf = new Map(state.map(({ block, shards }) => [block, shards]));
  let elements = 0;
  for (const { layers, members } of stages)
    for (const { block, ranges } of blocksOfStage(model, layers))
      for (const { peer, range } of got(shardsOf, block)) {
        const elsewhere = members.filter((member) => member.peer !== peer).length;
        for (const part of ranges) {
          const [from, to] = overlap(part, range) ?? [0, 0];
          elements += elsewhere * (to - from);
        }
      }
  return elements * ELEMENT_BYTES;
}
