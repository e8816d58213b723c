/** Whom a run threw out for what it did, or convicted: the newest ones, for the report of a training. */
import type { PeerId } from '../../swarm/base.ts';
import type { Conviction } from '../../swarm/coordinator/events.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import type { RunObserver } from './runObserver.ts';

const MOST_KEPT = 100;

/** `atStep`: the step then being done. */
export interface RefusedDonor {
  readonly peer: PeerId;
  readonly atStep: number;
  readonly reason: RefusalReason;
}

export class RefusedDonors implements RunObserver {
  newest: readonly RefusedDonor[] = [];
  convictions: readonly Conviction[] = [];

  effect(effect: Parameters<NonNullable<RunObserver['effect']>>[0]): void {
    if (effect.type === 'convicted') {
      const { type: _, ...conviction } = effect;
      this.convictions = [...this.convictions, conviction].slice(-MOST_KEPT);
    }
    if (effect.type !== 'refuse' || effect.reason === 'runFinished' || effect.reason === 'convicted') return;
    const { peer, atStep, reason } = effect;
    this.newest = [...this.newest, { peer, atStep, reason }].slice(-MOST_KEPT);
  }
}
