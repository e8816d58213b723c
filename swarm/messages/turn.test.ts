import { expect, test } from 'vitest';
import { PEER_EXAMPLES } from '../testing/messageExamples.ts';
import { decodePeerMessage } from './messages.ts';
import { MOST_TURN_ERRORS, TURN_URL_LIMIT, turnUrls } from './turn.ts';

test('TURN servers are named by their URLs alone, so many and so long at most, and so much fits a report', () => {
  const url = `turn:${'t'.repeat(TURN_URL_LIMIT - 5)}`;
  const odd = [{}, { urls: 7 }, { urls: ['stun:s', url, url, `${url}t`, 'turns:t'] }];
  expect(turnUrls(odd)).toEqual([url, 'turns:t']);
  const many = Array.from({ length: 99 }, (_, number) => ({ urls: `turn:${number}` }));
  expect(turnUrls(many)).toHaveLength(MOST_TURN_ERRORS);

  const report = PEER_EXAMPLES.find(({ type }) => type === 'report');
  const isRead = (turnErrors: readonly unknown[]): boolean =>
    decodePeerMessage(JSON.stringify({ ...report, turnErrors })).ok;
  const most = Array.from({ length: MOST_TURN_ERRORS }, () => ({ url, code: 701 }));
  expect(isRead(most)).toBe(true);
  expect(isRead([...most, { url, code: 701 }])).toBe(false);
  for (const wrong of [{ url: `${url}t`, code: 401 }, { url, code: 299 }, { url, code: 800 }, { url, code: 401.5 }, {}])
    expect(isRead([wrong])).toBe(false);
});
