/** What a plan has to say as its run file does: what is wrong with that, in words, or null. */
import type { Islands } from '../run/runFile.ts';
import type { StateWire } from '../wire.ts';

/** A plan of a part of the run's islands names them. */
export function islandProblem(islands: Islands | undefined, own: readonly number[] | undefined): string | null {
  if (!own) return null;
  const count = islands?.count === 'auto' ? Number.MAX_SAFE_INTEGER : (islands?.count ?? 0);
  const isAscending = own.every((island, place) => place === 0 || island > (own[place - 1] ?? island));
  if (isAscending && own.length > 0 && own.length < count && own.every((island) => island >= 0 && island < count))
    return null;
  return `the plan is of the islands ${own.join(', ')}: some of the ${count} of the run were expected, ascending; of all of them it names none`;
}

export const stateWireProblem = (asked: StateWire | undefined, own: StateWire | undefined): string | null =>
  own === asked ? null : `the plan sends its state as ${own ?? 'f32'}, where the run file says ${asked ?? 'f32'}`;
