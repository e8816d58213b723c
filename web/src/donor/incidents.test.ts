import { expect, test } from 'vitest';
import { recovered, slept } from './incidents.ts';
import { type DonorPhase, type DonorState, INITIAL_STATE } from './state.ts';

/** One phase after the other, a second apart. */
function through(...phases: readonly DonorPhase[]): DonorState {
  let state = INITIAL_STATE;
  for (const [at, phase] of phases.entries()) state = recovered(state, { ...state, phase }, at * 1_000);
  return state;
}
const COMPUTING: DonorPhase = { kind: 'computing' };
const LOST: DonorPhase = { kind: 'reconnecting', reason: 'server' };
const CHECK: DonorPhase = { kind: 'starting', waitsFor: 'check' };

test('a lost server is told of when the tab is let in again, with how long it was away', () => {
  expect(through(COMPUTING, LOST).incident).toBeNull();
  expect(through(COMPUTING, LOST, { ...LOST }, CHECK, { kind: 'joined' }).incident).toEqual({
    atMs: 4_000,
    text: 'The server did not answer for 3 s; then this tab went on by itself.',
  });
});

test('who leaves meanwhile, or is refused, was not brought back', () => {
  for (const phase of [
    { kind: 'left', confirmed: false },
    { kind: 'failed', reason: 'runFinished', detail: '' },
  ] as const) {
    expect(through(COMPUTING, LOST, phase)).toMatchObject({ incident: null, trouble: null });
  }
});

test('a second that took a minute was slept through', () => {
  expect(slept(0, 1_200)).toBeNull();
  expect(slept(1_000, 61_000)?.text).toContain('for 60 s');
});
