/** The machine's clock is set while donors compute: nobody is let go and no step is lost. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RateStore } from '../http/pages.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const DAY_MS = 86_400_000;
const JUMPS_MS = [-3_000, 30_000, DAY_MS, -DAY_MS];
/** Of the server's look for those who are silent. */
const SILENCE_CHECK_MS = 1_000;

let servers: TinyServers;
beforeEach(() => {
  // The monotonic clock and all other timers are the real ones.
  vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] });
  servers = new TinyServers({ steps: 1_000_000 });
});
afterEach(async () => {
  vi.useRealTimers();
  await servers.close();
});

test.each(JUMPS_MS)('a clock that jumps by %i ms: donors stay, steps go on', async (jumpMs) => {
  const server = await servers.serve();
  const donors = [await ScriptedDonor.joined(server.url), await ScriptedDonor.joined(server.url)];
  await donors[1]?.hears('committed');
  const { epoch } = server.run;
  vi.setSystemTime(Date.now() + jumpMs);
  vi.advanceTimersByTime(SILENCE_CHECK_MS);
  const { committedSteps } = server.run;
  await server.run.until((run) => run.committedSteps >= committedSteps + 50);
  for (const { received } of donors)
    expect(received.filter(({ type }) => type === 'refused' || type === 'abandon')).toEqual([]);
  expect({ epoch: server.run.epoch, donors: server.run.snapshot().donors.length }).toEqual({ epoch, donors: 2 });
  // The speed that is shown is of steps, not of the jump.
  expect(server.run.snapshot().tokensPerSecond).toBeGreaterThan(100);
});

test.each(JUMPS_MS)('a limit of calls holds, and ends, whatever the clock says: a jump by %i ms', (jumpMs) => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  const store = new RateStore();
  const call = (caller: string): unknown => {
    let answer: unknown;
    store.incr(caller, (_error, result) => (answer = result), 60_000);
    return answer;
  };
  expect(call('a')).toEqual({ current: 1, ttl: 60_000 });
  vi.advanceTimersByTime(20_000);
  vi.setSystemTime(Date.now() + jumpMs);
  expect(call('a')).toEqual({ current: 2, ttl: 40_000 });
  expect(call('b')).toEqual({ current: 1, ttl: 60_000 });
  vi.advanceTimersByTime(40_000);
  expect(call('a')).toEqual({ current: 1, ttl: 60_000 });
});
