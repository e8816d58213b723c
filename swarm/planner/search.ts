/**
 * The search for the plan of the best predicted step. Drafts are judged by the thousand (draft.ts), so a draft is
 * improved as metal is by cooling (simulated annealing, Kirkpatrick et al. 1983): a random small move that makes the
 * step longer by a part d is made with probability exp(−d / temperature), which falls to 0. It begins among the few
 * most useful peers and lets in more of them, so that what was found with some is where the search with more begins.
 * Cooling the best draft again ends with it again; so the first stages of one good draft are then joined with the last
 * ones of another, and what comes of it is improved (a memetic search, Moscato 1989). Anytime: every better plan is yielded as it is found, so whoever asks may stop; the same drafts in the same
 * order, whatever the machine.
 */
import { at, below, type PeerId, seededRandom } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts, withoutTurns } from './clusterCosts.ts';
import { type Judged, judge, memoryWithin, planOf, type Sketch, sketchOf } from './draft.ts';
import { type Forecast, forecast } from './forecast.ts';
import { mayBeGathered } from './gathering.ts';
import type { Draft } from './layout.ts';
import { type Around, around, exchanges, joined, neighbour, regionsOf, starts, usefulOrder } from './moves.ts';
import { withinBuffers, withoutReplicas } from './replicas.ts';

/** Drafts that are judged where nobody says for how long: so many for one peer, and more as there are more, up to so many. */
const [WORK, GROWTH, MOST_GROWN] = [40_000, 0.12, 128];
/** Peers whom the first coolings see; the next ones see twice as many each time. */
const FEW_PEERS = 32;
/** Peers of one region alone with whom it begins. */
const REGION_PEERS = 8;
/** Numbers of stages that are cooled first. */
const FIELD = 4;
/** It ends after so many drafts, or after so many one after the other that do not help; at its start a move that makes a step longer by `hottest` is made one time in e. */
const COOLING = { tries: 1_000, hottest: 0.1, mostIdle: Number.POSITIVE_INFINITY };
const CLIMB = { tries: Number.POSITIVE_INFINITY, hottest: 0, mostIdle: 150 };
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
/** A gain less than this part is none: sums in another order differ. */
const GAIN = 1e-9;

export interface Candidate {
  readonly plan: Plan;
  readonly draft: Draft;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
}

/** What one step of the search came to: the best plan so far, and how many drafts were judged. */
export interface Progress {
  readonly best: Candidate | null;
  readonly work: number;
}

/** How many drafts a quick search judges. */
export const quickWork = (peers: number): number => Math.round(WORK * Math.min(peers, MOST_GROWN) ** GROWTH);

export interface Search {
  readonly costs: ClusterCosts;
  /** The best draft found with each number of stages. */
  readonly byStages: ReadonlyMap<number, Judged>;
  /** The draft that lacks fewest bytes, where none fits. */
  readonly nearest: () => Judged | null;
  /** The best draft that gathers no layers. */
  readonly withoutGathering: () => Judged | null;
  /** The best one whose state lies on GPUs alone. */
  readonly withoutMainMemory: () => Judged | null;
  readonly judge: (sketch: Sketch) => Judged | null;
  readonly progress: Generator<Progress, void>;
}

export function searchPlan(problem: ClusterProblem): Search {
  const costs = clusterCosts(problem);
  const byStages = new Map<number, Judged>();
  let nearest: Judged | null = null;
  let plain: Judged | null = null;
  let onGpus: Judged | null = null;
  let best: Candidate | null = null;
  let work = 0;
  const mayGather = costs.gathers && mayBeGathered(costs);
  /** Of the drafts that are looked at, those that lack memory gather. */
  let isGathering = false;
  let gathered: Judged | null = null;

  const judged = (sketch: Sketch, limit = Number.POSITIVE_INFINITY): Judged | null => {
    work++;
    const stages = sketch.groups.length;
    const known = byStages.get(stages)?.seconds ?? Number.POSITIVE_INFINITY;
    const found = judge(costs, sketch, {
      mayGather: isGathering,
      limit: Math.max(limit, known),
    });
    if (found === null) return null;
    if (isShorter(found, nearest)) nearest = found;
    const isGathered = gathers(found);
    if (!isGathered && found.missingBytes === 0 && isShorter(found, plain)) plain = found;
    if (!found.isHosted && found.missingBytes === 0 && isShorter(found, onGpus)) onGpus = found;
    // Drafts that gather are gone on from beside the others.
    if (!isGathered && isShorter(found, byStages.get(stages) ?? null)) byStages.set(stages, found);
    if (isGathered && isShorter(found, gathered)) gathered = found;
    return found;
  };
  /** A draft's plan, with what it really takes. */
  const adopt = (found: Judged): void => {
    if (found.missingBytes > 0 || (best !== null && found.seconds >= best.forecast.stepSeconds)) return;
    const candidate = candidateOf(costs, found.draft);
    if (candidate !== null && isBetter(candidate, best)) best = candidate;
  };

  /** Random moves from a draft; both where they end and the shortest draft that they came by. */
  function* annealed(
    start: Judged,
    scene: Around,
    { tries: most, hottest, mostIdle }: typeof COOLING,
  ): Generator<Progress, { readonly here: Judged; readonly shortest: Judged }> {
    let [here, shortest] = [start, start];
    for (let tries = 0, idle = 0; tries < most && idle < mostIdle; tries++, idle++) {
      if (tries % RESTS_EVERY === 0) yield { best, work };
      const sketch = neighbour(scene, here.draft);
      const worse = hottest === 0 ? 0 : -hottest * (1 - tries / most) ** 2 * Math.log(scene.random());
      const next = sketch && judged(sketch, here.seconds * Math.exp(worse));
      if (next === null || heightOf(next) - heightOf(here) > worse) continue;
      here = next;
      if (!isShorter(here, shortest)) continue;
      shortest = here;
      idle = 0;
    }
    return { here, shortest };
  }

  /** The best exchange, as long as there is one: among many a random move seldom finds it. */
  function* descend(from: Judged, order: readonly number[]): Generator<Progress, Judged> {
    let here = from;
    for (let before: Judged | null = null; before !== here && isNear(here); ) {
      before = here;
      const { draft } = here;
      if (settled.size === settled.add(JSON.stringify(draft)).size) break;
      for (const sketch of exchanges(costs, draft, order)) {
        const next = judged(sketch, here.seconds);
        if (next !== null && isShorter(next, here)) here = next;
        if (work % RESTS_EVERY === 0) yield { best, work };
      }
    }
    adopt(here);
    yield { best, work };
    return here;
  }
  /** What comes of a draft by random moves that make it shorter, changed a little and climbed from again a few times. */
  function* climbed(start: Judged, scene: Around): Generator<Progress, Judged> {
    let here = start;
    for (let climb = 0; climb < CLIMBS; climb++) {
      const found = yield* annealed(climb === 0 ? start : changed(here, scene), scene, CLIMB);
      if (isShorter(found.here, here)) here = found.here;
    }
    return yield* descend(here, scene.order.slice(0, MOST_EXCHANGED));
  }
  function changed(from: Judged, scene: Around): Judged {
    let here = from;
    for (let moves = 1 + below(scene.random, MOST_MOVES); moves > 0; moves--) {
      const sketch = neighbour(scene, here.draft);
      const next = sketch && judged(sketch, from.seconds * MUCH_LONGER);
      if (next?.missingBytes === 0) here = next;
    }
    return here;
  }

  /** The shortest drafts, to be joined. */
  let kept: Judged[] = [];
  const keep = (found: Judged): void => {
    if (found.missingBytes > 0 || kept.some((other) => Math.abs(heightOf(other) - heightOf(found)) < GAIN)) return;
    kept = [...kept, found].sort((a, b) => heightOf(a) - heightOf(b)).slice(0, MOST_KEPT);
  };
  const settled = new Set<string>();
  /** Beside the best draft that gathers nothing. */
  const isHopeful = (found: Judged): boolean => plain === null || found.seconds < MUCH_LONGER * plain.seconds;
  const isNear = (found: Judged): boolean =>
    found.missingBytes === 0 && (best === null || found.seconds < NEAR * best.forecast.stepSeconds);

  function* progress(): Generator<Progress, void> {
    const order = usefulOrder(costs);
    const random = seededRandom(1);
    const byHeight = () => [...byStages.values()].sort((a, b) => heightOf(a) - heightOf(b));
    // Plans are compared without replicas, and without turns: those are placed once one is chosen.
    const inForce =
      problem.inForce && withoutReplicas(withoutTurns(problem.inForce), withinBuffers(costs.model, costs.bufferLimits));
    isGathering = mayGather;
    const known = inForce ? sketchOf(costs, inForce) : null;
    const draft = known && judged(known)?.draft;
    if (inForce && draft) best = fitting(costs, inForce, draft);
    if (best !== null) yield { best, work };
    // Few peers come first: many at once are a bad beginning, unless it takes so many.
    const regions = regionsOf(costs, order);
    for (const sketches of [
      starts(costs, order, [1, FEW_PEERS]),
      ...(regions.length > 1 ? regions.map((region) => starts(costs, region, [1, REGION_PEERS])) : []),
      starts(costs, order, [FEW_PEERS + 1, order.length]),
    ]) {
      for (const sketch of sketches) {
        const found = judged(sketch, 0);
        // There is a plan as soon as there can be one.
        if (found !== null && best === null) adopt(found);
        if (work % RESTS_EVERY === 0) yield { best, work };
      }
      const [root] = byHeight();
      for (const one of [root, gathered]) if (one) adopt(one);
      yield { best, work };
    }
    isGathering = false;
    for (let round = 0; best !== null || work < quickWork(order.length) / 4; round++) {
      // A draft that gathers is gone on from with the best others, and in every second round while it is not much longer.
      const root: Judged | null = gathered;
      const isApart = round % 2 === 1 && root !== null && isHopeful(root);
      if (!isApart && round > 0 && kept.length > 1) {
        for (let turn = 0; turn < JOINED; turn++) {
          const [one, other] = [at(kept, below(random, kept.length)), at(kept, below(random, kept.length))];
          const sketch = joined(costs, one.draft, other.draft, random);
          const start = (sketch && judged(sketch)) ?? one;
          const members = start.draft.groups.reduce((sum, { length }) => sum + length, 0);
          const few = around(costs, order, start.draft, Math.max(FEW_PEERS, 2 * members));
          keep(yield* climbed(start, { costs, order: few, random }));
        }
        continue;
      }
      // From the best draft of each number of stages; the better half of what came of them goes on, down to one.
      let field = byHeight().slice(0, FIELD);
      if (isApart) field = [root];
      else if (root !== null && (field.length === 0 || field.some((other) => isShorter(root, other))))
        field = [root, ...field].sort((a, b) => heightOf(a) - heightOf(b)).slice(0, FIELD);
      if (field.length === 0) return;
      while (field.length > 0) {
        const found: Judged[] = [];
        for (const start of field) {
          isGathering = mayGather && gathers(start);
          const scene = { costs, order: around(costs, order, start.draft, FEW_PEERS * 2 ** round), random };
          const { shortest } = yield* annealed(start, scene, COOLING);
          found.push(yield* descend(shortest, scene.order.slice(0, MOST_EXCHANGED)));
        }
        isGathering = false;
        for (const draft of found) if (!gathers(draft)) keep(draft);
        field = found.sort((a, b) => heightOf(a) - heightOf(b)).slice(0, field.length >> 1);
      }
    }
  }
  return {
    costs,
    byStages,
    nearest: () => nearest,
    withoutGathering: () => plain,
    withoutMainMemory: () => onGpus,
    judge: judged,
    progress: progress(),
  };
}

const gathers = ({ draft }: Judged): boolean => draft.gathered?.some((whole) => whole > 0) ?? false;

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
