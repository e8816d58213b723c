import { describe, expect, test } from 'vitest';
import { arrayOf } from '../../../swarm/base.ts';
import type { Snapshot, SnapshotPhase } from '../../../swarm/messages/snapshot.ts';
import { OPERATOR_COMMANDS, type WatchedStep } from '../../../swarm/messages/watch.ts';
import { INITIAL_STATE, mergeCurve, nextState, type OperatorState, secondsLeft, whyNot } from './state.ts';

const steps = (from: number, to: number, loss = 1): WatchedStep[] =>
  arrayOf(to - from, (i) => ({
    ...{ step: from + i, loss, tokens: 10, seconds: 2, gradientNorm: 1, learningRate: 0.001 },
    ...{ donors: 2, stages: 2, microBatches: 4, plan: 1, bytesDirect: 100, bytesRelayed: 0 },
  }));
const numbers = (curve: readonly WatchedStep[]): number[] => curve.map(({ step }) => step);

const SNAPSHOT: Snapshot = {
  run: 'r',
  phase: 'training',
  sentence: '',
  generation: 0,
  epoch: 1,
  committedSteps: 0,
  steps: 10,
  loss: null,
  evaluationLoss: null,
  tokensPerSecond: null,
  donors: [],
};
const seen = (state: OperatorState, committedSteps: number, recent: WatchedStep[], run = 'r'): OperatorState =>
  nextState(state, {
    type: 'serverSaid',
    message: { snapshot: { ...SNAPSHOT, run, committedSteps }, recent, events: [] },
  });

describe('an operator’s state', () => {
  test('the curve keeps older steps than the server repeats, each once', () => {
    expect(numbers(mergeCurve(steps(0, 5), steps(3, 7), 7))).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(mergeCurve(steps(0, 5, 1), steps(4, 6, 9), 6).map(({ loss }) => loss)).toEqual([1, 1, 1, 1, 9, 9]);
  });

  test('a roll-back takes steps out of the curve again', () => {
    expect(numbers(mergeCurve(steps(0, 9), steps(0, 4), 4))).toEqual([0, 1, 2, 3]);
    expect(numbers(mergeCurve(steps(0, 9), [], 0))).toEqual([]);
  });

  test('another run has a curve of its own', () => {
    const state = seen(seen(INITIAL_STATE, 3, steps(0, 3)), 1, steps(0, 1), 'other');
    expect(numbers(state.curve)).toEqual([0]);
  });

  test('the time left is the newest steps’ mean times what is to be done', () => {
    expect(secondsLeft(INITIAL_STATE)).toBeNull();
    expect(secondsLeft(seen(INITIAL_STATE, 4, steps(0, 4)))).toBe(12);
    expect(secondsLeft(seen(INITIAL_STATE, 10, steps(0, 10)))).toBeNull();
  });

  test('buttons follow the phase: one way on at most, and each other one says why not', () => {
    const told = (part: Partial<Snapshot>) => {
      const answers = OPERATOR_COMMANDS.map((each) => [each, whyNot(each, { ...SNAPSHOT, ...part })] as const);
      for (const [, why] of answers) if (why !== null) expect(why).toMatch(/^The run .*\.$/);
      return answers.flatMap(([command, why]) => (why === null ? [command] : []));
    };
    const under: SnapshotPhase[] = ['waiting', 'preparing', 'training', 'evaluating', 'saving'];
    for (const phase of under) expect(told({ phase })).toEqual(['pause', 'stop']);
    expect(told({ phase: 'paused' })).toEqual(['resume', 'stop']);
    expect(told({ phase: 'paused', isStopped: true })).toEqual(['start']);
    expect(told({ phase: 'finished' })).toEqual([]);
    expect(told({ phase: 'paused', hasDiverged: true })).toEqual(['resume', 'stop']);
  });

  test('an answer stays until the next command', () => {
    const asked = nextState(INITIAL_STATE, { type: 'commandAsked', command: 'pause' });
    const answered = nextState(asked, { type: 'commandAnswered', ok: true, sentence: 'done' });
    expect([asked.asked, answered.asked, answered.answer?.sentence]).toEqual(['pause', null, 'done']);
    expect(nextState(answered, { type: 'commandAsked', command: 'stop' }).answer).toBeNull();
  });

  test('an answer is gone once the run is as it was told to be, whichever of both comes first', () => {
    const paused = { ...SNAPSHOT, phase: 'paused' } as const;
    const stopped = { ...paused, isStopped: true };
    const cases = [
      ['pause', SNAPSHOT, paused],
      ['resume', paused, SNAPSHOT],
      ['stop', SNAPSHOT, stopped],
      ['stop', paused, stopped],
      ['start', stopped, SNAPSHOT],
    ] as const;
    for (const [command, before, after] of cases) {
      const say = (state: OperatorState, snapshot: Snapshot): OperatorState =>
        nextState(state, { type: 'serverSaid', message: { snapshot, recent: [], events: [] } });
      const answer = (state: OperatorState, ok = true): OperatorState =>
        nextState(state, { type: 'commandAnswered', ok, sentence: 'told' });
      const asked = nextState(say(INITIAL_STATE, before), { type: 'commandAsked', command });
      expect(answer(asked).answer?.sentence, command).toBe('told');
      expect(say(answer(asked), before).answer?.sentence, command).toBe('told');
      expect(say(answer(asked), after).answer, command).toBeNull();
      expect(answer(say(asked, after)).answer, command).toBeNull();
      // A refusal is read, whatever the run does meanwhile.
      expect(say(answer(asked, false), after).answer?.sentence, command).toBe('told');
    }
  });

  test('a stale link, followed by who is in already, is told until another part is looked at', () => {
    const open = nextState(INITIAL_STATE, { type: 'connectionChanged', connection: 'open' });
    const refused = nextState(nextState(open, { type: 'loginAsked' }), { type: 'loginAnswered', problem: 'No.' });
    expect([refused.connection, refused.login.problem]).toEqual(['open', 'No.']);
    expect(nextState(refused, { type: 'sectionChosen', hash: '#swarm' }).login.problem).toBeNull();
  });

  test('a change of runs is told until the server is back, with the new run or without', () => {
    const saw = (state: OperatorState, run: string): OperatorState =>
      nextState(state, { type: 'serverSaid', message: { snapshot: { ...SNAPSHOT, run }, recent: [], events: [] } });
    const changing = nextState(saw(INITIAL_STATE, 'first'), { type: 'changeBegun', run: 'second' });
    expect([changing.changingTo, saw(changing, 'first').changingTo]).toEqual(['second', 'second']);
    const lost = nextState(changing, { type: 'connectionChanged', connection: 'closed' });
    expect(lost.changingTo).toBe('second');
    expect(nextState(lost, { type: 'connectionChanged', connection: 'open' }).changingTo).toBeNull();
    expect(saw(changing, 'second').changingTo).toBeNull();
    // Another dashboard told the server.
    const snapshot = { ...SNAPSHOT, run: 'first', changesTo: 'third' };
    const told = nextState(saw(INITIAL_STATE, 'first'), {
      type: 'serverSaid',
      message: { snapshot, recent: [], events: [] },
    });
    expect(told.changingTo).toBe('third');
  });
});
