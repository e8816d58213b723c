import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, expect, it, vi } from 'vitest';
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';
import { watchSilence } from './silence.ts';

afterEach(() => vi.useRealTimers());

it('letting many go leaves turns for others', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  let ended = 0;
  // Each takes 15 ms of this process's time.
  const donor = {
    expire: (): void => {
      ended += 1;
      vi.advanceTimersByTime(15);
    },
  };
  const stop = watchSilence(new Set(Array.from({ length: 10 }, () => ({ ...donor }))));
  vi.advanceTimersByTime(SILENCE.lookMs);
  const seen = [ended];
  while (ended < 10) {
    await nextTurn();
    seen.push(ended);
  }
  stop();
  expect(seen).toEqual([2, 4, 6, 8, 10]);
});
