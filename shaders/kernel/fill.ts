/** Rules for the inputs of a kernel's cases, where seeded normal values (what every float tensor starts from) will not do. */

/** Whole numbers below `limit`. */
export function fillBelow(array: Float32Array | Uint32Array, limit: number, random: () => number): void {
  for (let i = 0; i < array.length; i++) array[i] = Math.floor(random() * limit);
}
