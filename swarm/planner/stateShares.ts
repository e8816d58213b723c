/**
 * Splits a state over peers with unequal room so that the largest share is least. Its one idea: a common water level.
 * Every peer takes the level, or its whole room where that is less; the level is the one at which the state is placed.
 */

/** Of each peer, in the order of the rooms; all their rooms where these do not hold the state. */
export function levelShares(rooms: readonly number[], state: number): number[] {
  let left = state;
  let peers = rooms.length;
  for (const room of rooms.toSorted((a, b) => a - b)) {
    const level = left / peers;
    if (room >= level) return rooms.map((own) => Math.min(own, level));
    left -= room;
    peers--;
  }
  return [...rooms];
}
