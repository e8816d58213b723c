/** One buffer of those that a peer allocates for a plan. */

export interface BufferSpec {
  readonly name: string;
  readonly bytes: number;
  readonly use: 'storage' | 'readback';
  /** Of it, what a kernel has to bind at once; absent: all (boundElements). */
  readonly boundBytes?: number;
}

const bytesOf = (floats: number): number => Math.max(16, Math.ceil(floats) * 4);

export const storage = (name: string, floats: number): BufferSpec => ({ name, bytes: bytesOf(floats), use: 'storage' });
/** Of which kernels bind parts, of so many floats at least. */
export const storageInParts = (name: string, floats: number, boundFloats = 0): BufferSpec => ({
  ...storage(name, floats),
  boundBytes: bytesOf(boundFloats),
});
export const readback = (name: string, floats: number): BufferSpec => ({ ...storage(name, floats), use: 'readback' });

/** Name of the counter of a stage's or the shards' passes, which is read back behind the values that they made. */
export const PASSES = 'passes';

/** There is no room on the device for what was to be made; the message says so to a person. */
export class NoRoom extends Error {}
