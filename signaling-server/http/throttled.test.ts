import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { throttled } from './throttled.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

test('many requests are one piece of work, and after close there is none', () => {
  const work = vi.fn();
  const { request, close } = throttled(100, work);
  request();
  request();
  vi.advanceTimersByTime(500);
  expect(work).toHaveBeenCalledTimes(1);
  request();
  close();
  // What is closed with it has changed once more, and says so.
  request();
  vi.advanceTimersByTime(500);
  expect(work).toHaveBeenCalledTimes(1);
});
