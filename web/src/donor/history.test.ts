import { expect, test } from 'vitest';
import { nextState } from './events.ts';
import { remembered } from './history.ts';
import { withoutUnit } from './incidents.ts';
import type { DonorPhase } from './phase.ts';
import { type DonorState, INITIAL_STATE } from './state.ts';

const at = (ms: number) => ({ wallMs: ms, monotonicMs: ms });

test('a change of the headline is logged once, with its time; changes of numbers are not', () => {
  const clicked = remembered(INITIAL_STATE, nextState(INITIAL_STATE, { type: 'donateClicked' }), at(1_000));
  expect(clicked.log).toEqual([{ atMs: 1_000, text: 'Starting: Opening your GPU.' }]);
  const same = nextState(clicked, { type: 'learned', now: { otherTabs: 1 } });
  expect(remembered(clicked, same, at(2_000)).log).toHaveLength(1);
});

test('an incident of the tab is logged once', () => {
  const wrong = withoutUnit('matmul.NN is wrong in the shape {"M":1}: c[0] is 1 on the GPU, 2 on the CPU', 1_000);
  const told = remembered(
    INITIAL_STATE,
    nextState(INITIAL_STATE, { type: 'learned', now: { incident: wrong } }),
    at(1_000),
  );
  expect(told.log.map(({ text }) => text)).toEqual([
    'A part of this GPU (its matrix unit) computes wrong results, so it is not used. The rest is correct, and a little slower. ' +
      '(matmul.NN is wrong in the shape {"M":1}: c[0] is 1 on the GPU, 2 on the CPU)',
  ]);
  expect(remembered(told, nextState(told, { type: 'learned', now: { otherTabs: 1 } }), at(2_000)).log).toHaveLength(1);
});

test('the log is bounded', () => {
  let state = INITIAL_STATE;
  for (let round = 0; round < 200; round++) {
    const failed = nextState(state, { type: 'failed', reason: 'internal', detail: `number ${round}` });
    state = remembered(state, failed, at(round));
    state = remembered(state, nextState(state, { type: 'donateClicked' }), at(round));
  }
  expect(state.log).toHaveLength(100);
  expect(state.log.at(-2)?.text).toContain('(number 199)');
});

/** One phase after the other, a second apart. */
function through(...phases: readonly DonorPhase[]): DonorState {
  let state = INITIAL_STATE;
  for (const [index, phase] of phases.entries()) state = remembered(state, { ...state, phase }, at(index * 1_000));
  return state;
}
const COMPUTING: DonorPhase = { kind: 'computing' };
const LOST: DonorPhase = { kind: 'reconnecting', reason: 'server' };
const CHECK: DonorPhase = { kind: 'starting', waitsFor: 'check' };

test('a lost server is told of when the tab is let in again, with how long it was away', () => {
  expect(through(COMPUTING, LOST).incident).toBeNull();
  expect(through(COMPUTING, LOST, { ...LOST }, CHECK, { kind: 'joined' }).incident).toEqual({
    atMs: 4_000,
    text: 'The server didn’t answer for 3 s. Then this tab went on by itself.',
  });
});

test('that the operator changed runs is no fault of the server', () => {
  const run = (name: string) => ({ name }) as NonNullable<typeof INITIAL_STATE.run>;
  let state: DonorState = { ...INITIAL_STATE, phase: COMPUTING, run: run('whales') };
  state = remembered(state, { ...state, phase: LOST }, at(0));
  state = remembered(state, { ...state, phase: { kind: 'joined' }, run: run('speeches') }, at(2_000));
  expect(state.incident?.text).toBe('The server changed from whales to speeches, and this tab came along.');
});

test('how long it was away is told by the clock that nobody sets', () => {
  let state = remembered(INITIAL_STATE, { ...INITIAL_STATE, phase: LOST }, { wallMs: 86_400_000, monotonicMs: 0 });
  state = remembered(state, { ...state, phase: { kind: 'joined' } }, { wallMs: 3_000, monotonicMs: 6_000 });
  expect(state.incident).toEqual({
    atMs: 3_000,
    text: 'The server didn’t answer for 6 s. Then this tab went on by itself.',
  });
});

test('who leaves meanwhile, or is refused, was not brought back', () => {
  for (const phase of [
    { kind: 'left', handedOver: false },
    { kind: 'failed', reason: 'runFinished', detail: '' },
  ] as const) {
    expect(through(COMPUTING, LOST, phase)).toMatchObject({ incident: null, outage: null });
  }
});

test('progress that goes back is told of, another run’s is not', () => {
  const seen = (run: string, committedSteps: number): DonorState => ({
    ...INITIAL_STATE,
    snapshot: { run, committedSteps } as DonorState['snapshot'], // all that is asked for
  });
  /** What is told when the first is followed by the second, perhaps over a lost connection. */
  const told = (first: DonorState, second: DonorState, isCut = false): string | undefined => {
    let state = remembered(INITIAL_STATE, first, at(0));
    if (isCut) state = remembered(state, { ...state, snapshot: null }, at(500));
    return remembered(state, { ...state, snapshot: second.snapshot }, at(1_000)).incident?.text;
  };
  expect(told(seen('whale', 40), seen('whale', 36))).toMatch(
    /^The run went back from step 40 to step 36, its last save/,
  );
  expect(told(seen('whale', 40), seen('whale', 36), true)).toMatch(/^The run went back from step 40 to step 36/);
  const reloaded = nextState(INITIAL_STATE, { type: 'learned', now: { seen: { run: 'whale', committedSteps: 40 } } });
  expect(told(reloaded, seen('whale', 36))).toMatch(/^The run went back from step 40 to step 36/);
  const withIslands = { ...seen('whale', 36), snapshot: { run: 'whale', committedSteps: 36, groups: [] } };
  expect(told(seen('whale', 40), withIslands as unknown as DonorState)).toMatch(
    /^The run went back from step 40 to step 36: what an island had done since they all met/,
  );
  expect(told(seen('whale', 36), seen('whale', 37))).toBeUndefined();
  expect(told(seen('whale', 40), seen('other', 0))).toBeUndefined();
});
