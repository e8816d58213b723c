import { expect, test } from 'vitest';
import { fileProgress } from './progress.ts';

test('a long file is reported now and then and at its end, a short one never', () => {
  const lines: string[] = [];
  let nowMs = 0;
  const progress = fileProgress(
    (line) => lines.push(line),
    () => nowMs,
  );
  for (const [ms, share] of [
    [100, 0.5],
    [200, 1],
  ] as const) {
    nowMs = ms;
    progress('tokenising', 'short.txt', share);
  }
  for (let percent = 0; percent <= 100; percent++) {
    nowMs += 73;
    progress('tokenising', 'long.txt', percent / 100);
  }
  expect(lines).toEqual([
    'tokenising long.txt: 24 %',
    'tokenising long.txt: 52 %',
    'tokenising long.txt: 80 %',
    'tokenising long.txt: 100 %',
  ]);
});
