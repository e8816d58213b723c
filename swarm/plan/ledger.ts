/**
 * The ledger: who carried which tokens. Each token of a step is counted once, shared out over the layers it went
 * through; the ledger is also the donors' credit. Rules CO in SPEC.md.
 */
import { addToKey, countIn, got, type PeerId, type Range, totalOf } from '../base.ts';
import type { Plan } from './plan.ts';

export interface LedgerEntry {
  readonly peer: PeerId;
  /** A share of the rows of the step that count; whole only where the layers divide. */
  readonly tokens: number;
}

/**
 * What each donor earns with one step of this plan, in the order the plan first names it: the sum over its stages of
 * (rows of its micro-batches that count) · (layers of the stage) / (layers of the model). `countedIn`: of samples of the step.
 */
export function stepLedger(plan: Plan, layers: number, countedIn: (samples: Range) => number): LedgerEntry[] {
  const counts = new Map(plan.microBatches.map(({ id, samples }) => [id, countedIn(samples)]));
  const layerTokens = new Map<PeerId, number>();
  for (const { layers: range, members } of plan.stages) {
    for (const { peer, microBatches } of members) {
      const counted = totalOf(microBatches, (id) => got(counts, id));
      addToKey(layerTokens, peer, counted * countIn(range));
    }
  }
  return [...layerTokens].map(([peer, tokens]) => ({ peer, tokens: tokens / layers }));
}
