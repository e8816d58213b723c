import type { Status } from '@nats-io/transport-node';
import { expect, it } from 'vitest';
import { Reconnects } from './natsJournal.ts';

it('what a broken connection leaves without an answer is given up when it is back, and nothing else is', async () => {
  const said: (() => void)[] = [];
  async function* status(): AsyncGenerator<Status> {
    for (const type of ['disconnect', 'reconnect'] as const) {
      await new Promise<void>((resolve) => said.push(resolve));
      yield { type, server: 'nats://h' };
    }
  }
  const reconnects = new Reconnects({ status });
  const settled: string[] = [];
  const asked = reconnects.answer(new Promise(() => {})).catch((error: Error) => settled.push(error.name));
  expect(await reconnects.answer(Promise.resolve('at once'))).toBe('at once');
  said.shift()?.();
  await expect.poll(() => said.length).toBe(1);
  expect(settled).toEqual([]);
  said.shift()?.();
  await asked;
  expect(settled).toEqual(['TimeoutError']);
});
