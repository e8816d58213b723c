/**
 * The roll-backs of a run, as the store keeps them: one event each. They are read from there and never from a server's
 * memory, because a server that was killed has none.
 */
import { z } from 'zod';
import type { Store } from './store.ts';

const ROLL_BACK_EVENT = 'rollBack';

/** `atStep` was given up, `toStep` is the first one done again. */
const rollBackSchema = z.object({ atStep: z.int(), toStep: z.int(), reason: z.string() });
type RollBack = z.infer<typeof rollBackSchema>;

export function addRollBack(store: Store, run: string, { atStep, toStep, reason }: RollBack, nowMs: number): void {
  store.addEvent(run, ROLL_BACK_EVENT, JSON.stringify({ atStep, toStep, reason }), nowMs, toStep);
}

/** Those since the event of this number (`store.newestEvent()` of an earlier moment). */
export const rollBacksSince = (store: Store, run: string, event: number): RollBack[] =>
  store.events(run, ROLL_BACK_EVENT, event).map((detail) => rollBackSchema.parse(JSON.parse(detail)));
