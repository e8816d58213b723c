/**
 * The best plan there is, for small clusters, to measure the search by: every sequence of groups of some of the peers,
 * every cut of the layers, every power of two of micro-batches, each order that peers run. Branch and bound, stage by
 * stage: what is certainly no faster than the best so far is not gone on with, and only what is left at the end is
 * simulated, the most promising first.
 */

import { arrayOf } from '../base.ts';
import type { ClusterCosts } from '../planner/clusterCosts.ts';
import { memoryOf, planOf } from '../planner/draft.ts';
import { forecast } from '../planner/forecast.ts';
import type { CutSketch } from '../planner/layout.ts';
import { WORK_ORDERS } from '../planner/moves.ts';
import { type ClusterBounds, clusterBounds, placesIn } from './clusterBounds.ts';

/** A draft without its schedule, and seconds that it certainly takes. */
interface Candidate {
  readonly draft: Omit<CutSketch, 'schedule' | 'warmup'>;
  readonly least: number;
}

/** Step seconds; `bound` where nothing is less. */
export function leastStepSeconds(costs: ClusterCosts, bound: number): number {
  const { samples } = costs.batch;
  const counts = new Set([samples]);
  for (let count = 1; count < samples; count *= 2) counts.add(count);
  const candidates = [...counts].flatMap((microBatches) =>
    arrayOf(Math.min(costs.peers.length, costs.model.layers), (index) => [
      ...candidatesOf(costs, clusterBounds(costs, microBatches, index + 1), bound),
    ]).flat(),
  );
  let best = bound;
  for (const { draft, least } of candidates.sort((a, b) => a.least - b.least)) {
    if (least >= best) break;
    for (const order of WORK_ORDERS) best = Math.min(best, judged(costs, { ...draft, ...order }));
  }
  return best;
}

/** Stages that are settled, and what is certain of their step: the way in and out, and both halves, around the commit. */
interface Beginning {
  /** Groups as bits of places. */
  readonly groups: readonly number[];
  readonly layers: readonly number[];
  readonly wayIn: number;
  readonly wayOut: number;
  readonly before: number;
  readonly after: number;
}

const NOTHING: Beginning = { groups: [], layers: [], wayIn: 0, wayOut: 0, before: 0, after: 0 };

/** All that could take less than `bound`. */
function* candidatesOf(costs: ClusterCosts, bounds: ClusterBounds, bound: number): Generator<Candidate> {
  const everyone = 2 ** costs.peers.length - 1;
  function* from(settled: Beginning, free: number, layersLeft: number): Generator<Candidate> {
    const stage = settled.groups.length;
    const later = bounds.stages - 1 - stage;
    // Every set of free peers.
    for (let group = free; group > 0; group = (group - 1) & free) {
      for (let layers = later === 0 ? layersLeft : 1; layers <= layersLeft - later; layers++) {
        const next = goneOn(bounds, settled, group, layers);
        if (next === null || next.before + next.after >= bound) continue;
        if (later > 0) yield* from(next, free & ~group, layersLeft - layers);
        else yield candidate(next, bounds.microBatches);
      }
    }
  }
  yield* from(NOTHING, everyone, costs.model.layers);
}

/** With a stage more; null where one of the group would have nothing to do. */
function goneOn(bounds: ClusterBounds, settled: Beginning, group: number, layers: number): Beginning | null {
  const stage = settled.groups.length;
  const own = bounds.ofStage(group, stage, layers);
  if (own === null) return null;
  const hop = stage === 0 ? { forward: 0, backward: 0 } : bounds.ofHop(settled.groups.at(-1) ?? 0, group, stage);
  const [wayIn, wayOut] = [settled.wayIn + hop.forward, settled.wayOut + hop.backward];
  return {
    groups: [...settled.groups, group],
    layers: [...settled.layers, layers],
    wayIn: wayIn + own.forward,
    wayOut: wayOut + own.backward,
    before: Math.max(settled.before, wayIn + own.busiest + wayOut, wayIn + own.idlest + own.slices),
    after: Math.max(settled.after, own.values),
  };
}

const candidate = ({ groups, layers, before, after }: Beginning, microBatches: number): Candidate => ({
  draft: { groups: groups.map(placesIn), layers, microBatches },
  least: before + after,
});

function judged(costs: ClusterCosts, draft: CutSketch): number {
  const drafted = planOf(costs, draft);
  if (drafted === null || drafted.missingBytes > 0) return Infinity;
  const memory = memoryOf(costs, drafted.plan);
  const fits = costs.peers.every(({ id, memoryBytes }) => (memory.get(id) ?? 0) <= memoryBytes);
  return fits ? forecast(costs, drafted.plan).stepSeconds : Infinity;
}
