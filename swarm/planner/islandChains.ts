/**
 * Pipelines of a donor a stage, sought by what they take in a formula (chainScale.ts): by small random moves, as metal is
 * cooled. Whoever takes a chain judges its draft, as any other (judge.ts).
 */
import { at, seededRandom } from '../base.ts';
import { exchanged, type Places, pick, turned } from './chainMoves.ts';
import { scales, type Weigh } from './chainScale.ts';
import type { GroupsAsked } from './groupsAsked.ts';

/** Moves that are tried for each donor, or for each two of them where that is more, and at most. */
const [TRIES_EACH, TRIES_PAIR, MOST_TRIES] = [8_000, 200, 8_000_000];
/** At first a move that is worth so much less, of all there is, is made one time in e. */
const FIRST_TEMPERATURE = 0.008;
/** Of the moves: from one place to another in the same chain. */
const WITHIN = 0.3;

/** A pipeline: who is in which stage, and how many layers each has. */
export interface Chain {
  readonly places: readonly number[];
  readonly layers: readonly number[];
}

export function chainsOf(asked: GroupsAsked): Chain[] {
  const weigh = scales(asked);
  const random = seededRandom(1);
  // The last one is of those without a chain.
  const chains = beginning(asked, weigh);
  const worth = chains.map((chain, index) => (index === chains.length - 1 ? 0 : weigh(chain)));
  let total = worth.reduce((sum, own) => sum + own, 0);
  let [best, most] = [[...chains], total];
  const { length } = asked.costs.peers;
  const count = Math.min(MOST_TRIES, Math.max(TRIES_EACH * length, TRIES_PAIR * length ** 2));
  const worthOf = (index: number, chain: readonly number[]) => (index === chains.length - 1 ? 0 : weigh(chain));
  for (let tries = 0; tries < count; tries++) {
    const a = pick(random, chains.length);
    const b = random() < WITHIN ? a : pick(random, chains.length);
    const moved = a === b ? turned(random, at(chains, a)) : exchanged(random, at(chains, a), at(chains, b));
    if (moved === null) continue;
    const [one, other] = moved;
    const [first, second] = [worthOf(a, one), a === b ? 0 : worthOf(b, other)];
    const gain = first + second - at(worth, a) - (a === b ? 0 : at(worth, b));
    const temperature = FIRST_TEMPERATURE * most * (1 - tries / count) ** 2;
    if (gain < 0 && gain < temperature * Math.log(random())) continue;
    [chains[a], worth[a]] = [one, first];
    if (a !== b) [chains[b], worth[b]] = [other, second];
    total += gain;
    if (total > most) [best, most] = [[...chains], total];
  }
  return best.slice(0, -1).flatMap((places) => (weigh(places) > 0 ? [{ places, layers: weigh.layers(places) }] : []));
}

/** Those of the best lines together, each with as many as hold the model; the roomiest first, for it has most in flight. */
function beginning({ costs }: GroupsAsked, weigh: Weigh): Places[] {
  const { peers, model } = costs;
  const line = (place: number): number => Math.min(at(peers, place).upload, at(peers, place).download);
  const chains: Places[] = [];
  let left: number[] = [];
  for (const place of peers.keys()) {
    if (weigh([place]) > 0) chains.push([place]);
    else if (weigh.most(place, false, false, 1) > 0) left.push(place);
  }
  const room = (place: number): number => weigh.most(place, false, false, FIRST_IN_FLIGHT);
  left = left.toSorted((a, b) => line(b) - line(a) || a - b);
  while (left.length > 0) {
    let [count, layers] = [0, 0];
    // The ends have the embedding and the head too.
    while (count < left.length && layers < FIRST_LAYERS * model.layers) layers += room(at(left, count++));
    const chain = left.slice(0, count).toSorted((a, b) => at(peers, b).memoryBytes - at(peers, a).memoryBytes || a - b);
    chains.push([...chain.slice(0, 1), ...chain.slice(2), ...chain.slice(1, 2)]);
    left = left.slice(count);
  }
  return [...chains, ...Array.from({ length: EMPTY }, (): Places => []), []];
}
const [FIRST_IN_FLIGHT, FIRST_LAYERS, EMPTY] = [8, 1.3, 4];
