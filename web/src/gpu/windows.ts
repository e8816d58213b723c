/** Arrays that kernels work on element by element: what of them is bound where a device does not bind all at once. */
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';

/** WebGPU binds at multiples of so many bytes. */
const ALIGNED_BYTES = 256;
/** A norm's blocks of all its partials (sumSquares.ts): parts of so many floats go on where the one before ended. */
const WHOLE_FLOATS = 65_536;

/** Elements of a part: a window over as many fits, wherever it begins. */
export function partElements(bindingBytes: number, elementBytes = 4): number {
  const most = Math.floor((bindingBytes - ALIGNED_BYTES) / elementBytes);
  const whole = most >= WHOLE_FLOATS ? WHOLE_FLOATS : ALIGNED_BYTES / 2;
  return Math.max(whole, most - (most % whole));
}

/** First element and length of each part of an array of `n` elements; one where it is bound whole. */
export function parts(
  n: number,
  bindingBytes: number,
  elementBytes = 4,
): { readonly from: number; readonly length: number }[] {
  const most = elementBytes * n <= bindingBytes ? n : partElements(bindingBytes, elementBytes);
  const found: { from: number; length: number }[] = [];
  for (let from = 0; from < n; from += most) found.push({ from, length: Math.min(most, n - from) });
  return found;
}

interface Window {
  readonly slice: BufferSlice;
  /** Of the first element in it. */
  readonly at: number;
}

/** Binds elements `at` to `at + length` of a buffer: the whole buffer where that can be. */
export function windowOf(
  buffer: GPUBuffer,
  { at, length }: { readonly at: number; readonly length: number },
  bindingBytes: number,
  elementBytes = 4,
): Window {
  if (buffer.size <= bindingBytes) return { slice: { buffer }, at };
  const offset = Math.floor((at * elementBytes) / ALIGNED_BYTES) * ALIGNED_BYTES;
  const inside = at - offset / elementBytes;
  const size = Math.ceil(((inside + length) * elementBytes) / 4) * 4;
  return { slice: { buffer, offset, size }, at: inside };
}
