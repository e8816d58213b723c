/** Small random moves of donors within a pipeline and between two, for whoever betters pipelines by them. */
import { at, type Random } from '../base.ts';

/** Of the moves between two pipelines: in nobody's place; in the others two donors change places. */
const GOES = 0.4;

export type Places = readonly number[];

export const pick = (random: Random, count: number): number => Math.floor(random() * count);

/** One goes to another place of its pipeline; null where there is none. */
export function turned(random: Random, chain: Places): [Places, Places] | null {
  if (chain.length < 2) return null;
  const left = [...chain];
  const [goes = 0] = left.splice(pick(random, left.length), 1);
  left.splice(pick(random, left.length + 1), 0, goes);
  return [left, left];
}

/** One goes from the first to any place of the second, or two change places; null where there is nobody to go. */
export function exchanged(random: Random, from: Places, to: Places): [Places, Places] | null {
  if (from.length === 0) return null;
  const [left, right] = [[...from], [...to]];
  const index = pick(random, left.length);
  if (to.length === 0 || random() < GOES) {
    const [goes = 0] = left.splice(index, 1);
    right.splice(pick(random, right.length + 1), 0, goes);
  } else {
    const other = pick(random, right.length);
    [left[index], right[other]] = [at(right, other), at(left, index)];
  }
  return [left, right];
}
