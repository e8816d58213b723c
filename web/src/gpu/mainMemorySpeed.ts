/**
 * How fast this worker does what state in main memory needs of it: the very loops of hostShards.ts, over more than a core's
 * caches hold. Not what a read-back or a write to the GPU takes beside them: those go by the bus.
 */
import { adamwScalars } from '../../../shaders/update/adamw.ts';
import { adamwInMemory } from '../../../shaders/update/adamwInMemory.ts';
import type { Profile } from '../../../swarm/messages/profile.ts';
import { addTo, sumOfSquares } from './hostShards.ts';

/** With values, moments and sums 4 MiB. */
const ELEMENTS = 262_144;
/** The first one finds code that is not compiled yet; of the others the least counts: whatever else runs makes one longer. */
const ROUNDS = 5;
/** Clocks of workers go in steps of up to a millisecond: a round takes many, or so many repeats by a clock that stands. */
const ROUND_SECONDS = 0.01;
const MOST_REPEATS = 20;
/** Of an update that is only timed: any. */
export const TIMED_SCALARS = adamwScalars({
  ...{ learningRate: 1e-3, clipScale: 1, weightDecay: 0.1, update: 1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8 },
});

/** Seconds of an element; `now` in seconds. */
export function mainMemorySpeed(now: () => number): NonNullable<Profile['mainMemory']> {
  const plane = (value: number): Float32Array => new Float32Array(ELEMENTS).fill(value);
  const arrays = { values: plane(0.5), grads: plane(0), m: plane(0), v: plane(0) };
  const gradient = plane(1e-3);
  const seconds = (work: () => void): number => {
    const times = Array.from({ length: ROUNDS }, () => {
      const begun = now();
      for (let repeats = 1; ; repeats++) {
        work();
        const passed = now() - begun;
        if (passed >= ROUND_SECONDS || repeats === MOST_REPEATS) return passed / repeats;
      }
    });
    return Math.max(0, Math.min(...times)) / ELEMENTS;
  };
  let squares = 0;
  const sumSeconds = seconds(() => {
    addTo(arrays.grads, 0, gradient);
    squares += sumOfSquares(arrays.grads);
  });
  const updateSeconds = seconds(() => adamwInMemory(arrays, [0, ELEMENTS], Number.isFinite(squares), TIMED_SCALARS));
  return { sumSeconds, updateSeconds };
}
