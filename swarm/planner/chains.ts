/**
 * What groups of donors are sought for, and the chance that one lives to its meeting.
 *
 * Pipelines of a donor a stage for islands: which donors make one, in which order, and who is in none. By small random moves,
 * as metal is cooled (simulated annealing, Kirkpatrick et al. 1983), from pipelines of those with the best lines.
 *
 * A move is weighed in three ways, each dearer than the one before, and is dropped as soon as one says that it is not made.
 * A bound: the slowest line's and all GPUs' work. A formula: with the overlapping warm-up a pipeline of p stages takes about
 *   (m − 1) · P + W     W: one micro-batch all the way there and back, work, transfers and latencies
 *   P = max over stages and links of (work or transfer of a micro-batch, W_s / (2(p − s) − 1)),
 * where W_s is the way from stage s to the end and back, in which a stage has so many micro-batches in flight at most. And,
 * while it is cold, a walk along the schedule (stepTime.ts): a step that would not end within its round is none, so a
 * hundredth that the formula is off may be worth a whole step.
 */

import { arrayOf, at, countIn, float, int, type Random, seededRandom, totalOf } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { OWNERS, publishedBytes, saidBytes } from '../islands/ownerShares.ts';
import { blocksOfStage, type Model, parameters } from '../model/model.ts';
import { SESSION_SECONDS } from './cluster.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';
import { fitStage, type Order, PLAIN, workOrder } from './layout.ts';
import { partOf, secondsOf, writtenOut } from './stepTime.ts';

/** A donor alone, or of lanes, may take so much of a round to receive its part of a meeting; whom it takes longer begins the next one late. */
export const MEETING_PART = 1 / 5;
/** What is waited for at a meeting is taken to be so much of a round's steps while groups are sought. */
const WAITED_PART = 1 / 12;
/** But no less than what the donor in the middle takes for so many layers. */
const WAITED_LAYERS = 2;
/** Stages of a pipeline: with more of them one of its donors is always about to leave. */
const MOST_STAGES = 16;

/** A donor's part of a meeting. */
interface Meets {
  /** Bytes that it sends, and receives, an element of its stages. */
  readonly sent: number;
  readonly received: number;
  /** So long is waited for it. */
  readonly waitedSeconds: number;
  /** So much longer is a meeting for each group more: owners publish to all. */
  readonly groupSeconds: number;
}

export interface GroupsAsked {
  readonly costs: ClusterCosts;
  /** A round's steps. */
  readonly roundSeconds: number;
  readonly meets: Meets;
  /** What a group is worth goes by its tokens times the chance that it lives to its meeting, to this power: 0 is tokens alone. */
  readonly caution: number;
  /** May pipelines have the overlapping warm-up? It takes memory. */
  readonly overlaps: boolean;
}

/** Of leaving, a second, for a donor that stays so long in the mean; 0: nobody says. */
const riskOf = (sessionSeconds: number): number => 1 / (sessionSeconds || SESSION_SECONDS);

/** The chance that nobody of them has left by then. */
export const chanceOfStaying = (sessions: readonly number[], seconds: number): number =>
  Math.exp(-seconds * totalOf(sessions, (session) => riskOf(session)));

export const chanceOfAll = ({ peers }: ClusterCosts, places: readonly number[], seconds: number): number =>
  chanceOfStaying(
    places.map((place) => at(peers, place).sessionSeconds),
    seconds,
  );

/** By which a group's tokens count. */
export const weightOf = ({ costs, roundSeconds, caution }: GroupsAsked, places: readonly number[]): number =>
  caution === 0 ? 1 : chanceOfAll(costs, places, caution * roundSeconds);

/** `others`: groups that a donor sends its packets to, and whose packets it gets; null: to owners, who publish. */
export function meetsOf(
  { model, peers }: ClusterCosts,
  settings: Pick<MeetingSettings, 'exchange' | 'publish'>,
  roundSeconds: number,
  others: number | null,
): Meets {
  const layer = layerElements(model);
  const sent = ((others ?? OWNERS) * saidBytes(settings, layer)) / layer;
  const received = (others === null ? publishedBytes(settings, layer) : others * saidBytes(settings, layer)) / layer;
  const times = peers.map(
    ({ upload, download }) => WAITED_LAYERS * layer * Math.max(sent / upload, received / download),
  );
  const middle = times.sort((a, b) => a - b)[times.length >> 1] ?? 0;
  const waitedSeconds = Math.max(roundSeconds * WAITED_PART, middle);
  const uploads = totalOf(peers, ({ upload }) => upload);
  const groupSeconds = others === null ? publishedBytes(settings, parameters(model)) / uploads : 0;
  return { sent, received, waitedSeconds, groupSeconds };
}

/** What a donor's line carries both ways. */
export const rateBothWays = ({ upload, download }: PlannedPeer): number => Math.min(upload, download);

/** Elements of a layer, and those that a stage of layers computes with. */
const layerElements = ({ blocks }: Model): number => blocks.find(({ name }) => name === 'layer.0')?.elements ?? 1;
export const stageElements = ({ model }: ClusterCosts, layers: readonly [number, number]): number =>
  totalOf(blocksOfStage(model, layers), ({ ranges }) => totalOf(ranges, countIn));

/** Moves that are tried for each donor and each stage of a pipeline of the mean; of who has room for the model alone they count less. */
const [TRIES_STAGE, MOST_TRIES_EACH, ALONE_TRIES] = [1_750, 28_000, 750];
/** From pipelines that were sought for before with another caution: so many times the tries, and not as hot. */
const [AGAIN, COOLER] = [0.5, 0.25];
/** At first a move that is worth less by this part of a group in the mean is made one time in e. */
const FIRST_TEMPERATURE = 0.04;
/** From this part of the tries on moves are walked. */
const COLD = 0.7;
/** Of the moves: from one place to another in the same pipeline. */
const WITHIN = 0.3;
/** Of those between two pipelines: they change their last stages. Of the rest: a donor goes from one to the other, in nobody's place; else two donors change places. */
const [LAST_STAGES, GOES] = [0.3, 0.3];
/** Of all moves: one leaves its pipeline, or begins one alone or with others who have none. */
const ALONE = 0.05;
/** A walk takes up to so many times what the formula says where nothing else is known, and no less than so many times. */
const [LONGER, SHORTER] = [1.02, 0.985];
/** Pipelines that begin without a donor. */
const EMPTY = 4;
/** While pipelines are begun: micro-batches in flight, and layers beside those of the model, for its ends. */
const [FIRST_IN_FLIGHT, FIRST_LAYERS] = [8, 1.3];

type Places = readonly number[];

/** A pipeline: who is in which stage, and how many layers each has. */
export interface Chain {
  readonly places: Places;
  readonly layers: readonly number[];
}

/** `from`: pipelines that were found for the same with another caution. */
export function chainsOf(asked: GroupsAsked, alone: (place: number) => number, from: readonly Chain[] = []): Chain[] {
  const scale = new Scale(asked, alone);
  const isBegun = from.length > 0;
  const begun = isBegun ? from.map(({ places }) => places) : beginning(asked, scale);
  const chains = withOthers(asked.costs, begun);
  const room = totalOf(scale.useful, (place) => int(scale.roomy, place)) / scale.useful.length;
  const each = Math.min(MOST_TRIES_EACH, (TRIES_STAGE * asked.costs.model.layers) / room);
  const tries = totalOf(scale.useful, (place) => (scale.bound([place]) > 0 ? ALONE_TRIES : each));
  const count = Math.round(tries * (isBegun ? AGAIN : 1));
  return annealed(asked, scale, chains, count, isBegun ? COOLER * FIRST_TEMPERATURE : FIRST_TEMPERATURE).flatMap(
    (places) => (scale.worth(places) > 0 ? [{ places, layers: scale.layers(places) }] : []),
  );
}

/** The last one is of those without a pipeline. */
function annealed(
  { costs, meets, roundSeconds }: GroupsAsked,
  scale: Scale,
  chains: Places[],
  count: number,
  hottest: number,
): Places[] {
  const random = seededRandom(1);
  const moves = new Moves(costs, scale, random, chains);
  const last = chains.length - 1;
  /** Of all that is done, what each group more costs: a meeting is longer for it. */
  const share = meets.groupSeconds / (roundSeconds + meets.waitedSeconds);
  const isGroup = (index: number): number => (index !== last && at(chains, index).length > 0 ? 1 : 0);
  let groups = totalOf(chains.keys(), (index) => isGroup(index));
  let total = 0;
  const worth = new Float64Array(chains.length);
  const weighedBy = (weigh: Weigh): Weigh => {
    for (const [index, places] of chains.entries())
      worth[index] = index === last || places.length === 0 ? 0 : weigh(places);
    total = totalOf(worth, (own) => own);
    return weigh;
  };
  let weigh = weighedBy(scale.about);
  let [best, most] = [[...chains], 0];
  for (let tries = 0; tries < count; tries++) {
    const isCold = tries >= COLD * count;
    if (isCold && weigh === scale.about) {
      weigh = weighedBy(scale.worth);
      [best, most] = [[...chains], total * (1 - groups * share)];
    }
    const move = moves.next();
    if (move === null) continue;
    const { a, b, one, other } = move;
    const [hasOne, hasOther] = [a !== last && one.length > 0, b !== a && b !== last && other.length > 0];
    const toll = share * total;
    const more = a === b ? 0 : (hasOne ? 1 : 0) + (hasOther ? 1 : 0) - isGroup(a) - isGroup(b);
    const now = float(worth, a) + (a === b ? 0 : float(worth, b)) + toll * more;
    const temperature = (hottest * total * (1 - tries / count) ** 2) / Math.max(1, groups);
    const least = now + temperature * Math.log(random());
    if ((hasOne ? scale.bound(one) : 0) + (hasOther ? scale.bound(other) : 0) < least) continue;
    if (isCold && (hasOne ? scale.hope(one) : 0) + (hasOther ? scale.hope(other) : 0) < least) continue;
    const first = hasOne ? weigh(one) : 0;
    // Nobody is kept in a pipeline that is none.
    if ((hasOne && first === 0) || first + (hasOther ? scale.bound(other) : 0) < least) continue;
    const second = hasOther ? weigh(other) : 0;
    if ((hasOther && second === 0) || first + second < least) continue;
    total += first + second - now + toll * more;
    worth[a] = first;
    if (a !== b) worth[b] = second;
    move.make();
    groups += more;
    const net = total * (1 - groups * share);
    if (isCold && net > most) [best, most] = [[...chains], net];
  }
  return best.slice(0, -1);
}

const pick = (random: Random, count: number): number => Math.floor(random() * count);

/** Pipelines `a` and `b`, which may be one, as they are after a move. */
interface Move {
  readonly a: number;
  readonly b: number;
  readonly one: Places;
  readonly other: Places;
  readonly make: () => void;
}

/** Random moves of donors from pipeline to pipeline, of which the last one is of those without any. */
class Moves {
  readonly #peers: ClusterCosts['peers'];
  readonly #scale: Scale;
  readonly #random: Random;
  readonly #chains: Places[];
  readonly #idle: number;
  /** Layers that the donors of a new pipeline shall have room for. */
  readonly #layers: number;
  readonly #byLine: readonly number[];
  readonly #rank: Int32Array;
  readonly #chainOf: Int32Array;

  constructor({ peers, model }: ClusterCosts, scale: Scale, random: Random, chains: Places[]) {
    this.#peers = peers;
    this.#scale = scale;
    this.#random = random;
    this.#chains = chains;
    this.#idle = chains.length - 1;
    this.#layers = FIRST_LAYERS * model.layers;
    const line = (place: number): number => rateBothWays(at(peers, place));
    this.#byLine = scale.useful.toSorted((a, b) => line(a) - line(b) || a - b);
    this.#rank = new Int32Array(peers.length);
    for (const [index, place] of this.#byLine.entries()) this.#rank[place] = index;
    this.#chainOf = new Int32Array(peers.length);
    for (const [index, places] of chains.entries()) for (const place of places) this.#chainOf[place] = index;
  }

  next(): Move | null {
    const random = this.#random;
    const place = at(this.#byLine, pick(random, this.#byLine.length));
    const a = int(this.#chainOf, place);
    const from = at(this.#chains, a);
    const kind = random();
    if (kind < ALONE) return this.#alone(place, a);
    if (kind < ALONE + WITHIN && a !== this.#idle) {
      if (from.length < 2) return null;
      const left = this.#into(without(from, place), place);
      return this.#moved(a, a, left, left);
    }
    const mate = this.#near(place);
    const b = int(this.#chainOf, mate);
    if (a === b) return null;
    const to = at(this.#chains, b);
    if (a !== this.#idle && b !== this.#idle && random() < LAST_STAGES) {
      const [here, there] = [from.indexOf(place), to.indexOf(mate)];
      return this.#moved(
        ...([a, b] as const),
        [...from.slice(0, here), ...to.slice(there)],
        [...to.slice(0, there), ...from.slice(here)],
      );
    }
    return b !== this.#idle && random() < GOES
      ? this.#moved(a, b, without(from, place), this.#into(to, place))
      : this.#moved(a, b, instead(from, place, mate), instead(to, mate, place));
  }

  /** One leaves its pipeline, or begins one. */
  #alone(place: number, a: number): Move | null {
    const from = at(this.#chains, a);
    const isSplit = this.#random() < 0.5;
    if (a === this.#idle && !isSplit) return this.#opened(place);
    const b = isSplit ? this.#empty() : this.#idle;
    return b < 0 || a === b || (isSplit && from.length === 1 && a !== this.#idle)
      ? null
      : this.#moved(a, b, without(from, place), [...at(this.#chains, b), place]);
  }

  /** Of those who have no pipeline: as many of about the same lines as hold the model, the roomiest first. */
  #opened(place: number): Move | null {
    const b = this.#empty();
    if (b < 0) return null;
    const { roomy } = this.#scale;
    const found = [place];
    let layers = int(roomy, place);
    for (let tries = 0; layers < this.#layers && tries < 2 * MOST_STAGES; tries++) {
      const mate = this.#near(place);
      if (int(this.#chainOf, mate) !== this.#idle || found.includes(mate) || int(roomy, mate) === 0) continue;
      found.push(mate);
      layers += int(roomy, mate);
    }
    const left = at(this.#chains, this.#idle).filter((own) => !found.includes(own));
    return this.#moved(this.#idle, b, left, roomiestFirst(this.#peers, found));
  }

  /** A donor whose line is about as good more often than another: nobody waits for either then. */
  #near(place: number): number {
    const distance =
      Math.floor(Math.exp(this.#random() * Math.log(this.#byLine.length))) * (this.#random() < 0.5 ? 1 : -1);
    return at(this.#byLine, Math.min(this.#byLine.length - 1, Math.max(0, int(this.#rank, place) + distance)));
  }

  /** A place for a pipeline; -1: there is none. */
  #empty(): number {
    return this.#chains.findIndex(({ length }, index) => length === 0 && index !== this.#idle);
  }

  #into(places: Places, place: number): number[] {
    return places.toSpliced(pick(this.#random, places.length + 1), 0, place);
  }

  #moved(a: number, b: number, one: Places, other: Places): Move {
    return {
      ...{ a, b, one, other },
      make: () => {
        this.#make(a, one);
        if (a !== b) this.#make(b, other);
      },
    };
  }

  #make(index: number, places: Places): void {
    this.#chains[index] = places;
    for (const place of places) this.#chainOf[place] = index;
  }
}

const without = (places: Places, place: number): number[] => places.filter((own) => own !== place);
const instead = (places: Places, one: number, other: number): number[] =>
  places.map((own) => (own === one ? other : own));

/** Tokens a second times the chance that a pipeline lives, where that counts; 0 where it is none. */
type Weigh = (chain: Places) => number;

/** Of a donor at an end or in the middle, with so many micro-batches in flight. */
interface StageRoom {
  readonly most: number;
  /** Of each number of layers. */
  readonly elements: Float64Array;
  /** Of each number of layers: seconds of a micro-batch there and back, and how many layers are computed twice. */
  readonly seconds: Float64Array;
  readonly recomputed: readonly (readonly number[])[];
}

/** What pipelines are worth. Arrays of the pipeline that was cut last serve the next one. */
export class Scale {
  /** By the formula a pipeline is hardly worth more than this, and about this. */
  readonly hope = this.#weighedBy((chain) => SHORTER * this.#stepSeconds(chain));
  readonly about = this.#weighedBy((chain) => LONGER * this.#stepSeconds(chain));
  readonly worth = this.#weighedBy((chain) => this.#walk(chain, this.#layers, this.#rooms));
  /** Donors who may be in a pipeline. */
  readonly useful: readonly number[];
  /** Layers of the middle that each donor has room for, with a few micro-batches in flight. */
  readonly roomy: Int32Array;
  readonly #asked: GroupsAsked;
  readonly #alone: (place: number) => number;
  readonly #walk: ReturnType<typeof walkOf>;
  /** Ticks from a stage to the next one. */
  readonly #hops: number;
  readonly #known: (StageRoom | undefined)[] = [];
  readonly #rooms: StageRoom[] = [];
  readonly #layers = new Int32Array(MOST_STAGES);
  readonly #speeds: Float64Array;
  readonly #lines: Float64Array;
  readonly #roomiest: Int32Array;
  readonly #worthAlone: Float64Array;
  readonly #alive: Float64Array;

  /** `alone`: seconds of a step of a donor without others; Infinity where it has no room. */
  constructor(asked: GroupsAsked, alone: (place: number) => number) {
    const { costs, roundSeconds, caution, overlaps } = asked;
    const { peers, sampleBytes, batch } = costs;
    this.#asked = asked;
    this.#alone = alone;
    this.#walk = walkOf(asked);
    this.#hops = overlaps ? 2 : 1;
    this.#speeds = Float64Array.from(peers, (peer) => 1 / costs.slowness(peer));
    this.#lines = Float64Array.from(peers, ({ upload }) => sampleBytes / upload);
    const ends = [true, false].flatMap((first) => [true, false].map((last) => [first, last] as const));
    this.#roomiest = Int32Array.from(peers, (_, place) =>
      Math.max(...ends.map(([first, last]) => this.most(place, first, last, 1))),
    );
    this.#worthAlone = new Float64Array(peers.length).fill(-1);
    this.#alive = Float64Array.from(peers, ({ sessionSeconds }) => caution * roundSeconds * riskOf(sessionSeconds));
    this.roomy = Int32Array.from(peers, (_, place) => this.most(place, false, false, FIRST_IN_FLIGHT));
    const sends = (place: number): boolean => (batch.samples - 1) * float(this.#lines, place) < roundSeconds;
    this.useful = [...peers.keys()].filter(
      (place) => this.#aloneOf(place) > 0 || (int(this.#roomiest, place) > 0 && sends(place)),
    );
  }

  /** Layers that a donor has room for with so many micro-batches in flight. */
  most(place: number, first: boolean, last: boolean, inFlight: number): number {
    return this.#roomOf(place, first, last, inFlight).most;
  }

  /** Empty where they have no room for the model. */
  layers(chain: Places): readonly number[] {
    return this.#cut(chain) ? [...this.#layers.subarray(0, chain.length)] : [];
  }

  /** Seconds that a pipeline has for steps in a round; null where it is none. */
  ownSeconds(chain: Places): number | null {
    return this.#cut(chain) ? this.#ownSeconds(chain) : null;
  }

  /** A pipeline is worth no more than this. */
  bound(chain: Places): number {
    const { costs, roundSeconds } = this.#asked;
    const { model, batch } = costs;
    const last = chain.length - 1;
    if (last < 0 || last >= MOST_STAGES) return 0;
    if (last === 0) return this.#aloneOf(at(chain, 0));
    let [speed, slowest, line, way, room] = [0, Infinity, 0, 0, 0];
    for (let stage = 0; stage <= last; stage++) {
      const place = at(chain, stage);
      const isEnd = stage === 0 || stage === last;
      room += int(this.#roomiest, place);
      speed += float(this.#speeds, place);
      slowest = Math.min(slowest, float(this.#speeds, place));
      const own = float(this.#lines, place) * (isEnd ? 1 : 2);
      line = Math.max(line, own);
      way += own;
    }
    if (room < model.layers) return 0;
    const pace = Math.max(line, 1 / slowest, model.layers / speed);
    return this.#tokens(chain, wholeSteps(roundSeconds / (SHORTER * ((batch.samples - 1) * pace + way))));
  }

  #weighedBy(seconds: Weigh): Weigh {
    return (chain) => {
      if (chain.length === 1) return this.#aloneOf(at(chain, 0));
      const own = this.#cut(chain) ? this.#ownSeconds(chain) : 0;
      return own > 0 ? this.#tokens(chain, wholeSteps(own / seconds(chain))) : 0;
    };
  }

  #aloneOf(place: number): number {
    if (float(this.#worthAlone, place) < 0) {
      const { costs, meets, roundSeconds } = this.#asked;
      const { download } = at(costs.peers, place);
      const late = Math.max(0, (meets.received * parameters(costs.model)) / download - meets.waitedSeconds);
      this.#worthAlone[place] = this.#tokens(
        [place],
        wholeSteps(Math.max(0, roundSeconds - late) / this.#alone(place)),
      );
    }
    return float(this.#worthAlone, place);
  }

  #tokens(chain: Places, steps: number): number {
    const { costs, roundSeconds } = this.#asked;
    const { samples, sequence } = costs.batch;
    let risk = 0;
    for (const place of chain) risk += float(this.#alive, place);
    return (steps * samples * sequence * Math.exp(-risk)) / roundSeconds;
  }

  #roomOf(place: number, first: boolean, last: boolean, inFlight: number): StageRoom {
    const slots = Math.min(this.#asked.costs.batch.samples, inFlight);
    const key = (place * (2 * MOST_STAGES) + slots) * 4 + (first ? 1 : 0) + (last ? 2 : 0);
    const found = this.#known[key] ?? stageRoom(this.#asked, place, first, last, slots);
    this.#known[key] = found;
    return found;
  }

  /** As many layers to each as make the slowest as fast as can be; false where they have no room. */
  #cut(chain: Places): boolean {
    const { layers: all } = this.#asked.costs.model;
    if (chain.length === 0 || chain.length > Math.min(MOST_STAGES, all)) return false;
    const last = chain.length - 1;
    let [room, speed] = [0, 0];
    for (let stage = 0; stage <= last; stage++) {
      const own = this.#roomOf(at(chain, stage), stage === 0, stage === last, this.#hops * (last - stage) + 1);
      if (own.most === 0) return false;
      this.#rooms[stage] = own;
      room += own.most;
      speed += float(this.#speeds, at(chain, stage));
    }
    if (room < all) return false;
    this.#dealLayers(chain, all / speed);
    return true;
  }

  /** The slowest takes no less than `least`, so that what takes no longer is certainly theirs; the others one at a time. */
  #dealLayers(chain: Places, least: number): void {
    const [rooms, layers] = [this.#rooms, this.#layers];
    let left = this.#asked.costs.model.layers;
    for (let stage = 0; stage < chain.length; stage++) {
      const { most: full, seconds } = at(rooms, stage);
      let own = Math.min(full, Math.max(1, Math.floor(least * float(this.#speeds, at(chain, stage)))));
      while (own > 1 && float(seconds, own) > least) own--;
      layers[stage] = own;
      left -= own;
    }
    for (; left > 0; left--) {
      let [best, soonest] = [-1, Infinity];
      for (let stage = 0; stage < chain.length; stage++) {
        const after = int(layers, stage) + 1;
        const { most: full, seconds } = at(rooms, stage);
        if (after <= full && float(seconds, after) < soonest) [best, soonest] = [stage, float(seconds, after)];
      }
      layers[best] = int(layers, best) + 1;
    }
  }

  /** Of a pipeline that was just cut, by a formula. */
  #stepSeconds(chain: Places): number {
    const { costs } = this.#asked;
    const { peers, sampleBytes, batch } = costs;
    const last = chain.length - 1;
    const sharedBy = (stage: number): number => (stage === 0 || stage === last ? 1 : 2);
    let [way, pace] = [0, 0];
    for (let stage = last; stage >= 0; stage--) {
      const work = float(at(this.#rooms, stage).seconds, int(this.#layers, stage));
      way += work;
      pace = Math.max(pace, work, way / Math.min(batch.samples, this.#hops * (last - stage) + 1));
      if (stage === 0) break;
      const [a, b] = [at(chain, stage - 1), at(chain, stage)];
      const { latencySeconds, bytesPerSecond } = costs.linkAt(a, b);
      const [one, other] = [at(peers, a), at(peers, b)];
      const limit = bytesPerSecond ?? Infinity;
      const [ours, theirs] = [sharedBy(stage - 1), sharedBy(stage)];
      const there = sampleBytes / Math.min(limit, one.upload, other.download / theirs);
      const home = sampleBytes / Math.min(limit, other.upload, one.download / ours);
      pace = Math.max(pace, there, home, (ours * sampleBytes) / one.upload, (theirs * sampleBytes) / other.upload);
      way += there + home + 2 * latencySeconds;
    }
    return (batch.samples - 1) * pace + way;
  }

  /** Of a pipeline that was just cut. Who takes longer to receive than is waited for begins late. */
  #ownSeconds(chain: Places): number {
    const { costs, meets, roundSeconds } = this.#asked;
    let late = 0;
    for (let stage = 0; stage < chain.length; stage++) {
      const { download } = at(costs.peers, at(chain, stage));
      const own = float(at(this.#rooms, stage).elements, int(this.#layers, stage));
      late = Math.max(late, (meets.received * own) / download - meets.waitedSeconds);
    }
    return Math.max(0, roundSeconds - late);
  }
}

/** Seconds of a step of a chain that was just cut, by the walk that drafts are judged by. */
function walkOf({ costs, overlaps }: GroupsAsked) {
  const { samples } = costs.batch;
  const alone = [...costs.peers.keys()].map((place) => ({ group: [place], shares: new Map([[place, 1]]) }));
  const warmup = overlaps ? 'overlap' : 'normal';
  const way = { ...PLAIN, microBatches: samples, schedule: '1f1b', warmup } as const;
  /** Chains of as many stages have the same order of work. */
  const orders: Order[] = [];
  return (chain: Places, layers: Int32Array, rooms: readonly StageRoom[]): number => {
    const { length } = chain;
    const members = chain.map((place) => at(alone, place));
    const draft = { ...way, groups: members.map(({ group }) => group), layers: [...layers.subarray(0, length)] };
    const layout = partOf(costs, draft);
    if (layout === null) return Infinity;
    const order = orders[length] ?? workOrder(layout, draft);
    const written = order.list ? order : { ...order, list: writtenOut(layout, order) };
    orders[length] = written;
    return secondsOf(costs, draft, [layout, written], {
      recomputed: draft.layers.map((own, stage) => at(at(rooms, stage).recomputed, own)),
      shares: members.map(({ shares }) => shares),
      hosted: new Map(),
    });
  };
}

function elementsAt(costs: ClusterCosts, { first, last, layers }: StageShape): number {
  const all = costs.model.layers;
  return stageElements(costs, first ? [0, layers] : last ? [all - layers, all] : [1, 1 + layers]);
}

function stageRoom(
  { costs, meets }: GroupsAsked,
  place: number,
  first: boolean,
  last: boolean,
  slots: number,
): StageRoom {
  const { model, peers } = costs;
  const peer = at(peers, place);
  const members = { places: [place], largest: Int32Array.of(1) };
  const inSlots = { slots: Int32Array.of(slots), gathered: 0, inHost: false } as const;
  const column = () => new Float64Array(model.layers + 1).fill(Infinity);
  const [seconds, elements, twice] = [column(), column(), [[0]]];
  let most = 0;
  for (let layers = 1; layers <= model.layers; layers++) {
    const shape: StageShape = { first, last, layers };
    if (layers === model.layers && !(first && last)) break;
    // Who takes longer to send would keep everybody waiting.
    if (meets.sent * elementsAt(costs, shape) > meets.waitedSeconds * peer.upload) break;
    const { missingBytes, recomputed } = fitStage(
      costs,
      { ...members, known: {} },
      { shape, ...inSlots },
      'room',
      new Map(),
    );
    if (missingBytes > 0) break;
    most = layers;
    twice.push([...recomputed]);
    elements[layers] = elementsAt(costs, shape);
    seconds[layers] =
      costs.forwardSeconds(peer, shape, 1) +
      costs.backwardSeconds(peer, shape, 1) +
      at(recomputed, 0) * costs.layerSeconds(peer, 1);
  }
  return { most, elements, seconds, recomputed: twice };
}

/** A step that does not end within the round is none; the nearer it comes to that, the more it is worth to go on there. */
const wholeSteps = (steps: number): number => Math.floor(steps) + (steps % 1) ** 3;

/** Beside these pipelines some empty ones, and last those who are in none. */
function withOthers({ peers }: ClusterCosts, chains: readonly Places[]): Places[] {
  const used = new Set(chains.flat());
  const idle = [...peers.keys()].filter((place) => !used.has(place));
  return [...chains, ...arrayOf(EMPTY, (): Places => []), idle];
}

/** The second one comes last: the ends have the embedding and the head. */
function roomiestFirst(peers: ClusterCosts['peers'], places: Places): Places {
  const sorted = places.toSorted((a, b) => at(peers, b).memoryBytes - at(peers, a).memoryBytes || a - b);
  return [...sorted.slice(0, 1), ...sorted.slice(2), ...sorted.slice(1, 2)];
}

/** Those of the best lines together, each with as many as hold the model; the roomiest first, for it has most in flight. */
function beginning({ costs }: GroupsAsked, scale: Scale): Places[] {
  const { peers, model } = costs;
  const line = (place: number): number => rateBothWays(at(peers, place));
  const chains: Places[] = [];
  let left: number[] = [];
  for (const place of peers.keys()) {
    if (scale.worth([place]) > 0) chains.push([place]);
    else if (scale.most(place, false, false, 1) > 0) left.push(place);
  }
  left = left.toSorted((a, b) => line(b) - line(a) || a - b);
  while (left.length > 0) {
    let [count, layers] = [0, 0];
    // The ends have the embedding and the head too.
    while (count < left.length && layers < FIRST_LAYERS * model.layers) layers += int(scale.roomy, at(left, count++));
    chains.push(roomiestFirst(peers, left.slice(0, count)));
    left = left.slice(count);
  }
  return chains.filter((places) => scale.worth(places) > 0);
}
