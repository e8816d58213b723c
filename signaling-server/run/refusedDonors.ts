/** Whom a run threw out for what it did: the newest ones, for the report of a training. */
import { z } from 'zod';
import { peer } from '../../swarm/fields.ts';
import { REFUSAL_REASONS } from '../../swarm/messages/refusals.ts';
import type { RunObserver } from './runObserver.ts';

const MOST_KEPT = 100;

/** `atStep`: the step then being done. */
export const refusedDonorSchema = z.object({ peer, atStep: z.int(), reason: z.enum(REFUSAL_REASONS) });
export type RefusedDonor = Readonly<z.infer<typeof refusedDonorSchema>>;

export class RefusedDonors implements RunObserver {
  newest: readonly RefusedDonor[] = [];

  effect(effect: Parameters<NonNullable<RunObserver['effect']>>[0]): void {
    if (effect.type !== 'refuse' || effect.reason === 'runFinished') return;
    const { peer, atStep, reason } = effect;
    this.newest = [...this.newest, { peer, atStep, reason }].slice(-MOST_KEPT);
  }
}
