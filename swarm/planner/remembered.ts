/**
 * What was lately worked out for a group of peers. Its one idea: a list of places is never changed, and a move hands on
 * those lists that it does not touch, so a list is its own key; who stood in a place lately is asked for again soon.
 */
import type { ClusterCosts } from './clusterCosts.ts';

/** Of each key. */
const MOST_KEPT = 4;

interface Entry<T> {
  readonly group: readonly number[];
  readonly value: T;
}

/** `key` stands for all that the value depends on beside the costs and the group. */
export function remembered<T>() {
  const known = new WeakMap<ClusterCosts, Map<number, Entry<T>[]>>();
  return (costs: ClusterCosts, group: readonly number[], key: number, make: () => T): T => {
    let keys = known.get(costs);
    if (keys === undefined) {
      keys = new Map();
      known.set(costs, keys);
    }
    const entries = keys.get(key) ?? [];
    if (entries.length === 0) keys.set(key, entries);
    const at = entries.findIndex((entry) => entry.group === group);
    const entry = entries[at] ?? { group, value: make() };
    // The latest one stands first.
    for (let index = at < 0 ? Math.min(entries.length, MOST_KEPT - 1) : at; index > 0; index--)
      entries[index] = entries[index - 1] ?? entry;
    entries[0] = entry;
    return entry.value;
  };
}
