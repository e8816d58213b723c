/**
 * Tensor bytes that a step sends from donor to donor, by what they are: a pure function of the plan, since a plan says
 * who hands what to whom. A step that is done again sends them again. What passes between steps (held-out activations,
 * state that changes hands) is not in it.
 */
import { totalOf } from '../base.ts';
import type { FrameKind, STEP_TENSORS } from '../messages/frame.ts';
import type { Model } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { bytesOf, type StreamSize, stepTensors } from './tensors.ts';

type StepTensor = (typeof STEP_TENSORS)[number];
export type StepTraffic = Readonly<Record<StepTensor, number>>;

/** What is gathered, and the gradients of it, are counted with what is sent of blocks that are whole. */
const COUNTED_AS: Partial<Record<FrameKind, StepTensor>> = { gathered: 'values', share: 'slice' };

export function stepTraffic(model: Model, plan: Plan, size: StreamSize): StepTraffic {
  const passages = stepTensors(model, plan, size);
  const sum = (kind: StepTensor): number =>
    totalOf(passages, (passage) =>
      (COUNTED_AS[passage.tensor.kind] ?? passage.tensor.kind) === kind ? bytesOf(passage) : 0,
    );
  return { activation: sum('activation'), gradient: sum('gradient'), slice: sum('slice'), values: sum('values') };
}
