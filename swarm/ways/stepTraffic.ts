/**
 * Tensor bytes that a step sends from donor to donor, by what they are: a pure function of the plan, since a plan says
 * who hands what to whom. A step that is done again sends them again. What passes between steps (held-out activations,
 * state that changes hands) is not in it.
 */
import type { STEP_TENSORS } from '../messages/frame.ts';
import type { Model } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { bytesOf, type StreamSize, stepTensors } from './tensors.ts';

type StepTensor = (typeof STEP_TENSORS)[number];
export type StepTraffic = Readonly<Record<StepTensor, number>>;

export function stepTraffic(model: Model, plan: Plan, size: StreamSize): StepTraffic {
  const passages = stepTensors(model, plan, size);
  const sum = (kind: StepTensor): number =>
    passages.reduce((bytes, passage) => bytes + (passage.tensor.kind === kind ? bytesOf(passage) : 0), 0);
  return { activation: sum('activation'), gradient: sum('gradient'), slice: sum('slice'), values: sum('values') };
}
