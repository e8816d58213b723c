import { expect, test } from 'vitest';
import { asWritten } from './compute.ts';
import type { Stage } from './engine.ts';
import { IdleMeter } from './idleMeter.ts';

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

test('a forward goes block by block, each when its values are written, and counts as idle what it stood still for', async () => {
  let seconds = 0;
  const now = () => seconds;
  const idle = new IdleMeter(now);
  const write: (() => void)[] = [];
  const [second = null, third = null] = [0, 1].map((index) => new Promise<void>((resolve) => (write[index] = resolve)));
  // The GPU is done with each block as soon as it has it.
  const stage = { settled: () => Promise.resolve() } as Pick<Stage, 'settled'> as Stage;
  const done: number[] = [];
  let isOver = false;
  void asWritten({ stage, idle }, [null, second, third, null], (block) => done.push(block)).then(() => {
    isOver = true;
  });
  await turns();
  expect(done).toEqual([0]);
  seconds = 2;
  write[1]?.();
  await turns();
  expect(done).toEqual([0]); // in its order
  seconds = 5;
  write[0]?.();
  await turns();
  expect([done, isOver, idle.seconds]).toEqual([[0, 1, 2, 3], true, 5]);
});
