/** How answers are counted for the dashboard. */
import { expect, test } from 'vitest';
import { AnswerFigures } from './answerFigures.ts';

test('figures are of the newest five minutes, or of as long as there has been a server', () => {
  let nowMs = 1_000;
  const counted: string[] = [];
  const counts = { tokenAnswered: (by: string) => void counted.push(by), sentAway: () => void counted.push('away') };
  const figures = new AnswerFigures(counts, () => nowMs);
  expect(figures.numbers).toMatchObject({ tokensPerSecond: 0, firstTokenSeconds: { median: null, most: null } });
  for (let i = 1; i <= 20; i++) figures.tokenAnswered('donors', i);
  for (let i = 0; i < 20; i++) figures.tokenAnswered('server', null);
  for (let i = 0; i < 4; i++) figures.worked(0.5, 2);
  figures.sentAway();
  nowMs += 10_000;
  expect(figures.numbers).toEqual({
    ...{ tokensPerSecond: 4, sentAway: 1, donorShare: 0.1 },
    firstTokenSeconds: { median: 10, most: 19 },
  });
  nowMs += 290_001;
  expect(figures.numbers).toMatchObject({ tokensPerSecond: 0, sentAway: 0, donorShare: 0 });
  expect(counted).toHaveLength(41);
});
