/** Quantities in the words of people: counts with their noun, sizes with their unit, layers counted from 1. */

/** 1 stage, 2 stages, 2 micro-batches. */
export const counted = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : noun.endsWith('h') ? 'es' : 's'}`;

/** Binary units, as GPUs are sold. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${value.toFixed(unit > 0 && value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A half-open range, counted from 1 as people do: `3`, `3–5`. */
export function rangeText([from, to]: readonly [number, number]): string {
  return to - from === 1 ? `${to}` : `${from + 1}–${to}`;
}

/** `layer 3`, `layers 3–5`. */
export function layersText(range: readonly [number, number]): string {
  return `${range[1] - range[0] === 1 ? 'layer' : 'layers'} ${rangeText(range)}`;
}
