import { expect, test } from 'vitest';
import { nextState } from './events.ts';
import { diagnostics, withoutAddresses } from './help.tsx';
import { remembered } from './history.ts';
import { INITIAL_STATE } from './state.ts';

test('no address is handed on, a browser’s version is', () => {
  const text = 'lost 192.168.1.20:4000, [2001:db8::8a2e:370:7334], fe80:0:0:0:1:2:3:4 at 12:30:45; Chrome/140.0.0.0';
  expect(withoutAddresses(text)).toBe('lost [address]:4000, [[address]], [address] at 12:30:45; Chrome/140.0.0.0');
  const failed = nextState(INITIAL_STATE, { type: 'failed', reason: 'internal', detail: 'no way to 10.0.0.7' });
  const handed = diagnostics(remembered(INITIAL_STATE, failed, { wallMs: 0, monotonicMs: 0 }), 'Chrome/140.0.0.0', 0);
  expect(handed).not.toContain('10.0.0.7');
  expect(handed).toContain('Chrome/140.0.0.0');
  expect(handed).toContain('1970-01-01T00:00:00.000Z Failed: Something went wrong on this page.');
});
