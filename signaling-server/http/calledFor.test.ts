/** Which of an operator's calls have to reach the run that they name. */
import { expect, test } from 'vitest';
import { runOfCall } from './calledFor.ts';

test.each([
  ['POST', '/api/operator/command?run=a', 'a'],
  ['GET', '/api/watch?run=a%20b', 'a b'],
  ['GET', '/api/snapshot?x=1&run=a', 'a'],
  ['POST', '/api/operator/samples?run=a', 'a'],
  ['GET', '/api/operator/samples?run=a', undefined],
  ['GET', '/api/operator/steps?run=a&until=3', undefined],
  ['GET', '/api/operator/export?run=a&step=3', undefined],
  ['POST', '/api/operator/activate?run=a', undefined],
  ['GET', '/api/operator/runs?run=a', undefined],
  ['POST', '/api/operator/command', undefined],
])('%s %s is for run %s', (method, url, run) => {
  expect(runOfCall(method, url)).toBe(run);
});
