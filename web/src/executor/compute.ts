/** One action on a micro-batch: in its place among what the donor's share of its GPU allows, measured, and where its stage gathers unit by unit. */
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import { begun, type MeasuredSpan } from '../../../swarm/timeline/measured.ts';
import { kindOf } from './aloneSeconds.ts';
import type { Stage } from './engine.ts';
import type { Gathering } from './gathering.ts';
import type { Role } from './role.ts';
import type { Surroundings } from './surroundings.ts';

interface Computing {
  readonly role: Role;
  readonly around: Surroundings;
  readonly gathering: Gathering;
  readonly timeline: MeasuredSpan[];
  readonly isEvaluation: boolean;
}

/** Resolves when all of it stands in the GPU's queue; at less than full speed when it is done. */
export async function compute(
  { role, around: { now, throttle, computed }, gathering, timeline, isEvaluation }: Computing,
  action: ComputeAction,
  stage: Stage,
  work: (unit?: number) => void,
): Promise<void> {
  const kind = kindOf(role, action, isEvaluation);
  let passed: Promise<void> | undefined;
  const settled = async (): Promise<void> => {
    await passed;
    await stage.settled();
  };
  const submit = (): void => {
    const submittedSeconds = now();
    const { op, microBatch } = action;
    if (op === 'R' || !stage.units) work();
    else passed = gathering.pass(action.stage, microBatch, op, work);
    void settled()
      .then(() => {
        const times = { submittedSeconds, endSeconds: now(), aloneSeconds: throttle.alone(kind) || undefined };
        timeline.push(begun({ peer: role.peer, action, ...times }, timeline.at(-1)));
        computed?.(action);
      })
      .catch(() => undefined); // a lost device ends the step elsewhere
  };
  await throttle.run(kind, submit, settled);
  await passed;
}
