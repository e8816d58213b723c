/** Quantities in the words of people: counts with their noun, sizes with their unit, layers counted from 1. */

import { rounded } from './base.ts';

const GROUPED = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
/** `4,000`: a whole number as people read it. */
export const groupedText = (value: number): string => GROUPED.format(value);

/** 1 stage, 2 stages, 4,000 steps. */
export const counted = (count: number, noun: string): string =>
  `${groupedText(count)} ${noun}${count === 1 ? '' : noun.endsWith('h') ? 'es' : 's'}`;

/** `3.25 s`, `12.4 ms`, `0.95 ms`, `7.1 µs`: so many digits in a unit that is read at a glance, however short it is. */
export function secondsText(seconds: number, digits = 3): string {
  const [scale, unit] = seconds === 0 || seconds >= 1 ? [1, 's'] : seconds >= 1e-4 ? [1e3, 'ms'] : [1e6, 'µs'];
  return `${rounded(seconds * scale, digits)} ${unit}`;
}

/** Tokens a second: `1234`, `0.42`; a slow swarm's are not 0. */
export const speedText = (tokensPerSecond: number): string =>
  tokensPerSecond >= 10 ? String(Math.round(tokensPerSecond)) : rounded(tokensPerSecond, 2);

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

/** 40 s, 12 min, 3 h 05 min: as exact as anyone needs to know how long to wait. */
export function durationText(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, '0')} min` : `${Math.round(hours / 24)} days`;
}
