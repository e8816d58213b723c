import { expect, test } from 'vitest';
import { seededRandom } from '../base.ts';
import { REFUSAL_REASONS, retrySeconds } from './refusals.ts';

test('[SV32] final is what cannot change: protocol, invitation, a block, a conviction', () => {
  const isFinal = REFUSAL_REASONS.filter((reason) => retrySeconds(reason, () => 0) === null);
  expect(isFinal.toSorted()).toEqual(['blocked', 'convicted', 'notInvited', 'wrongProtocol']);
});

test('[SV32] a thousand who are refused in one moment come back spread over half a minute', () => {
  const random = seededRandom(16);
  const seconds = Array.from({ length: 1_000 }, () => retrySeconds('serverFull', random));
  expect(Math.min(...seconds.map(Number))).toBeGreaterThanOrEqual(30);
  expect(Math.max(...seconds.map(Number))).toBeLessThanOrEqual(60);
  for (const second of seconds) expect(seconds.filter((other) => other === second).length).toBeLessThan(100);
});
