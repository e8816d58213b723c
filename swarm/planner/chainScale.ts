/**
 * What a pipeline of a donor a stage takes, by a formula: millions can be weighed in seconds, where a walk along each one's
 * schedule would take hours. With the overlapping warm-up a chain of p stages takes
 *   (m − 1) · P + W     W: one micro-batch all the way there and back, work, transfers and latencies
 *   P = max over stages and links of (work or transfer of a micro-batch, W_s / (2(p − s) − 1)),
 * where W_s is the way from stage s to the end and back, in which a stage has so many micro-batches in flight at most.
 * The formula only says where to look: a walk takes 0.94 to 1.08 times as long, mostly within 0.02.
 */
import { at, float, int } from '../base.ts';
import type { Places } from './chainMoves.ts';
import type { StageShape } from './clusterCosts.ts';
import { elementsOf, type GroupsAsked, layerElements, MOST_STAGES, weightOf } from './groupsAsked.ts';
import { fitStage, type Keepers } from './stageFit.ts';

/** A walk along the schedule takes up to so many times what the formula says. */
const LONGER = 1.02;

interface Timed {
  readonly stepSeconds: number;
  readonly ownSeconds: number;
}

export interface Weigh {
  /** Tokens a second, times the chance where that counts; 0 where it is no chain. */
  (chain: Places): number;
  /** Empty where they have no room for the model. */
  readonly layers: (chain: Places) => readonly number[];
  /** What its step takes by the formula, and how long it has for steps in a round; null where it is no chain. */
  readonly timed: (chain: Places) => Timed | null;
  /** Layers that a donor has room for with so many micro-batches in flight. */
  readonly most: (place: number, first: boolean, last: boolean, inFlight: number) => number;
}

const NO_KEEPERS: Keepers = new Map();

interface StageRoom {
  readonly most: number;
  /** Seconds of a micro-batch there and back, with so many layers. */
  readonly seconds: Float64Array;
}

export function scales(asked: GroupsAsked): Weigh {
  const { costs, roundSeconds, meets } = asked;
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
    if (chain.length === 0 || chain.length > Math.min(MOST_STAGES, model.layers)) return false;
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
    return (samples - 1) * pace + way;
  };
  // Beside those of its layers.
  const layer = layerElements(model);
  const [firstOwn = 0, lastOwn = 0] = [0, model.layers - 1].map((own) => elementsOf(costs, [own, own + 1]) - layer);
  /** Of a chain that was just cut. Who takes longer to send would keep everybody waiting, who takes longer to receive begins late. */
  const ownSeconds = (chain: Places): number => {
    let late = 0;
    for (let stage = 0; stage < chain.length; stage++) {
      const { upload, download } = at(peers, at(chain, stage));
      const ends = (stage === 0 ? firstOwn : 0) + (stage === chain.length - 1 ? lastOwn : 0);
      const elements = ends + layer * int(layers, stage);
      if (meets.sent * elements > meets.waitedSeconds * upload) return 0;
      late = Math.max(late, (meets.received * elements) / download - meets.waitedSeconds);
    }
    return Math.max(0, roundSeconds - late);
  };
  const weigh = (chain: Places): number => {
    if (!cut(chain)) return 0;
    const steps = wholeSteps(ownSeconds(chain) / (LONGER * stepSeconds(chain)));
    return (steps * samples * sequence * weightOf(asked, chain)) / roundSeconds;
  };
  return Object.assign(weigh, {
    timed: (chain: Places) => (cut(chain) ? { stepSeconds: stepSeconds(chain), ownSeconds: ownSeconds(chain) } : null),
    layers: (chain: Places) => (cut(chain) ? [...layers.subarray(0, chain.length)] : []),
    most: (...stage: Parameters<Weigh['most']>) => roomOf(...stage).most,
  });
}

/** A step that does not end within the round is none; the nearer it comes to that, the more it is worth to go on there. */
export const wholeSteps = (steps: number): number => Math.floor(steps) + (steps % 1) ** 3;
