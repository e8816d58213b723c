/** For tests: a plan whose members compute again what they have no room for. */
import type { PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { Schedule } from '../schedule/action.ts';
import { firstLayers } from '../schedule/recompute.ts';
import { slots } from '../schedule/slots.ts';

/** Does this peer have room for the activations of so many micro-batches of the stage? */
export type Fits = (peer: PeerId, stage: number, inFlight: number) => boolean;

/** The plan with every layer of a member recomputed where its activations do not fit, and none where they do. */
export function withRecompute(plan: Plan, schedule: Schedule, fits: Fits): Plan {
  const inFlight = slots(schedule);
  return {
    ...plan,
    stages: plan.stages.map((stage, index) => ({
      ...stage,
      members: stage.members.map((member) => {
        const most = inFlight.get(member.peer)?.get(index) ?? 0;
        return { ...member, recompute: fits(member.peer, index, most) ? [] : firstLayers(stage.layers) };
      }),
    })),
  };
}
