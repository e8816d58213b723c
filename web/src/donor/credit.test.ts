import { expect, test } from 'vitest';
import { credited, creditOf, creditText, lastDays, NO_CREDIT, placeSentence, share } from './credit.ts';

const DAY = '2026-11-21';

test('tokens add up over visits, run by run', () => {
  const one = credited(NO_CREDIT, { run: 'a', tokens: 100, runTokens: 400, day: DAY });
  const two = credited(one, { run: 'b', tokens: 7, runTokens: 7, day: DAY });
  const three = credited(two, { run: 'a', tokens: 50, runTokens: 600, day: '2026-11-22' });
  expect(three.runs).toEqual([
    { run: 'b', tokens: 7, runTokens: 7, firstDay: DAY, lastDay: DAY },
    { run: 'a', tokens: 150, runTokens: 600, firstDay: DAY, lastDay: '2026-11-22' },
  ]);
  expect(three.runs.map(share)).toEqual([1, 0.25]);
  expect(share({ tokens: 0, runTokens: 0 })).toBeNull();
});

test('a run that goes back takes its tokens back, but no more than all', () => {
  const one = credited(NO_CREDIT, { run: 'a', tokens: 100, runTokens: 400, day: DAY });
  expect(credited(one, { run: 'a', tokens: -30, runTokens: 300, day: DAY }).runs[0]?.tokens).toBe(70);
  expect(credited(one, { run: 'a', tokens: -130, runTokens: 300, day: DAY }).runs[0]?.tokens).toBe(0);
});

test('a run that began anew under its name begins anew here', () => {
  const one = credited(NO_CREDIT, { run: 'a', tokens: 100, runTokens: 400, day: DAY });
  const again = credited(one, { run: 'a', tokens: 10, runTokens: 20, day: '2026-12-01' });
  expect(again.runs).toEqual([{ run: 'a', tokens: 10, runTokens: 20, firstDay: '2026-12-01', lastDay: '2026-12-01' }]);
});

test('nobody gave a run more than all it has: then the record is of an earlier one', () => {
  const one = credited(NO_CREDIT, { run: 'a', tokens: 100, runTokens: 400, day: DAY });
  expect(credited(one, { run: 'a', tokens: 10, runTokens: 105, day: DAY }).runs[0]?.tokens).toBe(10);
  expect(credited(one, { run: 'a', tokens: 10, runTokens: 110, day: DAY }).runs[0]?.tokens).toBe(110);
});

test('of a run that went back while nobody looked is kept what it still has', () => {
  // Alone from the start: 130 steps of 128 tokens, then a reload, back to step 100, and 22 steps more.
  const one = credited(NO_CREDIT, { run: 'a', tokens: 16_640, runTokens: 16_640, day: DAY });
  const two = credited(one, { run: 'a', tokens: 2_816, runTokens: 15_616, day: DAY });
  expect(two.runs[0]).toMatchObject({ tokens: 15_616, runTokens: 15_616, firstDay: DAY });
  expect(two.days).toEqual([{ day: DAY, tokens: 15_616 }]);
  // Beside others: 3,000 of 16,640, of which nobody says which were lost.
  const shared = credited(NO_CREDIT, { run: 'a', tokens: 3_000, runTokens: 16_640, day: DAY });
  expect(credited(shared, { run: 'a', tokens: 0, runTokens: 12_800, day: DAY }).runs[0]?.tokens).toBe(3_000);
});

test('days add up over runs, and a chart has those without work too', () => {
  const one = credited(NO_CREDIT, { run: 'a', tokens: 100, runTokens: 400, day: '2026-11-30' });
  const two = credited(one, { run: 'b', tokens: 7, runTokens: 400, day: '2026-11-30' });
  const three = credited(two, { run: 'b', tokens: -9, runTokens: 400, day: '2026-12-02' });
  expect(three.days).toEqual([
    { day: '2026-11-30', tokens: 107 },
    { day: '2026-12-02', tokens: 0 },
  ]);
  expect(lastDays(three.days, '2026-12-01', 3)).toEqual([
    { day: '2026-11-29', tokens: 0 },
    { day: '2026-11-30', tokens: 107 },
    { day: '2026-12-01', tokens: 0 },
  ]);
});

test('a record of version 1 is taken along', () => {
  const kept = { run: 'a', tokens: 1, runTokens: 1, firstDay: DAY, lastDay: DAY };
  expect(creditOf(JSON.stringify({ version: 1, runs: [kept] }))).toEqual({ version: 2, runs: [kept], days: [] });
});

test('what is no record is none', () => {
  const one = credited(NO_CREDIT, { run: 'a', tokens: 1, runTokens: 1, day: DAY });
  expect(creditOf(creditText(one))).toEqual(one);
  for (const text of [null, '', '{', '[]', '{"version":2,"runs":[]}', '{"version":1,"runs":[{"run":"a"}]}']) {
    expect(creditOf(text)).toEqual(NO_CREDIT);
  }
});

test('a place among those who trained today, in a sentence', () => {
  expect(placeSentence({ place: 2, donors: 7, tokens: 12_345 })).toBe(
    'Number 2 of 7 donors today, with 12,345 tokens in this visit.',
  );
  expect(placeSentence({ place: 1, donors: 1, tokens: 1 })).toBe('Nobody else has trained today: 1 token, all yours.');
  expect(placeSentence({ place: null, donors: 3, tokens: 0 })).toBe('None of your steps is done yet today.');
});
