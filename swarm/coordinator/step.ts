import type { CoordinatorEvent, CoordinatorState, Effect } from './state.ts';
export function step(_state: CoordinatorState, _event: CoordinatorEvent, _now: number): [CoordinatorState, Effect[]] {
  throw new Error('not written yet');
}
