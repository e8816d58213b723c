/**
 * A forward of a stage some of whose values are still being updated in this peer's main memory: it goes block by block, each
 * when its values have come (after Deep Optimizer States, Maurya et al., Middleware '24).
 */
import { got } from '../../../swarm/base.ts';
import type { Stage } from './engine.ts';
import type { IdleMeter } from './idleMeter.ts';
import type { Role } from './role.ts';

/** Of each block of a stage, in the order of its forward: until its values are written; null: they are. */
type Writing = readonly (Promise<void> | null)[];

/** Null: all of the stage's values are there, or it has none by itself (gathering.ts). */
export function writingOf({ stages, shards }: Role, index: number): Writing | null {
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
