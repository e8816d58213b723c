/**
 * Pipelines bettered by what a walk along their schedules takes. A step that would not end within its round is none, so a
 * hundredth that the formula of a chain is off (chainScale.ts) may be worth a whole step: moves go on as they do by the
 * formula, and whatever it says is worth it is judged as a draft before it is made.
 */
import { at, seededRandom } from '../base.ts';
import { exchanged, type Places, pick, turned } from './chainMoves.ts';
import { scales, wholeSteps } from './chainScale.ts';
import { type GroupsAsked, weightOf } from './groupsAsked.ts';
import type { Chain } from './islandChains.ts';
import { judge } from './judge.ts';

/** Moves that are looked at for each donor; micro-batches of all drafts that are judged for each, and at most. */
const [TRIES_EACH, WALKED_EACH, MOST_WALKED] = [20_000, 6_400, 1_280_000];
/** At first a move that is worth so much less, of all there is, is made one time in e. */
const FIRST_TEMPERATURE = 0.0005;
/** Of the moves: from one place to another in the same chain. */
const WITHIN = 0.2;
/** A draft may take so much of what is expected of it, by how far the formula was off before it was changed. */
const SHORTER = 0.985;
/** Chains that begin without a donor. */
const EMPTY = 2;

/** A chain as it is judged; worth is in steps, times the chance that it lives where that counts. */
interface Walked {
  readonly places: Places;
  /** Of a walk, over what the formula says. */
  readonly longer: number;
  /** With the part of a step that a round ends in, and without. */
  readonly worth: number;
  readonly whole: number;
}

export function judgedChains(asked: GroupsAsked, from: readonly Chain[]): Chain[] {
  const { costs } = asked;
  const weigh = scales(asked);
  const random = seededRandom(1);
  const walk = walks(asked);
  const unused = (places: Places): Walked => ({ places, longer: 1, worth: 0, whole: 0 });
  const walked = (places: Places): Walked => {
    const timed = weigh.timed(places);
    if (timed === null) return unused(places);
    const seconds = walk.seconds(places, weigh.layers(places));
    const [steps, weight] = [timed.ownSeconds / seconds, weightOf(asked, places)];
    const longer = seconds / timed.stepSeconds;
    return { places, longer, worth: weight * wholeSteps(steps), whole: weight * Math.floor(steps) };
  };
  /** What it is worth at most, made of this chain. */
  const hoped = (places: Places, { longer }: Walked): number => {
    const timed = weigh.timed(places);
    const off = SHORTER * Math.min(1, longer);
    return timed === null ? 0 : weightOf(asked, places) * wholeSteps(timed.ownSeconds / (off * timed.stepSeconds));
  };
  const used = new Set(from.flatMap(({ places }) => places));
  const idle = [...costs.peers.keys()].filter((place) => !used.has(place));
  // The last one is of those without a chain.
  const chains = [
    ...from.map(({ places }) => walked(places)),
    ...Array.from({ length: EMPTY }, () => unused([])),
    unused(idle),
  ];
  const last = chains.length - 1;
  const made = (index: number, places: Places): Walked => (index === last ? unused(places) : walked(places));
  let total = chains.reduce((sum, { worth }) => sum + worth, 0);
  let whole = chains.reduce((sum, own) => sum + own.whole, 0);
  let [best, most] = [[...chains], whole];
  const count = TRIES_EACH * costs.peers.length;
  const budget = Math.min(MOST_WALKED, WALKED_EACH * costs.peers.length);
  for (let tries = 0; tries < count && walk.walked() < budget; tries++) {
    const a = pick(random, chains.length);
    const b = random() < WITHIN ? a : pick(random, chains.length);
    const [one, other] = [at(chains, a), at(chains, b)];
    if (a === b && a === last) continue;
    const moved = a === b ? turned(random, one.places) : exchanged(random, one.places, other.places);
    if (moved === null) continue;
    const [first, second] = moved;
    const left = 1 - Math.max(tries / count, walk.walked() / budget);
    const least = FIRST_TEMPERATURE * total * left ** 2 * Math.log(random());
    const now = one.worth + (a === b ? 0 : other.worth);
    const hope = (a === last ? 0 : hoped(first, one)) + (a === b || b === last ? 0 : hoped(second, other));
    if (hope - now < least) continue;
    const [then, next] = [made(a, first), a === b ? null : made(b, second)];
    const gain = then.worth + (next?.worth ?? 0) - now;
    if (gain < least) continue;
    whole += then.whole + (next?.whole ?? 0) - one.whole - (next ? other.whole : 0);
    total += gain;
    chains[a] = then;
    if (next) chains[b] = next;
    if (whole > most + GAIN) [best, most] = [[...chains], whole];
  }
  return best.flatMap(({ places, whole: steps }) => (steps > 0 ? [{ places, layers: weigh.layers(places) }] : []));
}
/** A gain of less is none: sums in another order differ. */
const GAIN = 1e-9;

/** Steps of chains in seconds, Infinity where their memory does not hold them; and micro-batches of all that were judged. */
function walks({ costs }: GroupsAsked) {
  const known = new Map<string, number>();
  const { samples } = costs.batch;
  return {
    walked: () => known.size * samples,
    seconds(places: Places, layers: readonly number[]): number {
      const key = places.join();
      const found = known.get(key);
      if (found !== undefined) return found;
      const groups = places.map((place) => [place]);
      const order = { schedule: '1f1b', warmup: 'overlap' } as const;
      const judged = judge(costs, { groups, layers, microBatches: samples, ...order }, { mayGather: false });
      const seconds = judged?.seconds ?? Number.POSITIVE_INFINITY;
      known.set(key, seconds);
      return seconds;
    },
  };
}
