/** How much of what islands share a donor has room for as an owner. */
import type { PeerId } from '../base.ts';
import type { CoordinatorConfig } from '../coordinator/events.ts';
import { OWNER_BYTES } from '../islands/ownerShares.ts';
import { hostBytes, plannedBytes } from '../memory/memory.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan } from '../plan/plan.ts';

/** Elements of the model, in all the memory that it has less what its plan takes (null: it is in none), as in a plan of islands. */
export function ownerRoom(run: CoordinatorConfig, peer: PeerId, memoryBytes: number, plan: Plan | null): number {
  const { wire, compute, batch, train } = run;
  const precision = { sequence: batch.sequence, wire, ...(compute ? { compute } : {}) };
  const taken =
    plan === null ? 0 : plannedBytes(acceptedModel(run), plan, peer, precision) + hostBytes(plan, peer, train.islands);
  return Math.max(0, memoryBytes - taken) / OWNER_BYTES;
}
