/**
 * Forwards alone, for an evaluation: nothing is kept for a backward, so what a stage leaves lies there only until the next
 * forward. Where the next stage is the same peer's it follows at once. So the order over all work is by the first of such
 * stages in a row, then by micro-batch, then by stage: needs only point back, and no two lists wait for each other.
 */
import { owner, type Plan, peers } from '../plan/plan.ts';
import type { MicroAction, Schedule } from './action.ts';

export function heldOut(plan: Plan): Schedule {
  const work: { readonly row: number; readonly action: MicroAction }[] = [];
  for (const { id: microBatch } of plan.microBatches) {
    let row = 0;
    for (const stage of plan.stages.keys()) {
      const isSame = stage > 0 && owner(plan, stage, microBatch) === owner(plan, stage - 1, microBatch);
      if (!isSame) row = stage;
      work.push({ row, action: { op: 'F', stage, microBatch } });
    }
  }
  work.sort((a, b) => a.row - b.row || a.action.microBatch - b.action.microBatch || a.action.stage - b.action.stage);
  const lists = new Map(peers(plan).map((peer): [typeof peer, MicroAction[]] => [peer, []]));
  for (const { action } of work) lists.get(owner(plan, action.stage, action.microBatch))?.push(action);
  return lists;
}
