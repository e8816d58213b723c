/**
 * Orders that no draft has (layout.ts): interleaved and breadth-first loop over the peers, chimera goes up and down them,
 * eager and varuna follow messages. From the best plan of drafts, or the one in force, plans of each are made, their layers
 * cut so that the busiest peer has least to do, and moved one at a time where the simulated step is shorter for it (Varuna,
 * Athlur et al. 2022: candidates are simulated). It ends after so much simulated work, so that the answer is the same on
 * every machine.
 * And why a plan's work is in its order: a tag and its numbers, and the sentence that they make.
 */
import { arrayOf, assertNever, at, got, type PeerId, type Range, totalOf } from '../base.ts';
import { hasOwnEnds } from '../plan/ends.ts';
import { ownedCrews } from '../plan/ownerTable.ts';
import type { Plan } from '../plan/plan.ts';
import { withStateSent } from '../plan/tokenRows.ts';
import { counted, secondsText } from '../quantityText.ts';
import { firstLayers } from '../schedule/recompute.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { memoryWith, memoryWithin, stateOf } from './draft.ts';
import { ownedStages, type SplitOptions, splitAlong, splitProblem, withAllowedCuts } from './equalSplit.ts';
import { type Forecast, forecast } from './forecast.ts';
import { withTightestWires } from './streamWires.ts';

/** Forwards and backwards that are simulated in all. */
const MOST_WORK = 60_000;
/** Stages of a peer, and micro-batches for each peer, that are tried. */
const [MOST_CHUNKS, MOST_ROUNDS] = [4, 4];
/** A step must be shorter by such a part; orders that follow messages give no two runs the same bits, so they by more. */
const [GAIN, FOLLOWING_GAIN] = [0.005, 0.02];

interface Timed {
  readonly plan: Plan;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
}

/** The shortest plan of another order, or the one that it began with. It rests wherever it yields. */
export function* otherOrders(costs: ClusterCosts, from: Timed): Generator<void, Timed> {
  if (from.plan.stages.some(({ gathered }) => gathered)) return from;
  let best = from;
  let work = 0;
  /** Null: it does not fit, is no shorter, or nothing more is simulated. */
  const tried = (plan: Plan, than: Timed, gain: number): Timed | null => {
    if (!hasOwnEnds(plan, costs.own)) return null;
    work += 2 * plan.stages.length * plan.microBatches.length;
    if (work > MOST_WORK) return null;
    const predicted = forecast(costs, plan);
    if (predicted.stepSeconds >= than.forecast.stepSeconds * (1 - gain)) return null;
    const memory = costs.oversized(plan) ? null : memoryWithin(costs, plan);
    return memory && { plan, forecast: predicted, memory };
  };
  for (const order of pipelines(costs, from.plan)) {
    for (const options of looped(costs, order)) {
      yield;
      let cuts = evenCuts(costs, order, options);
      let found = shortest(tableOf(costs, order, cuts, options), (plan) => tried(plan, best, GAIN));
      for (let before: Timed | null = null; found !== null && before !== found; ) {
        before = found;
        for (const moved of movedLayers(cuts)) {
          const than: Timed = found;
          const next = shortest(tableOf(costs, order, moved, options), (plan) => tried(plan, than, 0));
          if (next !== null) [found, cuts] = [next, moved];
        }
        yield;
      }
      if (found !== null) best = found;
    }
  }
  for (const plan of onSameStages(from.plan)) {
    yield;
    const gain = plan.schedule === '1f1b' ? GAIN : FOLLOWING_GAIN;
    best = tried(plan, best, gain) ?? best;
  }
  return best;
}

function shortest(plans: readonly Plan[], tried: (plan: Plan) => Timed | null): Timed | null {
  for (const plan of plans) {
    const found = tried(plan);
    if (found !== null) return found;
  }
  return null;
}

/** Every order that needs no stages of its own. */
function onSameStages({ warmup: _, maxInFlight: __, ...plan }: Plan): Plan[] {
  if (plan.stages.length === 1) return [];
  const last = plan.stages.length - 1;
  const again: Plan = {
    ...plan,
    schedule: 'varuna',
    stages: plan.stages.map((stage, index) => ({
      ...stage,
      members: stage.members.map((member) => ({
        ...member,
        recompute: index < last ? firstLayers(stage.layers) : member.recompute,
      })),
    })),
  };
  const orders = (['1f1b', 'eager'] as const).flatMap((schedule): Plan[] => [
    { ...plan, schedule },
    { ...plan, schedule, warmup: 'overlap' },
  ]);
  return [...orders, again];
}

/** The members one after the other as micro-batches meet them; and with peers of like speed far apart, for chimera pairs those. */
function pipelines(costs: ClusterCosts, { stages }: Plan): (readonly PeerId[])[] {
  const firsts = stages.flatMap(({ members }) => {
    const least = (ids: readonly number[]): number => ids.reduce((lowest, id) => Math.min(lowest, id));
    return members.toSorted((a, b) => least(a.microBatches) - least(b.microBatches))[0]?.peer ?? [];
  });
  const members = stages.flatMap((stage) => stage.members.map(({ peer }) => peer));
  const order = [...new Set([...firsts, ...members])];
  const bySpeed = order.toSorted((a, b) => speedOf(costs, b) - speedOf(costs, a));
  const alike = [
    ...bySpeed.filter((_, place) => place % 2 === 0),
    ...bySpeed.filter((_, place) => place % 2 === 1).reverse(),
  ];
  const all = [order, alike, order.length % 2 === 0 ? [] : order.filter((peer) => peer !== bySpeed.at(-1))];
  const known = new Set<string>();
  return all.filter((one) => one.length > 1 && known.size < known.add(one.join(' ')).size);
}

const speedOf = (costs: ClusterCosts, peer: PeerId): number => costs.speeds[costs.placeOf(peer)] ?? 0;

type Looped = SplitOptions & { readonly microBatches: number };

function* looped({ model, batch }: ClusterCosts, { length: peers }: readonly PeerId[]): Generator<Looped> {
  const wishes: SplitOptions[] = [];
  for (let pairs = 1; pairs <= peers / 2; pairs++) wishes.push({ schedule: 'chimera', pairs });
  for (let chunks = 2; chunks <= MOST_CHUNKS; chunks++)
    wishes.push({ schedule: 'interleaved', chunks }, { schedule: 'breadth-first', chunks });
  for (const wish of wishes)
    for (let rounds = 1; rounds <= MOST_ROUNDS; rounds *= 2) {
      const options = { ...wish, microBatches: rounds * peers };
      if (splitProblem(model, batch.samples, peers, options) === null) yield options;
    }
}

/** Of these peers in this order, in which chimera pairs the first with the last. */
export const ownedPlan = (costs: ClusterCosts, peers: readonly PeerId[], options: Looped): Plan | null =>
  splitProblem(costs.model, costs.batch.samples, peers.length, options) === null
    ? at(tableOf(costs, peers, evenCuts(costs, peers, options), options), 0)
    : null;

/** A layer each, and each of the others where the busiest peer then has least to do. */
function evenCuts(costs: ClusterCosts, peers: readonly PeerId[], options: Looped): Range[] {
  const stages = ownedStages(peers.length, options) ?? 1;
  const { samples } = costs.batch;
  const batches = arrayOf(options.microBatches, (id) => ({ id, samples: [id, id + 1] as const }));
  const size = Math.ceil(samples / options.microBatches);
  const crews = ownedCrews(peers, stages, batches, options).map((crew) =>
    crew.map(({ peer, carried }) => ({
      peer,
      seconds: carried.length * costs.passSeconds(at(costs.peers, costs.placeOf(peer)), size),
    })),
  );
  const layers = crews.map(() => 1);
  const busy = new Map(peers.map((peer) => [peer, 0]));
  const add = (stage: number, count: number): void => {
    for (const { peer, seconds } of at(crews, stage)) busy.set(peer, got(busy, peer) + count * seconds);
  };
  for (const stage of crews.keys())
    add(stage, costs.stageLayers({ first: stage === 0, last: stage === stages - 1, layers: 1 }));
  for (let left = costs.model.layers - stages; left > 0; left--) {
    let [chosen, least] = [0, Infinity];
    for (const [stage, crew] of crews.entries()) {
      const most = Math.max(...crew.map(({ peer, seconds }) => got(busy, peer) + seconds));
      if (most < least || (most === least && at(layers, stage) < at(layers, chosen))) [chosen, least] = [stage, most];
    }
    layers[chosen] = at(layers, chosen) + 1;
    add(chosen, 1);
  }
  return rangesOf(layers);
}

function rangesOf(layers: readonly number[]): Range[] {
  let end = 0;
  return layers.map((count): Range => {
    end += count;
    return [end - count, end];
  });
}

/** One layer from a stage to any other. */
function movedLayers(cuts: readonly Range[]): Range[][] {
  const layers = cuts.map(([from, to]) => to - from);
  return layers.flatMap((count, from) =>
    count < 2
      ? []
      : layers.flatMap((_, to) =>
          to === from
            ? []
            : [rangesOf(layers.map((own, stage) => own + (stage === to ? 1 : 0) - (stage === from ? 1 : 0)))],
        ),
  );
}

/** Its state as equal as can be; and as its holders have room. */
function tableOf(costs: ClusterCosts, peers: readonly PeerId[], cuts: readonly Range[], options: Looped): Plan[] {
  const { model, batch } = costs;
  const even = withStateSent(model, splitAlong(model, batch.samples, peers, cuts, options), batch);
  const split = batch.wire === 'auto' ? withTightestWires(even) : even;
  return [split, byRoom(costs, split)].map((plan) => withAllowedCuts(model, batch.islands, plan));
}

function byRoom(costs: ClusterCosts, plan: Plan): Plan {
  const bytes = memoryWith(costs, plan);
  const shares = plan.stages.map(
    ({ members }) =>
      new Map(
        members.map(({ peer }) => {
          const place = costs.placeOf(peer);
          return [place, Math.max(0, at(costs.peers, place).memoryBytes - bytes(peer, []))];
        }),
      ),
  );
  return { ...plan, state: stateOf(costs, plan, shares) };
}

type OrderReason = {
  readonly order: string;
  readonly than: string;
  readonly microBatches: number;
  readonly stepSeconds: number;
  /** Of the other order. */
  readonly thanSeconds: number;
} & (
  | { readonly tag: 'lessIdle' /** Percent of the other's idle time. */; readonly percent: number }
  | { readonly tag: 'shorter' }
  | { readonly tag: 'hiddenLinks' }
);

/** In which order everyone works. */
export const orderText = ({ schedule, warmup }: Pick<Plan, 'schedule' | 'warmup'>): string =>
  warmup === 'overlap' ? `${schedule} with an overlapping warm-up` : schedule;

/** Peer seconds of a step in which nothing is computed. */
const idleSeconds = ({ stepSeconds, peers }: Forecast): number =>
  totalOf(peers.values(), ({ busySeconds }) => Math.max(0, stepSeconds - busySeconds));

interface Ordered {
  readonly plan: Plan;
  readonly forecast: Forecast;
}

export function orderReason(chosen: Ordered, other: Ordered): OrderReason {
  const common = {
    ...{ order: orderText(chosen.plan), than: orderText(other.plan) },
    ...{ microBatches: chosen.plan.microBatches.length },
    ...{ stepSeconds: chosen.forecast.stepSeconds, thanSeconds: other.forecast.stepSeconds },
  };
  if (chosen.plan.schedule === other.plan.schedule && chosen.plan.warmup === 'overlap')
    return { tag: 'hiddenLinks', ...common };
  const percent = Math.round(100 * (1 - idleSeconds(chosen.forecast) / idleSeconds(other.forecast)));
  return percent > 0 ? { tag: 'lessIdle', ...common, percent } : { tag: 'shorter', ...common };
}

export function orderSentence(reason: OrderReason): string {
  const { order, than, microBatches, stepSeconds, thanSeconds } = reason;
  const times = `${secondsText(stepSeconds)} a step in place of ${secondsText(thanSeconds)}`;
  switch (reason.tag) {
    case 'lessIdle':
      return `${order}: ${reason.percent} % less idle than ${than} for ${counted(microBatches, 'micro-batch')}, ${times}.`;
    case 'shorter':
      return `${order}: a shorter step than ${than} for ${counted(microBatches, 'micro-batch')}, ${times}.`;
    case 'hiddenLinks':
      return `${order}: links hide behind work, ${times} with the normal one.`;
    default:
      return assertNever(reason);
  }
}
