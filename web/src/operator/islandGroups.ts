/** What a snapshot says of islands, in words and numbers for the map. Pure. */
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { PlanInForce } from '../../../swarm/messages/watch.ts';
import { type Sign, signWith } from './signs.ts';

export type IslandGroup = NonNullable<Snapshot['groups']>[number];
type Island = IslandGroup['islands'][number];

/** The islands that the whole run has now, by their numbers; null: it is one swarm. */
export const islandNumbers = ({ groups }: Pick<Snapshot, 'groups'>): readonly number[] | null =>
  groups?.flatMap(({ islands }) => islands.map(({ number }) => number)).toSorted((a, b) => a - b) ?? null;

/** What an island does now, or waits for. */
export function islandSign({ active, donors, islands }: Omit<IslandGroup, 'round'>, island: Island): Sign {
  const { number, innerStep, innerSteps } = island;
  if (donors.length === 0) return signWith('wait', '◔', 'No donors');
  if (number === active) return signWith('good', '●', 'Training');
  // Alone in its group it waits for no turn.
  return innerStep === innerSteps || islands.length === 1
    ? signWith('calm', '✓', 'Awaits the meeting')
    : signWith('calm', '○', 'Awaits its turn');
}

/** `Island 2`, `Islands 1 to 3, by turns`. */
export function groupText({ islands }: Pick<IslandGroup, 'islands'>): string {
  const [first, last] = [islands[0], islands.at(-1)];
  if (first === undefined || last === undefined) return 'No islands';
  return first === last
    ? `Island ${first.number + 1}`
    : `Islands ${first.number + 1} ${islands.length === 2 ? 'and' : 'to'} ${last.number + 1}, by turns`;
}

/** Those whose members are all of this group. */
export const plansOf = <Plan extends Pick<PlanInForce, 'stages'>>(
  { donors }: Pick<IslandGroup, 'donors'>,
  plans: readonly Plan[],
): readonly Plan[] => {
  const own = new Set<string>(donors);
  return plans.filter(({ stages }) => stages.every(({ members }) => members.every(({ peer }) => own.has(peer))));
};
