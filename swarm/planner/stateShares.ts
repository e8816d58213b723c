/**
 * Splits a state over peers with unequal room so that the largest share is least. Its one idea: a common water level.
 * Every peer takes the level, or its whole room where that is less; the level is the one at which the state is placed.
 */

/** Of each peer, in the order of the rooms; null where they do not hold the state. */
export function levelShares(rooms: readonly number[], state: number): number[] | null {
  let left = state;
  let peers = rooms.length;
  let level = 0;
  for (const room of rooms.toSorted((a, b) => a - b)) {
    level = left / peers;
    if (room >= level) return rooms.map((own) => Math.min(own, level));
    left -= Math.max(0, room);
    peers--;
  }
  return null;
}
