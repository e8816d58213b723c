import { expect, test } from 'vitest';
import { offReason } from './commands.tsx';

test('no button goes on with a run that waits for its server to save, and each says why', () => {
  expect(offReason(true, false, false)).toBeNull();
  expect(offReason(true, false, true)).toBe('The server can’t save right now. The run goes on by itself when it can.');
  expect(offReason(false, false, true)).toBe('The server doesn’t answer.');
  expect(offReason(true, true, false)).toBe('The server hasn’t answered yet.');
});
