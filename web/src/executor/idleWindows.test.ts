/** What is known of a step's waits, from those of the steps before. */
import { expect, test } from 'vitest';
import { IdleWindows } from './idleWindows.ts';

function clocked() {
  let now = 0;
  const windows = new IdleWindows(() => now);
  const pass = (seconds: number): void => {
    now += seconds;
  };
  const wait = async (name: string, seconds: number): Promise<void> => {
    const waited = windows.during(name, Promise.resolve());
    pass(seconds);
    await waited;
  };
  return { windows, pass, wait };
}

test('[AN2] a wait is as long as the shortest of the newest four', async () => {
  const { windows, pass, wait } = clocked();
  await windows.step(async () => {
    for (const seconds of [0.1, 2, 3, 4, 5]) await wait('input', seconds);
    expect(windows.secondsLeft).toBe(0); // something is computed
    const coming = windows.during('input', new Promise(() => {}));
    expect(windows.secondsLeft).toBeCloseTo(2, 9);
    pass(0.5);
    expect(windows.secondsLeft).toBeCloseTo(1.5, 9);
    pass(1.7);
    expect(windows.secondsLeft).toBe(0);
    void coming;
  });
});

test('nothing is known of a first wait; one that lasts far longer than ever is no wait of a step', async () => {
  const { windows, pass } = clocked();
  await windows.step(async () => {
    void windows.during('input', new Promise(() => {}));
    expect(windows.secondsLeft).toBe(0);
    pass(1.3);
    expect(windows.secondsLeft).toBe(Number.POSITIVE_INFINITY);
  });
});

test('[AN2] half updated values answer nothing, until the step is over', async () => {
  const { windows, pass, wait } = clocked();
  await windows.step(async () => {
    await wait('commit', 1);
    windows.updating();
    void windows.during('commit', new Promise(() => {}));
    expect(windows.secondsLeft).toBe(0);
    expect(windows.isUpdating).toBe(true);
  });
  expect(windows.isUpdating).toBe(false);
  pass(9);
  expect(windows.secondsLeft).toBe(Number.POSITIVE_INFINITY);
});
