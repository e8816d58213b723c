/**
 * Half floats (IEEE 754 binary16) for the CPU references of the packing kernels, by the definition: eleven significant
 * bits, ties to even, steps of 2⁻²⁴ below 2⁻¹⁴. Finite values saturate; infinity and NaN stay what they are, so that a
 * step whose numbers are broken does not pass for a sound one.
 */
export const LARGEST_HALF = 65_504;
const LEAST_NORMAL = 2 ** -14;
const INFINITY_BITS = 0x7c00;
const NAN_BITS = 0x7e00;

export function halfBits(value: number): number {
  if (Number.isNaN(value)) return NAN_BITS;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (!Number.isFinite(value)) return sign | INFINITY_BITS;
  const magnitude = Math.abs(value);
  const step = stepAt(magnitude);
  const rounded = Math.min(roundToEven(magnitude / step) * step, LARGEST_HALF);
  if (rounded < LEAST_NORMAL) return sign | (rounded / 2 ** -24);
  const exponent = Math.floor(Math.log2(rounded));
  return sign | ((exponent + 15) << 10) | ((rounded / 2 ** exponent - 1) * 1024);
}

export function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -24 : (1 + mantissa / 1024) * 2 ** (exponent - 15));
}

/** Distance of neighbouring halves around a magnitude. */
const stepAt = (magnitude: number): number => 2 ** (Math.floor(Math.log2(Math.max(magnitude, LEAST_NORMAL))) - 10);

export function roundToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
}
