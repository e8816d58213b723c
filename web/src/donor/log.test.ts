import { expect, test } from 'vitest';
import { diagnostics, logged, withoutAddresses } from './log.ts';
import { INITIAL_STATE, nextState } from './state.ts';

test('a change of the headline is logged once, with its time; changes of numbers are not', () => {
  const clicked = logged(INITIAL_STATE, nextState(INITIAL_STATE, { type: 'donateClicked' }), 1_000);
  expect(clicked.log).toEqual([{ atMs: 1_000, text: 'Starting: Opening the GPU.' }]);
  const same = nextState(clicked, { type: 'otherTabsSeen', count: 1 });
  expect(logged(clicked, same, 2_000).log).toHaveLength(1);
});

test('the log is bounded', () => {
  let state = INITIAL_STATE;
  for (let round = 0; round < 200; round++) {
    const failed = nextState(state, { type: 'failed', reason: 'internal', detail: `number ${round}` });
    state = logged(state, failed, round);
    state = logged(state, nextState(state, { type: 'donateClicked' }), round);
  }
  expect(state.log).toHaveLength(100);
  expect(state.log.at(-2)?.text).toContain('(number 199)');
});

test('no address is handed on, a browser’s version is', () => {
  const text = 'lost 192.168.1.20:4000, [2001:db8::8a2e:370:7334], fe80:0:0:0:1:2:3:4 at 12:30:45; Chrome/140.0.0.0';
  expect(withoutAddresses(text)).toBe('lost [address]:4000, [[address]], [address] at 12:30:45; Chrome/140.0.0.0');
  const failed = nextState(INITIAL_STATE, { type: 'failed', reason: 'internal', detail: 'no way to 10.0.0.7' });
  const handed = diagnostics(logged(INITIAL_STATE, failed, 0), 'Chrome/140.0.0.0', 0);
  expect(handed).not.toContain('10.0.0.7');
  expect(handed).toContain('Chrome/140.0.0.0');
  expect(handed).toContain('1970-01-01T00:00:00.000Z Stopped: This page failed while it computed.');
});
