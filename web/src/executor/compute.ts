/**
 * One action on a micro-batch, or one on each of those that a layered pass has: in its place among what the donor's share of
 * its GPU allows, measured, and where its stage gathers unit by unit.
 */
import { at } from '../../../swarm/base.ts';
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import { begun, type MeasuredSpan } from '../../../swarm/timeline/measured.ts';
import { kindOf, samplesOf } from './aloneSeconds.ts';
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

/**
 * Resolves when all of it stands in the GPU's queue; at less than full speed when it is done. Micro-batches that go through each
 * unit together have spans of equal parts of their work, one after the other, whichever these are.
 */
export async function compute(
  { role, around: { now, throttle, computed }, gathering, timeline, isEvaluation }: Computing,
  actions: readonly ComputeAction[],
  stage: Stage,
  work: (microBatch: number, unit?: number) => void,
): Promise<void> {
  const first = at(actions, 0);
  const microBatches = actions.map(({ microBatch }) => microBatch);
  const samples = microBatches.reduce((sum, id) => sum + samplesOf(role.plan, id), 0);
  const kind = { ...kindOf(role, first, isEvaluation), samples };
  let passed: Promise<void> | undefined;
  const settled = async (): Promise<void> => {
    await passed;
    await stage.settled();
  };
  let submittedSeconds = 0;
  /** All that was submitted since the last one is its work. */
  const tell = (action: ComputeAction): void => {
    const begin = { peer: role.peer, action, submittedSeconds };
    submittedSeconds = now();
    void (action === actions.at(-1) ? settled() : stage.settled())
      .then(() => {
        const aloneSeconds = (throttle.alone(kind) ?? 0) / actions.length || undefined;
        timeline.push(begun({ ...begin, endSeconds: now(), aloneSeconds }, timeline.at(-1)));
        computed?.(action);
      })
      .catch(() => undefined); // a lost device ends the step elsewhere
  };
  const submit = (): void => {
    submittedSeconds = now();
    const { op, stage: index } = first;
    if (op === 'R' || !stage.units) {
      work(first.microBatch);
      tell(first);
      return;
    }
    const each = gathering.unitsIn(index, op);
    let done = 0;
    passed = gathering.pass(index, microBatches, op, (unit, microBatch) => {
      work(microBatch, unit);
      if (++done % each === 0) tell(at(actions, done / each - 1));
    });
  };
  const idleBefore = gathering.idleSeconds;
  await throttle.run(kind, submit, settled, () => gathering.idleSeconds - idleBefore);
  await passed;
}
