/** What must happen next so that what is wanted of this tab becomes true. Pure. */
import { isUsedUp } from './conditions.ts';
import { isMember } from './phase.ts';
import { type DonorState, restReason } from './state.ts';

/** Asked of the server; stop: done here, at once. */
export function due(state: DonorState): 'pause' | 'resume' | 'stop' | null {
  const { phase, pending, preferences, today } = state;
  if (phase.kind === 'paused' && !phase.connected) return restReason(state) === null ? 'resume' : null;
  if (!isMember(state) || pending === 'leave' || (phase.kind === 'spare' && phase.finished)) return null;
  if (isUsedUp(preferences, today)) return 'stop';
  const isResting = pending === 'pause' || (phase.kind === 'paused' && pending !== 'resume');
  const wantsRest = restReason(state) !== null;
  if (wantsRest === isResting) return null;
  return wantsRest ? 'pause' : 'resume';
}
