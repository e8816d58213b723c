import { expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { boundedLog } from './log.ts';

test('of a flood of lines the first ones of each minute are said, then how many were left out', () => {
  let nowMs = 0;
  const said: string[] = [];
  const log = boundedLog(
    (level, text) => said.push(`${level} ${text}`),
    () => nowMs,
  );
  for (let i = 0; i < 10_000; i++) log('info', String(i));
  log('warn', 'another level');
  expect(said).toEqual([...arrayOf(300, (i) => `info ${i}`), 'warn another level']);
  nowMs = 60_000;
  log('info', 'later');
  expect(said.slice(-2)).toEqual(['warn 9700 lines were left out: more than 300 in a minute', 'info later']);
});
