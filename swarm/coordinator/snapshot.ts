import type { Snapshot } from '../messages.ts';
import type { CoordinatorState } from './state.ts';
export function snapshot(_state: CoordinatorState, _now: number): Snapshot {
  throw new Error('not written yet');
}
