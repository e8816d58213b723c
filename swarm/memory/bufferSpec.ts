/** One buffer of those that a peer allocates for a plan. */

export interface BufferSpec {
  readonly name: string;
  readonly bytes: number;
  readonly use: 'storage' | 'readback';
}

export const storage = (name: string, floats: number): BufferSpec => ({
  name,
  bytes: Math.max(16, Math.ceil(floats) * 4),
  use: 'storage',
});
export const readback = (name: string, floats: number): BufferSpec => ({ ...storage(name, floats), use: 'readback' });

/** Name of the counter of a stage's or the shards' passes, which is read back behind the values that they made. */
export const PASSES = 'passes';

/** There is no room on the device for what was to be made; the message says so to a person. */
export class NoRoom extends Error {}
