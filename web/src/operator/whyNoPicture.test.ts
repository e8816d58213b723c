import { expect, test } from 'vitest';
import { lostSentence, whyNoPicture } from './whyNoPicture.ts';

test('a server that cannot reach the one that leads is no server that is away', () => {
  const answer = (status: number, type: string) =>
    whyNoPicture({ status, headers: new Headers({ 'content-type': type }) });
  expect(answer(503, 'application/json; charset=utf-8')).toBe('noLeader');
  expect(answer(503, 'text/html')).toBe('closed'); // a proxy's
  expect(whyNoPicture(null)).toBe('closed');
  expect(answer(401, 'application/json')).toBe('loggedOut');
  expect(answer(200, 'application/json')).toBeUndefined();
  expect(lostSentence('noLeader', '10:00')).toBe(
    'This server can’t reach the one that leads the run. Everything below is as it was at 10:00.',
  );
  expect(lostSentence('closed', '10:00')).toMatch(/^The server has not answered since 10:00/);
});
