import { expect, test } from 'vitest';
import { adviceOf } from './advice.ts';

test('says first what is to be done: of an alert, of a run without donors, of one that rests', () => {
  const run = (phase: 'training' | 'waiting' | 'paused' | 'finished', isStopped = false) => ({
    phase,
    isStopped,
    donors: [],
  });
  expect(adviceOf(run('training'), [])).toMatchObject({ sign: { word: 'Healthy' }, sentence: 'Nothing to do.' });
  expect(adviceOf(run('training'), [{ kind: 'disk', text: '' }]).sentence).toMatch(/^Make room/);
  // That nobody is there is said as what it is, not as an alert.
  expect(adviceOf(run('waiting'), [{ kind: 'donors', text: '' }]).sign.word).toBe('Needs you');
  expect(adviceOf(run('paused', true), []).sentence).toBe('Press Start when it should go on.');
  // After a fail-over they come by themselves, unless they are missed.
  const back = { ...run('waiting'), isReturning: true as const };
  expect(adviceOf(back, []).sentence).toBe('Nothing to do for the moment: donors come back by themselves.');
  expect(adviceOf(back, [{ kind: 'donors', text: '' }]).sentence).toMatch(/^Share the donor page/);
  // The server holds it up: nobody can resume it.
  expect(adviceOf(run('paused'), [{ kind: 'notSaved', text: '' }]).sentence).toMatch(/^Mend .* goes on by itself\.$/);
  expect(adviceOf(run('finished'), []).sentence).toMatch(/Export the model/);
});
