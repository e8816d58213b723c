/** One way to judge a draft: whether its peers' memory holds it, and what its step takes. */
import { at } from '../base.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { isFast } from './gathering.ts';
import { type Draft, type Layout, layoutOf, type Order, orderOf, shapesOf } from './layout.ts';
import { sharedAmong } from './lines.ts';
import { fitStage, hostedByKeepers, keepersOf, mostLayers } from './stageFit.ts';
import { type Fit, leastSeconds, partOf, secondsOf } from './stepTime.ts';

/** A draft whose layers may still have to be cut, and whose stages gather where they must. */
export type Sketch = Omit<Draft, 'layers' | 'gathered'> & { readonly layers?: readonly number[] };

export interface Judged {
  readonly draft: Draft;
  /** Infinity where the peers' memory does not hold it. */
  readonly seconds: number;
  readonly missingBytes: number;
  /** Some of its state lies in main memory. */
  readonly isHosted: boolean;
}

type Laid = readonly [Layout, Order];

export function fitDraft(costs: ClusterCosts, draft: Draft, [layout, order]: Laid): Fit {
  const keepers = keepersOf(costs, draft.keepers ?? []);
  const fitted = shapesOf(draft).map((shape, stage) => {
    const own = at(layout.stages, stage);
    const gathered = draft.gathered?.[stage] ?? 0;
    const load = { shape, slots: at(order.slots, stage), gathered, inHost: draft.inHost ?? false };
    return fitStage(costs, own, load, draft.placement ?? 'room', keepers);
  });
  return {
    missingBytes: fitted.reduce((sum, { missingBytes }) => sum + missingBytes, 0),
    missing: fitted.map(({ missingBytes }) => missingBytes),
    lacking: fitted.map(({ lacking }) => lacking),
    hasExcess: fitted.some(({ excess }) => excess > 0),
    recomputed: fitted.map(({ recomputed }) => recomputed),
    shares: fitted.map(({ shares }) => shares),
    hosted: new Map([...fitted.flatMap(({ hosted }) => [...hosted]), ...hostedByKeepers(costs, keepers)]),
  };
}

/** Under gpipe all micro-batches are in flight at once: more of them take memory and save next to nothing. */
const MOST_IN_FLIGHT = 1_024;

/**
 * Null where the sketch makes no draft: too few layers or samples, or too many micro-batches at once. What certainly takes
 * longer than `limit` is not looked at closer; null too.
 */
export function judge(
  all: ClusterCosts,
  sketch: Sketch,
  { mayGather = all.gathers, limit = Number.POSITIVE_INFINITY }: Partial<Looked> = {},
): Judged | null {
  const { groups, microBatches, schedule } = sketch;
  const costs = all.hasLines ? sharedAmong(all, [...groups.flat(), ...(sketch.keepers ?? [])]) : all;
  if (schedule === 'gpipe' && microBatches !== 'sized' && microBatches > MOST_IN_FLIGHT) return null;
  const most = sketch.layers ?? groups.map(() => costs.model.layers);
  const { layered: _, ...plain } = sketch;
  let draft: Draft = { ...plain, gathered: [], layers: sketch.layers ?? evenLayers(costs, sketch, most) };
  if (limit < Number.POSITIVE_INFINITY && busySeconds(costs, draft) > limit) return null;
  const layout = partOf(costs, draft);
  if (layout === null || isHopeless(costs, draft, layout, { mayGather, limit })) return null;
  const laid = [layout, orderOf(layout, sketch)] as const;
  let fit = fitDraft(costs, draft, laid);
  if (!sketch.layers && !fit.hasExcess) [draft, fit] = withinMemory(costs, draft, laid, fit);
  let best = timed(costs, draft, laid, fit, limit);
  if (!mayGather || !fit.lacking.some((bytes) => bytes > 1)) return best;
  for (const [tried, its] of [[draft, laid] as const, ...together(costs, draft)]) {
    const [gathered, sparing] = gathering(costs, tried, its, fit);
    if (gathered === tried) continue;
    const other = timed(costs, gathered, its, sparing, limit);
    if (other && (best === null || isBetter(other, best))) best = other;
  }
  return best;
}

const isBetter = (one: Judged, other: Judged): boolean =>
  one.missingBytes < other.missingBytes || (one.missingBytes === 0 && one.seconds < other.seconds);

/** The same with all micro-batches of a pass through each layer at once, where it is one stage and somebody has several. */
function together(costs: ClusterCosts, { warmup: _, ...draft }: Draft): (readonly [Draft, Laid])[] {
  const { groups, microBatches } = draft;
  if (groups.length > 1 || microBatches === 'sized' || microBatches > MOST_IN_FLIGHT) return [];
  const layered: Draft = { ...draft, schedule: 'gpipe', layered: true };
  const layout = layoutOf(costs, layered);
  const isAny = layout?.stages.some(({ carried }) => carried.some((count) => count > 1));
  return layout && isAny ? [[layered, [layout, orderOf(layout, layered)]]] : [];
}

/** Null: it takes longer than `limit`. */
function timed(costs: ClusterCosts, draft: Draft, laid: Laid, fit: Fit, limit: number): Judged | null {
  const { missingBytes, hosted } = fit;
  const isHosted = hosted.size > 0;
  if (missingBytes > 0) return { draft, seconds: Number.POSITIVE_INFINITY, missingBytes, isHosted };
  const seconds = secondsOf(costs, draft, laid, fit, limit);
  return seconds > limit ? null : { draft, seconds, missingBytes, isHosted };
}

/** Work alone, were a stage's shared out among its peers to the second. */
function busySeconds(costs: ClusterCosts, { groups, layers, microBatches }: Draft): number {
  if (microBatches === 'sized') return 0;
  const size = Math.max(1, Math.floor(costs.batch.samples / microBatches));
  let most = 0;
  for (let stage = 0; stage < groups.length; stage++) {
    let speed = 0;
    for (const place of at(groups, stage)) {
      const peer = at(costs.peers, place);
      speed += 1 / (costs.passSeconds(peer, size) * (1 - peer.rest));
    }
    const shape = { first: stage === 0, last: stage === groups.length - 1, layers: at(layers, stage) };
    most = Math.max(most, (microBatches * costs.stageLayers(shape)) / speed);
  }
  return most;
}

interface Looked {
  readonly mayGather: boolean;
  readonly limit: number;
}

/** Whether it certainly takes longer than the limit, or its stages have no room for all layers. */
function isHopeless(costs: ClusterCosts, draft: Draft, layout: Layout, { mayGather, limit }: Looked): boolean {
  if (limit === Number.POSITIVE_INFINITY) return false;
  const isWhole = !mayGather && !draft.keepers?.length;
  if (leastSeconds(costs, draft, layout, isWhole) > limit) return true;
  if (!isWhole) return false;
  const { stages } = layout;
  const most = stages.map((members, stage) => mostLayers(costs, members, stage === 0, stage === stages.length - 1));
  return most.includes(0) || most.reduce((sum, layers) => sum + layers, 0) < costs.model.layers;
}

/** Where the GPUs of a stage lack memory and its links are fast it gathers its layers, two at a time or one. */
function gathering(costs: ClusterCosts, draft: Draft, laid: Laid, fit: Fit): [Draft, Fit] {
  const [layout] = laid;
  const lacks = layout.stages.map((own, stage) => at(fit.lacking, stage) > 1 && hasFast(costs, draft, layout, own));
  if (!lacks.includes(true)) return [draft, fit];
  let [best, least] = [draft, fit];
  for (const whole of [2, 1] as const) {
    const tried = { ...draft, gathered: lacks.map((own) => (own ? whole : 0)) };
    const now = fitDraft(costs, tried, laid);
    const isFirst = best === draft && now.missingBytes <= least.missingBytes;
    if (isFirst || now.missingBytes < least.missingBytes) [best, least] = [tried, now];
    if (least.missingBytes === 0 && best !== draft) break;
  }
  return [best, least];
}

/** As many layers to each stage, and no more than these, as make the slowest one as fast as can be. */
function evenLayers(costs: ClusterCosts, { groups, microBatches }: Sketch, most: readonly number[]): number[] {
  const { samples } = costs.batch;
  const size = microBatches === 'sized' ? 1 : Math.ceil(samples / microBatches);
  const seconds = groups.map((group, stage) => {
    const speed = group.reduce((sum, place) => sum + 1 / costs.passSeconds(at(costs.peers, place), size), 0);
    const [first, last] = [stage === 0, stage === groups.length - 1];
    return (layers: number): number => costs.stageLayers({ first, last, layers }) / speed;
  });
  const layers = groups.map(() => 1);
  for (let left = costs.model.layers - groups.length; left > 0; left--) {
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (const [stage, own] of layers.entries()) {
      const after = at(seconds, stage)(own + 1);
      if (own < at(most, stage) && after < least) [best, least] = [stage, after];
    }
    if (best < 0) break;
    layers[best] = at(layers, best) + 1;
  }
  return layers;
}

/** Layers taken from stages that lack memory, one at a time, as long as the others can have them. */
function withinMemory(costs: ClusterCosts, draft: Draft, laid: Laid, fit: Fit): [Draft, Fit] {
  const most = draft.layers.map(() => costs.model.layers);
  let [tried, now]: [Draft, Fit] = [draft, fit];
  let [best, least]: [Draft, Fit] = [draft, fit];
  while (now.missingBytes > 0) {
    for (const [stage, bytes] of now.missing.entries())
      if (bytes > 0) most[stage] = Math.min(at(most, stage), at(tried.layers, stage) - 1);
    const room = most.reduce((sum, layers) => sum + layers, 0);
    if (room < costs.model.layers || most.includes(0)) break;
    tried = { ...draft, layers: evenLayers(costs, draft, most) };
    now = fitDraft(costs, tried, laid);
    if (now.missingBytes < least.missingBytes) [best, least] = [tried, now];
  }
  return [best, least];
}

/** Layers are never gathered over slow links. */
export const hasFastLinks = (costs: ClusterCosts, draft: Draft, layout: Layout): boolean =>
  layout.stages.every((own, stage) => !draft.gathered?.[stage] || hasFast(costs, draft, layout, own));

const hasFast = (
  costs: ClusterCosts,
  { layered }: Draft,
  { sizes }: Layout,
  { places, carried }: Layout['stages'][number],
): boolean => isFast(costs, places, Math.max(...sizes), layered ? Math.min(...carried) : 1);
