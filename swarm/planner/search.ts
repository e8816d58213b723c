/**
 * The search for the plan of the best predicted step. Drafts are judged by the thousand (draft.ts), so a draft is
 * improved as metal is by cooling (simulated annealing, Kirkpatrick et al. 1983): a random small move that makes the
 * step longer by a part d is made with probability exp(−d / temperature), which falls to 0. It begins among the few
 * most useful peers and lets in more of them, so that what was found with some is where the search with more begins.
 * Cooling the best draft again ends with it again; so the first stages of one good draft are then joined with the last
 * ones of another, and what comes of it is improved (a memetic search, Moscato 1989). Anytime: every better plan is
 * yielded as it is found, so whoever asks may stop; the same drafts in the same order, whatever the machine.
 */
import { at, below, type PeerId, seededRandom, totalOf } from '../base.ts';
import { hasOwnEnds } from '../plan/ends.ts';
import type { Plan } from '../plan/plan.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts, withoutTurns } from './clusterCosts.ts';
import { type Judged, judgeDraft, memoryWithin, planOf, planSketch } from './draft.ts';
import { type Forecast, forecast } from './forecast.ts';
import { mayBeGathered } from './gathering.ts';
import type { Draft, Sketch } from './layout.ts';
import {
  type Around,
  around,
  exchanges,
  neighbour,
  regionsOf,
  spliced,
  starts,
  usefulOrder,
  withOwnEnds,
} from './moves.ts';
import { withinBuffers, withoutReplicas } from './replicas.ts';

/** Drafts that a quick search looks at: so many for one peer, and more as there are more, up to so many. */
const [WORK, GROWTH, MOST_GROWN] = [46_000, 0.12, 128];
/** It ends sooner once it came by so many that were looked at before: what is near is known by then. */
const MOST_REPEATED = 12_000;
/** Peers whom the first coolings see; the next ones see twice as many each time. */
const FEW_PEERS = 32;
/** Peers of one region alone with whom it begins. */
const REGION_PEERS = 8;
/** Numbers of stages that are cooled first. */
const FIELD = 4;
/** It ends after so many drafts, or after so many one after the other that do not help; at its start a move that makes a step longer by `hottest` is made one time in e. */
const COOLING = { tries: 1_000, hottest: 0.1, mostIdle: Infinity };
const CLIMB = { tries: Infinity, hottest: 0, mostIdle: 150 };
/** Climbs from one draft: each next one begins so many moves away, at most. */
const [CLIMBS, MOST_MOVES] = [5, 4];
/** These moves make a step longer by no more than that. */
const MUCH_LONGER = 1.5;
/** Drafts that are kept to be joined, and how often that is done in one round. */
const [MOST_KEPT, JOINED] = [10, 8];
/** What takes longer than so many times the best is not improved by exchanges, nor by peers past so many. */
const [NEAR, MOST_EXCHANGED] = [1.03, 48];
/** Whoever asks has other things to do: after so many drafts it rests. */
const RESTS_EVERY = 20;
/** Drafts that are remembered before all are forgotten. */
const MOST_REMEMBERED = 200_000;
/** A gain less than this part is none: sums in another order differ. */
const GAIN = 1e-9;

export interface Candidate {
  readonly plan: Plan;
  readonly draft: Draft;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
}

/** What one step of the search came to: the best plan so far, how many drafts were looked at, and whether a quick one goes on. */
export interface SearchProgress {
  readonly best: Candidate | null;
  readonly work: number;
  readonly isQuick: boolean;
}

/** A search with what it has found so far. The generator `progress` goes on with it, for as long as it is asked. */
export class Search {
  readonly costs: ClusterCosts;
  /** The best draft found with each number of stages, of those that gather no layers. */
  readonly byStages = new Map<number, Judged>();
  /** The draft that lacks fewest bytes, where none fits. */
  nearest: Judged | null = null;
  /** The best draft that gathers no layers. */
  withoutGathering: Judged | null = null;
  /** The best one whose state lies on GPUs alone. */
  withoutMainMemory: Judged | null = null;
  readonly #inForce: Plan | undefined;
  readonly #order: readonly number[];
  readonly #random = seededRandom(1);
  readonly #mayGather: boolean;
  /** Of the drafts that are looked at, those that lack memory gather. */
  #isGathering = false;
  #gathered: Judged | null = null;
  #best: Candidate | null = null;
  #work = 0;
  #repeated = 0;
  readonly #quickWork: number;
  /** The shortest drafts, to be joined. */
  #kept: Judged[] = [];
  /** What was judged already, by `sketchKey`: what came of it, or the limit past which it takes longer. */
  readonly #judged = new Map<number, Judged | number>();
  /** Drafts that no exchange makes shorter. */
  readonly #settled = new Set<string>();

  constructor({ inForce, ...problem }: ClusterProblem) {
    const costs = clusterCosts(problem);
    this.costs = costs;
    this.#order = usefulOrder(costs);
    this.#quickWork = Math.round(WORK * Math.min(costs.peers.length, MOST_GROWN) ** GROWTH);
    this.#mayGather = costs.gathers && mayBeGathered(costs);
    // Plans are compared without replicas, and without turns: those are placed once one is chosen.
    this.#inForce = inForce && withoutReplicas(withoutTurns(inForce), withinBuffers(costs.model, costs.bufferLimits));
  }

  judge(asked: Sketch, limit = Infinity): Judged | null {
    this.#work++;
    const sketch = withOwnEnds(this.costs, asked);
    if (sketch === null) return null;
    const known = this.byStages.get(sketch.groups.length) ?? null;
    const most = Math.max(limit, known?.seconds ?? Infinity);
    const key = sketchKey(sketch, this.#isGathering);
    const before = this.#judged.get(key) ?? -Infinity;
    // Random moves come by the same drafts again: about half of all, and nearly all where peers are few.
    if (typeof before !== 'number' || most <= before) {
      this.#repeated++;
      return typeof before === 'number' ? null : before;
    }
    const found = judgeDraft(this.costs, sketch, { mayGather: this.#isGathering, limit: most });
    if (this.#judged.size >= MOST_REMEMBERED) this.#judged.clear();
    this.#judged.set(key, found ?? most);
    if (found !== null) this.#note(found, known);
    return found;
  }

  /** The best drafts of each kind so far; `known` is the best one with as many stages. */
  #note(found: Judged, known: Judged | null): void {
    const fits = found.missingBytes === 0;
    if (isShorter(found, this.nearest)) this.nearest = found;
    if (fits && !found.isHosted && isShorter(found, this.withoutMainMemory)) this.withoutMainMemory = found;
    // Drafts that gather are gone on from beside the others.
    if (gathers(found)) {
      if (isShorter(found, this.#gathered)) this.#gathered = found;
      return;
    }
    if (fits && isShorter(found, this.withoutGathering)) this.withoutGathering = found;
    if (isShorter(found, known)) this.byStages.set(found.draft.groups.length, found);
  }

  *progress(): Generator<SearchProgress, void> {
    yield* this.#begun();
    for (let round = 0; this.#best !== null || this.#work < this.#quickWork / 4; round++) {
      // A draft that gathers is gone on from with the best others, and in every second round while it is not much longer.
      const root = this.#gathered;
      const isApart = round % 2 === 1 && root !== null && this.#isHopeful(root);
      if (!isApart && round > 0 && this.#kept.length > 1) {
        yield* this.#joined();
        continue;
      }
      // From the best draft of each number of stages.
      let field = byHeight([...this.byStages.values()]).slice(0, FIELD);
      if (isApart) field = [root];
      else if (root !== null && (field.length === 0 || field.some((other) => isShorter(root, other))))
        field = byHeight([root, ...field]).slice(0, FIELD);
      if (field.length === 0) return;
      yield* this.#cooled(field, FEW_PEERS * 2 ** round);
    }
  }

  get #soFar(): SearchProgress {
    const isQuick = this.#work < this.#quickWork && this.#repeated < MOST_REPEATED;
    return { best: this.#best, work: this.#work, isQuick };
  }

  /** The plan in force, then simple drafts: few peers come first, for many at once are a bad beginning, unless it takes so many. */
  *#begun(): Generator<SearchProgress, void> {
    const [costs, order] = [this.costs, this.#order];
    this.#isGathering = this.#mayGather;
    const known = this.#inForce ? planSketch(costs, this.#inForce) : null;
    const draft = known && this.judge(known)?.draft;
    if (this.#inForce && draft && hasOwnEnds(this.#inForce, costs.own))
      this.#best = fitting(costs, this.#inForce, draft);
    if (this.#best !== null) yield this.#soFar;
    const regions = regionsOf(costs, order);
    const { own } = costs;
    const trusted = own === null ? [] : order.filter((place) => own.has(at(costs.peers, place).id));
    for (const sketches of [
      ...(trusted.length > 0 ? [starts(costs, trusted, [1, FEW_PEERS])] : []),
      starts(costs, order, [1, FEW_PEERS]),
      ...(regions.length > 1 ? regions.map((region) => starts(costs, region, [1, REGION_PEERS])) : []),
      starts(costs, order, [FEW_PEERS + 1, order.length]),
    ]) {
      for (const sketch of sketches) {
        const found = this.judge(sketch, 0);
        // There is a plan as soon as there can be one.
        if (found !== null && this.#best === null) this.#adopt(found);
        if (this.#work % RESTS_EVERY === 0) yield this.#soFar;
      }
      const [root] = byHeight([...this.byStages.values()]);
      for (const one of [root, this.#gathered]) if (one) this.#adopt(one);
      yield this.#soFar;
    }
    this.#isGathering = false;
  }

  /** Cooled drafts among so many peers; the better half of what comes of them goes on, down to one. */
  *#cooled(from: readonly Judged[], peers: number): Generator<SearchProgress, void> {
    const [costs, random] = [this.costs, this.#random];
    for (let field = from; field.length > 0; ) {
      const found: Judged[] = [];
      for (const start of field) {
        this.#isGathering = this.#mayGather && gathers(start);
        const scene = { costs, order: around(costs, this.#order, start.draft, peers), random };
        const { shortest } = yield* this.#annealed(start, scene, COOLING);
        found.push(yield* this.#descended(shortest, scene));
      }
      this.#isGathering = false;
      for (const draft of found) if (!gathers(draft)) this.#keep(draft);
      field = byHeight(found).slice(0, field.length >> 1);
    }
  }

  /** The first stages of one of the best drafts with the last ones of another, a few times, and what comes of that. */
  *#joined(): Generator<SearchProgress, void> {
    const [costs, random, kept] = [this.costs, this.#random, () => at(this.#kept, below(random, this.#kept.length))];
    for (let turn = 0; turn < JOINED; turn++) {
      const [one, other] = [kept(), kept()];
      const sketch = spliced(costs, one.draft, other.draft, random);
      const start = (sketch && this.judge(sketch)) ?? one;
      const members = totalOf(start.draft.groups, ({ length }) => length);
      const order = around(costs, this.#order, start.draft, Math.max(FEW_PEERS, 2 * members));
      this.#keep(yield* this.#climbed(start, { costs, order, random }));
    }
  }

  /** Random moves from a draft; both where they end and the shortest draft that they came by. */
  *#annealed(
    start: Judged,
    scene: Around,
    { tries: most, hottest, mostIdle }: typeof COOLING,
  ): Generator<SearchProgress, { readonly here: Judged; readonly shortest: Judged }> {
    let [here, shortest] = [start, start];
    for (let tries = 0, idle = 0; tries < most && idle < mostIdle; tries++, idle++) {
      if (tries % RESTS_EVERY === 0) yield this.#soFar;
      const sketch = neighbour(scene, here.draft);
      const worse = hottest === 0 ? 0 : -hottest * (1 - tries / most) ** 2 * Math.log(scene.random());
      const next = sketch && this.judge(sketch, here.seconds * Math.exp(worse));
      if (next === null || heightOf(next) - heightOf(here) > worse) continue;
      here = next;
      if (!isShorter(here, shortest)) continue;
      shortest = here;
      idle = 0;
    }
    return { here, shortest };
  }

  /** The best exchange, as long as there is one: among many a random move seldom finds it. */
  *#descended(from: Judged, scene: Around): Generator<SearchProgress, Judged> {
    const order = scene.order.slice(0, MOST_EXCHANGED);
    let here = from;
    for (let before: Judged | null = null; before !== here && this.#isNear(here); ) {
      before = here;
      const { draft } = here;
      if (this.#settled.size === this.#settled.add(JSON.stringify(draft)).size) break;
      for (const sketch of exchanges(this.costs, draft, order)) {
        const next = this.judge(sketch, here.seconds);
        if (next !== null && isShorter(next, here)) here = next;
        if (this.#work % RESTS_EVERY === 0) yield this.#soFar;
      }
    }
    this.#adopt(here);
    yield this.#soFar;
    return here;
  }

  /** What comes of a draft by random moves that make it shorter, changed a little and climbed from again a few times. */
  *#climbed(start: Judged, scene: Around): Generator<SearchProgress, Judged> {
    let here = start;
    for (let climb = 0; climb < CLIMBS; climb++) {
      const found = yield* this.#annealed(climb === 0 ? start : this.#changed(here, scene), scene, CLIMB);
      if (isShorter(found.here, here)) here = found.here;
    }
    return yield* this.#descended(here, scene);
  }

  #changed(from: Judged, scene: Around): Judged {
    let here = from;
    for (let moves = 1 + below(scene.random, MOST_MOVES); moves > 0; moves--) {
      const sketch = neighbour(scene, here.draft);
      const next = sketch && this.judge(sketch, from.seconds * MUCH_LONGER);
      if (next?.missingBytes === 0) here = next;
    }
    return here;
  }

  #keep(found: Judged): void {
    const height = heightOf(found);
    if (found.missingBytes > 0 || this.#kept.some((other) => Math.abs(heightOf(other) - height) < GAIN)) return;
    this.#kept = byHeight([...this.#kept, found]).slice(0, MOST_KEPT);
  }

  /** A draft's plan, with what it really takes. */
  #adopt({ draft, seconds, missingBytes }: Judged): void {
    if (missingBytes > 0 || (this.#best !== null && seconds >= this.#best.forecast.stepSeconds)) return;
    const candidate = candidateOf(this.costs, draft);
    if (candidate !== null && isBetter(candidate, this.#best)) this.#best = candidate;
  }

  /** Beside the best draft that gathers nothing. */
  #isHopeful({ seconds }: Judged): boolean {
    return this.withoutGathering === null || seconds < MUCH_LONGER * this.withoutGathering.seconds;
  }

  #isNear({ seconds, missingBytes }: Judged): boolean {
    return missingBytes === 0 && (this.#best === null || seconds < NEAR * this.#best.forecast.stepSeconds);
  }
}

const CODES = { gpipe: 1, '1f1b': 2, normal: 3, overlap: 4, room: 5, links: 6, hub: 7 } as const;

/** Equal for sketches that are judged alike; for two others by a chance of 2^-53 (two hashes of the same numbers). */
function sketchKey(sketch: Sketch, isGathering: boolean): number {
  const { groups, layers, keepers, inHost = false, microBatches, schedule, warmup = 'normal' } = sketch;
  const { placement = 'room' } = sketch;
  const hash = new Hash();
  for (const group of groups) {
    for (const place of group) hash.add(place);
    hash.add(-1);
  }
  if (layers) for (const own of layers) hash.add(own);
  hash.add(-1);
  if (keepers) for (const place of keepers) hash.add(place);
  hash.add(microBatches === 'sized' ? -1 : microBatches);
  hash.add((inHost ? 1 : 0) + (isGathering ? 2 : 0));
  hash.add(CODES[schedule] + 16 * CODES[warmup] + 256 * CODES[placement]);
  return hash.key;
}

/** Of whole numbers (the mixing of MurmurHash3, twice). */
class Hash {
  #one = 0x2545f491;
  #other = 0x9e3779b9;

  add(value: number): void {
    this.#one = Math.imul(this.#one ^ value, 0x85ebca6b);
    this.#one ^= this.#one >>> 13;
    this.#other = Math.imul(this.#other ^ value, 0xc2b2ae35);
    this.#other ^= this.#other >>> 16;
  }

  get key(): number {
    return (this.#one >>> 0) * 2 ** 21 + (this.#other >>> 11);
  }
}

/** The shortest first. */
const byHeight = (found: readonly Judged[]): Judged[] => found.toSorted((a, b) => heightOf(a) - heightOf(b));

const gathers = ({ draft }: Judged): boolean => draft.gathered.some((whole) => whole > 0);

/** Logarithmic, so that differences are parts; what does not fit stands above everything that does. */
const heightOf = ({ seconds, missingBytes }: Judged): number =>
  missingBytes > 0 ? 1e6 + Math.log(missingBytes) : Math.log(seconds);

const isShorter = (one: Judged, other: Judged | null): boolean => other === null || heightOf(one) < heightOf(other);

const isBetter = (one: Candidate, other: Candidate | null): boolean =>
  other === null || one.forecast.stepSeconds < other.forecast.stepSeconds * (1 - GAIN);

/** Null where its memory, to the byte, is more than its peers have. */
function candidateOf(costs: ClusterCosts, draft: Draft): Candidate | null {
  const drafted = planOf(costs, draft);
  return drafted === null || drafted.missingBytes > 0 ? null : fitting(costs, drafted.plan, draft);
}

function fitting(costs: ClusterCosts, plan: Plan, draft: Draft): Candidate | null {
  const memory = costs.oversized(plan) ? null : memoryWithin(costs, plan);
  return memory && { plan, draft, forecast: forecast(costs, plan), memory };
}
