/** What the operator says of a run, to whoever is asked to help with it. */
import { type RunCard, runCardSchema } from '../../swarm/messages/about.ts';
import type { Store } from './store.ts';

/** Null: nothing was said, or by an older version what this one would not take. */
export function cardOf(store: Pick<Store, 'setting'>, run: string): RunCard | null {
  const kept = store.setting(`card ${run}`);
  return kept === null ? null : (runCardSchema.safeParse(JSON.parse(kept)).data ?? null);
}
