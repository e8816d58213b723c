/**
 * The ledger: who carried which tokens. Each token of a step is counted once, shared out over the layers it went
 * through; the ledger is also the donors' credit. Rules CO in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { Plan } from './plan.ts';

export interface LedgerEntry {
  readonly peer: PeerId;
  /** A share of the step's B·T tokens; whole only where the layers divide. */
  readonly tokens: number;
}

/**
 * What each donor earns with one step of this plan, in the order the plan first names it: the sum over its stages of
 * (samples · T) · (layers of the stage) / (layers of the model).
 */
export function stepLedger(plan: Plan, layers: number, sequence: number): LedgerEntry[] {
  const layerTokens = new Map<PeerId, number>();
  for (const { layers: range, members } of plan.stages) {
    for (const { peer, samples } of members) {
      layerTokens.set(peer, (layerTokens.get(peer) ?? 0) + samples * sequence * (range[1] - range[0]));
    }
  }
  return [...layerTokens].map(([peer, tokens]) => ({ peer, tokens: tokens / layers }));
}
