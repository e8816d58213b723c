/**
 * The simulator's clock: a heap of (time, event number). Events of one instant come out together; sums of the same
 * durations in another order differ in their last bits, so an instant is a sliver of time.
 */
import { outside } from '../base.ts';

/** Times closer than this, as a share of the time itself, are one instant. */
const INSTANT = 1e-12;

export interface EventHeap {
  // Typed arrays: an array of numbers that grows and shrinks by one all the time is allocated again and again.
  times: Float64Array;
  events: Int32Array;
  count: number;
}

/** `capacity` is a first guess. */
export const eventHeap = (capacity = 64): EventHeap => ({
  times: new Float64Array(capacity),
  events: new Int32Array(capacity),
  count: 0,
});

export function addEvent(heap: EventHeap, seconds: number, event: number): void {
  if (heap.count === heap.times.length) grow(heap);
  const { times, events } = heap;
  let index = heap.count++;
  while (index > 0) {
    const parent = (index - 1) >> 1;
    const above = times[parent] ?? outside(times, parent);
    if (above <= seconds) break;
    times[index] = above;
    events[index] = events[parent] ?? outside(events, parent);
    index = parent;
  }
  times[index] = seconds;
  events[index] = event;
}

/** When the next event of a heap that has one is. */
export const nextSeconds = ({ times }: EventHeap): number => times[0] ?? outside(times, 0);

/** The last time that is one instant with this one. */
export const instantEnd = (seconds: number): number => seconds * (1 + INSTANT);

/** The next event of a heap that has one. */
export function takeEvent(heap: EventHeap): number {
  const { times, events } = heap;
  const first = events[0] ?? outside(events, 0);
  const count = --heap.count;
  const seconds = times[count] ?? outside(times, count);
  let index = 0;
  for (let child = 1; child < count; child = 2 * index + 1) {
    let below = times[child] ?? outside(times, child);
    if (child + 1 < count) {
      const beside = times[child + 1] ?? outside(times, child + 1);
      if (beside < below) {
        below = beside;
        child++;
      }
    }
    if (below >= seconds) break;
    times[index] = below;
    events[index] = events[child] ?? outside(events, child);
    index = child;
  }
  times[index] = seconds;
  events[index] = events[count] ?? outside(events, count);
  return first;
}

function grow(heap: EventHeap): void {
  const { times, events, count } = heap;
  heap.times = new Float64Array(2 * count);
  heap.events = new Int32Array(2 * count);
  heap.times.set(times);
  heap.events.set(events);
}
