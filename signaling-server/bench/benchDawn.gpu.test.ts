import { expect, test } from 'vitest';
import { CommandFailure } from '../commands/failure.ts';
import { inDawn } from './benchDawn.ts';

const SIZE = 2 ** 24;

/** Some hundred megabytes of copies. */
function submitWork(device: GPUDevice): void {
  const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const [from, to] = [device.createBuffer({ size: SIZE, usage }), device.createBuffer({ size: SIZE, usage })];
  const encoder = device.createCommandEncoder();
  for (let i = 0; i < 20; i++) encoder.copyBufferToBuffer(from, 0, to, 0, SIZE);
  device.queue.submit([encoder.finish()]);
}

test('the device is given back when its queue is empty, also where the work failed', async () => {
  const order: string[] = [];
  let lost: Promise<unknown> = Promise.resolve();
  const ended = inDawn('dawn', 'f32', async ({ device }) => {
    submitWork(device);
    void device.queue.onSubmittedWorkDone().then(() => order.push('queue empty'));
    lost = device.lost.then(({ reason }) => order.push(reason));
    throw new Error('the work failed');
  });
  const error = await ended.catch((cause: unknown) => cause);
  if (error instanceof CommandFailure) return console.warn(`skipped: ${error.message}`);
  expect(error).toEqual(new Error('the work failed'));
  await lost;
  expect(order).toEqual(['queue empty', 'destroyed']);
});
