import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { planInForceSchema } from '../../../swarm/messages/watch.ts';
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
  expect(adviceOf(run('finished'), []).sentence).toMatch(/export the model/);
});

test('says what would help where much time is idle, or a step takes twice what was predicted', () => {
  const members = [{ peer: 'cccccc', microBatches: [0], samples: 1, recompute: [] }];
  const plan = {
    ...{ epoch: 2, reason: '', schedule: 'gpipe', microBatches: [] },
    stages: [{ layers: [0, 1], members, copies: [] }],
  };
  const parse = planInForceSchema.parse(plan);
  const limit = { epoch: 2, kind: 'compute' as const, peers: [peerId('cccccc')], gain: 0.4 };
  const run = { phase: 'training' as const, donors: [], limit };
  expect(adviceOf(run, [], parse, 0.55).sentence).toBe(
    '55 % of the donors’ time is idle. cccccc in stage 1 holds the step up: with twice its speed it would take 40 % less.',
  );
  for (const other of [0.2, null]) expect(adviceOf(run, [], parse, other).sentence).toBe('Nothing to do.');
  expect(adviceOf({ ...run, limit: { ...limit, gain: 0.05 } }, [], parse, 0.55).sentence).toBe('Nothing to do.');
  const planning = {
    ...{ epoch: 2, reason: '', reasons: [], verdict: null },
    predictedSeconds: 1,
    measuredSeconds: 2.1,
  };
  expect(adviceOf({ ...run, planning }, [], parse, null).sentence).toMatch(/^Steps take more than twice as long/);
});
