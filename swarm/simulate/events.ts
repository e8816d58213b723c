/**
 * The simulator's clock: a heap of (time, event number). Events of one instant come out together; sums of the same
 * durations in another order differ in their last bits, so an instant is a sliver of time.
 */

/** Times closer than this, as a share of the time itself, are one instant. */
const INSTANT = 1e-12;

export interface Events {
  readonly add: (seconds: number, event: number) => void;
  /** Gives every event of the next instant to `handle`, also those it adds to it; answers the latest time, or null. */
  readonly runInstant: (handle: (event: number, seconds: number) => void) => number | null;
}

/** `capacity` is a first guess. */
export function eventHeap(capacity = 64): Events {
  // Typed arrays: an array of numbers that grows and shrinks by one all the time is allocated again and again.
  let times = new Float64Array(capacity);
  let events = new Int32Array(capacity);
  let count = 0;
  const at = (index: number): number => times[index] ?? 0;
  const put = (index: number, seconds: number, event: number): void => {
    times[index] = seconds;
    events[index] = event;
  };
  const move = (from: number, to: number): void => put(to, at(from), events[from] ?? 0);
  const grow = (): void => {
    const [olderTimes, olderEvents] = [times, events];
    times = new Float64Array(2 * count);
    events = new Int32Array(2 * count);
    times.set(olderTimes);
    events.set(olderEvents);
  };

  const add = (seconds: number, event: number): void => {
    if (count === times.length) grow();
    let index = count++;
    for (let parent = (index - 1) >> 1; index > 0 && at(parent) > seconds; parent = (index - 1) >> 1) {
      move(parent, index);
      index = parent;
    }
    put(index, seconds, event);
  };
  const take = (): number => {
    const first = events[0] ?? 0;
    count--;
    const seconds = at(count);
    let index = 0;
    for (let child = 1; child < count; child = 2 * index + 1) {
      if (child + 1 < count && at(child + 1) < at(child)) child++;
      if (at(child) >= seconds) break;
      move(child, index);
      index = child;
    }
    put(index, seconds, events[count] ?? 0);
    return first;
  };
  return {
    add,
    runInstant(handle) {
      if (count === 0) return null;
      const until = at(0) * (1 + INSTANT);
      let now = at(0);
      while (count > 0 && at(0) <= until) {
        now = at(0);
        handle(take(), now);
      }
      return now;
    },
  };
}
