import { expect, test } from 'vitest';
import { Commits } from './commits.ts';

// With islands an island's time is not the step's count.
const scalars = (step: number) => ({ learningRate: step / 10, clipScale: 1, time: 1 });
const { signal } = new AbortController();

test('[CO22] a commit answers its step, whether it arrives before or after it is asked for', async () => {
  const commits = new Commits();
  commits.arrived(1, 4, scalars(4));
  expect(await commits.answer(1, 4, signal)).toEqual(scalars(4));
  const next = commits.answer(1, 5, signal);
  commits.arrived(1, 5, scalars(5));
  expect(await next).toEqual(scalars(5));
});

test('[CO14] a commit of another epoch or step answers nothing', async () => {
  const commits = new Commits();
  const leaving = new AbortController();
  commits.arrived(1, 4, scalars(4));
  const asked = [commits.answer(2, 4, leaving.signal), commits.answer(1, 5, leaving.signal)];
  commits.arrived(1, 6, scalars(6));
  leaving.abort(new Error('left'));
  expect((await Promise.allSettled(asked)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});
