/** Words for a kernel's binding table, so that it reads as one line for each slot. */
import type { DimSlot, TensorSlot } from './kernel.ts';

export const read = (name: string, type: TensorSlot['type'] = 'f32'): TensorSlot => ({ name, access: 'read', type });
export const readWrite = (name: string, type: TensorSlot['type'] = 'f32'): TensorSlot => ({
  name,
  access: 'readWrite',
  type,
});
/** A tensor that may be kept in halves (inHalves.ts). */
export const half = (slot: TensorSlot): TensorSlot => ({ ...slot, half: true });
export const u32 = (name: string): DimSlot => ({ name, type: 'u32' });
export const f32 = (name: string): DimSlot => ({ name, type: 'f32' });
