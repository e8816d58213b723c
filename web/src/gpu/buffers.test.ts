/** Buffers past what a device allows are refused by name, and none is made. */
import { expect, test } from 'vitest';
import { type BufferSpec, NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import { BufferSet } from './buffers.ts';

function stub(): { readonly device: GPUDevice; readonly made: number[] } {
  const made: number[] = [];
  const device = {
    limits: { maxBufferSize: 200, maxStorageBufferBindingSize: 100 },
    createBuffer: ({ size }: GPUBufferDescriptor) => {
      made.push(size);
      return {};
    },
  };
  return { device: device as unknown as GPUDevice, made };
}

const storage = (bytes: number): BufferSpec => ({ name: 'values', bytes, use: 'storage' });
const inParts = (bytes: number, boundBytes: number): BufferSpec => ({ ...storage(bytes), boundBytes });
const readback = (bytes: number): BufferSpec => ({ name: 'readback/0', bytes, use: 'readback' });

test('a storage buffer is bound whole or in parts, a readback is not', () => {
  const { device, made } = stub();
  expect(new BufferSet(device, 'layers 0-1', [storage(100), inParts(200, 100), readback(200)]).bytes).toBe(500);
  expect(made).toEqual([100, 200, 200]);
});

test.each([
  [storage(104), 'layers 0-1: 104 bytes of values are bound at once, and this GPU binds at most 100'],
  [inParts(200, 104), 'layers 0-1: 104 bytes of values are bound at once, and this GPU binds at most 100'],
  [inParts(204, 16), 'layers 0-1: values needs a buffer of 204 bytes, and this GPU allows at most 200'],
  [readback(204), 'layers 0-1: readback/0 needs a buffer of 204 bytes, and this GPU allows at most 200'],
])('%j', (large, sentence) => {
  const { device, made } = stub();
  expect(() => new BufferSet(device, 'layers 0-1', [storage(16), large])).toThrow(new NoRoom(sentence));
  expect(made).toEqual([]);
});
