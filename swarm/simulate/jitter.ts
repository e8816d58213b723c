/**
 * Seeded delays: |N(0, 1)| times so many seconds. Each is a function of the seed and of what it delays, never of the
 * order in which things happen, so that two schedules of one problem meet with the same weather.
 */
import { normal, seededRandom } from '../base.ts';
import { type Action, MICRO_OPS } from '../schedule/action.ts';

type Delayed = 'computing' | 'travelling';

/** Zero for work of no micro-batch. */
export function jitterSeconds(seed: number, what: Delayed, action: Action, seconds: number): number {
  if (seconds === 0 || !('microBatch' in action)) return 0;
  let hash = mix(seed);
  // A seed may have more than 32 bits.
  for (const part of [
    Math.floor(seed / 2 ** 32),
    MICRO_OPS.indexOf(action.op) * 2 + (what === 'travelling' ? 1 : 0),
    action.stage,
    action.microBatch,
  ])
    hash = mix(hash ^ mix(part + 1));
  return Math.abs(normal(seededRandom(hash))) * seconds;
}

/** Spreads 32 bits over 32 bits (MurmurHash3's finalizer). */
function mix(value: number): number {
  let bits = (value ^ (value >>> 16)) + 0x9e3779b9;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
