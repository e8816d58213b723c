/**
 * Pipelines of a donor a stage, sought by what they take in a formula: millions of them can be weighed in seconds, where a
 * walk along each one's schedule would take hours. With the overlapping warm-up a chain of p stages takes
 *   (m − 1) · P + W     W: one micro-batch all the way there and back, work, transfers and latencies
 *   P = max over stages and links of (work or transfer of a micro-batch, W_s / (2(p − s) − 1)),
 * where W_s is the way from stage s to the end and back, in which a stage has so many micro-batches in flight at most.
 * Whoever takes a chain judges its draft, as any other (judge.ts): the formula only says where to look.
 */
import { at, float, int, type Random, seededRandom } from '../base.ts';
import type { StageShape } from './clusterCosts.ts';
import { type GroupsAsked, MEETING_PART, MOST_STAGES, weightOf } from './groupsAsked.ts';
import { fitStage, type Keepers } from './stageFit.ts';

/** Moves that are tried for each donor, or for each two of them where that is more, and at most. */
const [TRIES_EACH, TRIES_PAIR, MOST_TRIES] = [8_000, 200, 8_000_000];
/** At first a move that is worth so much less, of all there is, is made one time in e. */
const FIRST_TEMPERATURE = 0.008;
/** Of the moves: from one place to another in the same chain; of the others, who go to another chain in nobody's place. */
const [WITHIN, GOES] = [0.3, 0.4];

/** A walk along the schedule takes up to so many times what the formula says. */
const LONGER = 1.02;

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

const pick = (random: Random, count: number): number => Math.floor(random() * count);

type Places = readonly number[];

function turned(random: Random, chain: Places): [Places, Places] | null {
  if (chain.length < 2) return null;
  const left = [...chain];
  const [goes = 0] = left.splice(pick(random, left.length), 1);
  left.splice(pick(random, left.length + 1), 0, goes);
  return [left, left];
}

/** One goes from the first to any place of the second, or two change places. */
function exchanged(random: Random, from: Places, to: Places): [Places, Places] | null {
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

interface Weigh {
  /** Tokens a second, times the chance where that counts; 0 where it is no chain. */
  (chain: Places): number;
  readonly layers: (chain: Places) => readonly number[];
  /** Layers that a donor has room for with so many micro-batches in flight. */
  readonly most: (place: number, first: boolean, last: boolean, inFlight: number) => number;
}

const NO_KEEPERS: Keepers = new Map();

interface StageRoom {
  readonly most: number;
  /** Seconds of a micro-batch there and back, with so many layers. */
  readonly seconds: Float64Array;
}

function scales(asked: GroupsAsked): Weigh {
  const { costs, roundSeconds, publishedBytes } = asked;
  const { model, peers, sampleBytes } = costs;
  const { samples, sequence } = costs.batch;
  const known = new Map<number, StageRoom>();
  const roomOf = (place: number, first: boolean, last: boolean, inFlight: number): StageRoom => {
    const slots = Math.min(samples, inFlight);
    const key = (place * (2 * MOST_STAGES) + slots) * 4 + (first ? 1 : 0) + (last ? 2 : 0);
    const found = known.get(key);
    if (found) return found;
    const peer = at(peers, place);
    const members = { places: [place], largest: Int32Array.of(1) };
    const inSlots = { slots: Int32Array.of(slots), gathered: 0, inHost: false } as const;
    const seconds = new Float64Array(model.layers + 1).fill(Number.POSITIVE_INFINITY);
    let most = 0;
    for (let layers = 1; layers <= model.layers; layers++) {
      const shape: StageShape = { first, last, layers };
      if (layers === model.layers && !(first && last)) break;
      const { missingBytes, recomputed } = fitStage(costs, members, { shape, ...inSlots }, 'room', NO_KEEPERS);
      if (missingBytes > 0) break;
      most = layers;
      seconds[layers] =
        costs.forwardSeconds(peer, shape, 1) +
        costs.backwardSeconds(peer, shape, 1) +
        at(recomputed, 0) * costs.layerSeconds(peer, 1);
    }
    const made = { most, seconds };
    known.set(key, made);
    return made;
  };
  const rooms: StageRoom[] = [];
  const layers = new Int32Array(MOST_STAGES);

  /** As many layers to each as make the slowest as fast as can be; false where they have no room. */
  const cut = (chain: Places): boolean => {
    const last = chain.length - 1;
    let room = 0;
    for (let stage = 0; stage <= last; stage++) {
      const own = roomOf(at(chain, stage), stage === 0, stage === last, 2 * (last - stage) + 1);
      if (own.most === 0) return false;
      rooms[stage] = own;
      layers[stage] = 1;
      room += own.most;
    }
    if (room < model.layers) return false;
    for (let left = model.layers - chain.length; left > 0; left--) {
      let [best, least] = [-1, Number.POSITIVE_INFINITY];
      for (let stage = 0; stage <= last; stage++) {
        const own = int(layers, stage);
        const { most, seconds } = at(rooms, stage);
        if (own < most && float(seconds, own + 1) < least) [best, least] = [stage, float(seconds, own + 1)];
      }
      layers[best] = int(layers, best) + 1;
    }
    return true;
  };
  const stepSeconds = (chain: Places): number => {
    const last = chain.length - 1;
    const sharedBy = (stage: number): number => (stage === 0 || stage === last ? 1 : 2);
    let [way, pace] = [0, 0];
    for (let stage = last; stage >= 0; stage--) {
      const work = float(at(rooms, stage).seconds, int(layers, stage));
      way += work;
      pace = Math.max(pace, work, way / Math.min(samples, 2 * (last - stage) + 1));
      if (stage === 0) break;
      const [a, b] = [at(chain, stage - 1), at(chain, stage)];
      const { latencySeconds, bytesPerSecond } = costs.linkAt(a, b);
      const [one, other] = [at(peers, a), at(peers, b)];
      const limit = bytesPerSecond ?? Number.POSITIVE_INFINITY;
      const [ours, theirs] = [sharedBy(stage - 1), sharedBy(stage)];
      const there = sampleBytes / Math.min(limit, one.upload, other.download / theirs);
      const home = sampleBytes / Math.min(limit, other.upload, one.download / ours);
      pace = Math.max(pace, there, home, (ours * sampleBytes) / one.upload, (theirs * sampleBytes) / other.upload);
      way += there + home + 2 * latencySeconds;
    }
    return LONGER * ((samples - 1) * pace + way);
  };
  /** A layer's elements stand for all: what the ends have more comes late too, but is no reason to look elsewhere. */
  const elements = at(model.blocks, Math.min(1, model.blocks.length - 1)).elements;
  const late = (chain: Places): number => {
    let most = 0;
    for (const [stage, place] of chain.entries())
      most = Math.max(most, (publishedBytes * elements * int(layers, stage)) / at(peers, place).download);
    return Math.max(0, most - (roundSeconds * MEETING_PART) / 2);
  };
  const weigh = (chain: Places): number => {
    if (chain.length === 0 || chain.length > Math.min(MOST_STAGES, model.layers) || !cut(chain)) return 0;
    const steps = wholeSteps(Math.max(0, roundSeconds - late(chain)) / stepSeconds(chain));
    return (steps * samples * sequence * weightOf(asked, chain)) / roundSeconds;
  };
  return Object.assign(weigh, {
    layers: (chain: Places) => (cut(chain) ? [...layers.subarray(0, chain.length)] : []),
    most: (...stage: Parameters<Weigh['most']>) => roomOf(...stage).most,
  });
}

/** A step that does not end within the round is none; the nearer it comes to that, the more it is worth to go on there. */
const wholeSteps = (steps: number): number => Math.floor(steps) + (steps % 1) ** 3;
