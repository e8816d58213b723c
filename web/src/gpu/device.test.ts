/** A browser that has no adapter at first, as after its GPU's process ended. */
import { expect, test } from 'vitest';
import { openDevice } from './device.ts';

/** The first `nulls` times it has none; then one that is too small for any kernel. */
function browserWith(nulls: number) {
  const asked: (GPURequestAdapterOptions | undefined)[] = [];
  const pauses: number[] = [];
  const small = { limits: { maxBufferSize: 1, maxStorageBufferBindingSize: 1, maxStorageBuffersPerShaderStage: 4 } };
  const gpu = {
    requestAdapter: async (options?: GPURequestAdapterOptions) => {
      asked.push(options);
      return asked.length > nulls ? small : null;
    },
  } as unknown as GPU;
  const wait = async (seconds: number): Promise<void> => void pauses.push(seconds);
  return { gpu, asked, pauses, opened: () => openDevice(gpu, 'a browser', { now: () => 0, wait }) };
}

test.each([0, 1, 2])('an adapter that is there after %i answers without one is taken', async (nulls) => {
  const { asked, pauses, opened } = browserWith(nulls);
  expect(await opened()).toMatchObject({
    ok: false,
    reason: expect.stringMatching(/maxStorageBuffersPerShaderStage is 4/),
  });
  expect([asked.length, pauses.length]).toEqual([nulls + 1, nulls]);
});

test('the last time any adapter does; then there is none', async () => {
  const { asked, opened } = browserWith(3);
  expect(await opened()).toMatchObject({ ok: false, reason: expect.stringMatching(/offers no GPU adapter/) });
  expect(asked).toEqual([{ powerPreference: 'high-performance' }, { powerPreference: 'high-performance' }, undefined]);
});
