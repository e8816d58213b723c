/**
 * One action on a micro-batch, or one on each of those that a layered pass has: in its place among what the donor's share of
 * its GPU allows, measured, and where its stage gathers, or its values are still being written, unit by unit.
 */
import { at, got } from '../../../swarm/base.ts';
import { passesOf } from '../../../swarm/plan/layered.ts';
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import { begun, type MeasuredSpan } from '../../../swarm/timeline/measured.ts';
import { kindOf, samplesOf } from './aloneSeconds.ts';
import type { Stage } from './engine.ts';
import type { Gathering } from './gathering.ts';
import type { IdleMeter } from './idleMeter.ts';
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
 * A forward of a stage some of whose values are still being updated in this peer's main memory goes block by block, each
 * when its values have come (after Deep Optimizer States, Maurya et al., Middleware '24). For each block, in the order of
 * the forward: until its values are written; null: they are.
 */
type Writing = readonly (Promise<void> | null)[];

/** Null: all of the stage's values are there, or it has none by itself (gathering.ts). */
function writingOf({ stages, shards }: Role, index: number): Writing | null {
  const { blocks = [] } = got(stages, index);
  const writing = blocks.map((name) => shards.written?.(index, name) ?? null);
  return writing.some((one) => one !== null) ? writing : null;
}

interface Ways {
  readonly stage: Stage;
  readonly idle: IdleMeter;
}

/** Resolves when all blocks stand in the GPU's queue. */
export async function asWritten({ stage, idle }: Ways, writing: Writing, run: (block: number) => void): Promise<void> {
  let settled = idle.doneAt(stage.settled());
  for (const [block, written] of writing.entries()) {
    if (written) await idle.until(written, settled);
    run(block);
    if (writing[block + 1]) settled = idle.doneAt(stage.settled());
  }
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
  const writing = first.op === 'F' ? writingOf(role, first.stage) : null;
  if (isEvaluation) await Promise.all(writing ?? []);
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
    const { op, stage: index, microBatch } = first;
    if (writing && !isEvaluation) {
      passed = asWritten({ stage, idle: gathering.idle }, writing, (block) => work(microBatch, block)).then(() =>
        tell(first),
      );
      return;
    }
    if (op === 'R' || !stage.units) {
      work(microBatch);
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
  const { idle } = gathering;
  const idleBefore = idle.seconds;
  await throttle.run(kind, submit, settled, () => idle.seconds - idleBefore);
  await passed;
}

/** Which actions of a list are done together: of a layered stage all micro-batches of a pass, when the last one's turn has come. */
export class PassList {
  readonly #role: Pick<Role, 'plan' | 'peer'>;
  readonly #isEvaluation: boolean;
  #waiting: ComputeAction[] = [];

  constructor(role: Pick<Role, 'plan' | 'peer'>, isEvaluation: boolean) {
    this.#role = role;
    this.#isEvaluation = isEvaluation;
  }

  /** Those that are done with this one, ascending; null: it waits for others. */
  with(action: ComputeAction): readonly ComputeAction[] | null {
    const { plan, peer } = this.#role;
    const stage = plan.stages[action.stage];
    const member = stage?.members.find((one) => one.peer === peer);
    if (!stage?.layered || !member || this.#isEvaluation) return [action];
    this.#waiting.push(action);
    const isWhole = passesOf(stage, member).some((pass) => pass.length === this.#waiting.length);
    return isWhole ? this.#waiting.splice(0) : null;
  }
}
