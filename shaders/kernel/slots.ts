/** Words for a kernel's binding table, so that it reads as one line for each slot. */
import type { DimSlot, TensorSlot, Width } from './kernel.ts';

export const read = <Name extends string>(name: Name, type: TensorSlot['type'] = 'f32'): TensorSlot<Name> => ({
  name,
  access: 'read',
  type,
});
export const readWrite = <Name extends string>(name: Name, type: TensorSlot['type'] = 'f32'): TensorSlot<Name> => ({
  name,
  access: 'readWrite',
  type,
});
/** A tensor that may be kept in halves (inHalves.ts). */
export const half = <Name extends string>(slot: TensorSlot<Name>): TensorSlot<Name> => ({ ...slot, half: true });
/** One that is read so many numbers at once, whatever the lanes are. */
export const by = <Name extends string>(width: Width, slot: TensorSlot<Name>): TensorSlot<Name> => ({ ...slot, width });
export const u32 = <Name extends string>(name: Name): DimSlot<Name> => ({ name, type: 'u32' });
export const f32 = <Name extends string>(name: Name): DimSlot<Name> => ({ name, type: 'f32' });
