/**
 * The best plan there is, for small clusters, to measure the search by: every sequence of groups of some of the peers,
 * every cut of the layers, every power of two of micro-batches, each order that peers run. Branch and bound: only what
 * its peers could compute in less than the best so far is simulated.
 */
import { SCHEDULE_NAMES } from '../schedule/action.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { type Draft, memoryOf, planOf } from './draft.ts';
import { forecast } from './forecast.ts';
import type { Groups } from './grouping.ts';

/** Step seconds; `bound` where nothing is less. */
export function leastStepSeconds(costs: ClusterCosts, bound: number): number {
  const { samples } = costs.batch;
  const sizes: number[] = [];
  for (let count = 1; count < samples; count *= 2) sizes.push(count);
  const candidates: { draft: Draft; least: number }[] = [];
  const places = costs.peers.map((_, place) => place);
  for (let stages = 1; stages <= Math.min(places.length, costs.model.layers); stages++) {
    const cuts = cutsOf(stages, costs.model.layers);
    for (const groups of groupingsOf(places, stages)) {
      const lanes = Math.max(...groups.map((group) => group.length));
      for (const microBatches of [...sizes, samples].filter((count) => count >= lanes)) {
        const paces = groups.map((group) => pace(costs, group, Math.floor(samples / microBatches)) * microBatches);
        for (const layers of cuts) {
          const least = leastOf(costs, paces, layers);
          if (least >= bound) continue;
          for (const schedule of SCHEDULE_NAMES)
            candidates.push({ draft: { groups, layers, microBatches, schedule }, least });
        }
      }
    }
  }
  let best = bound;
  for (const { draft, least } of candidates.sort((a, b) => a.least - b.least)) {
    if (least >= best) break;
    best = Math.min(best, judged(costs, draft));
  }
  return best;
}

/** Every cut of layers into so many stages. */
export const cutsOf = (stages: number, layers: number): number[][] =>
  stages === 1
    ? [[layers]]
    : Array.from({ length: layers - stages + 1 }, (_, index) => index + 1).flatMap((count) =>
        cutsOf(stages - 1, layers - count).map((rest) => [count, ...rest]),
      );

/** Every peer in one of so many groups or in none, no group empty. */
function* groupingsOf(places: readonly number[], stages: number): Generator<Groups> {
  const total = (stages + 1) ** places.length;
  for (let code = 0; code < total; code++) {
    const groups: number[][] = Array.from({ length: stages }, () => []);
    for (let at = 0, rest = code; at < places.length; at++, rest = Math.floor(rest / (stages + 1)))
      groups[(rest % (stages + 1)) - 1]?.push(places[at] ?? 0);
    if (groups.every((group) => group.length > 0)) yield groups;
  }
}

/** Seconds of a layer and micro-batch, a group's peers side by side and never idle. */
const pace = (costs: ClusterCosts, group: readonly number[], samples: number): number =>
  1 /
  group.reduce((speed, place) => {
    const peer = costs.peers[place];
    return speed + (peer ? 1 / Math.max(1e-12, costs.passSeconds(peer, samples)) : 0);
  }, 0);

function leastOf(costs: ClusterCosts, paces: readonly number[], layers: readonly number[]): number {
  let most = 0;
  for (const [stage, seconds] of paces.entries()) {
    const shape = { first: stage === 0, last: stage === paces.length - 1, layers: layers[stage] ?? 0 };
    most = Math.max(most, seconds * costs.stageLayers(shape));
  }
  return most;
}

function judged(costs: ClusterCosts, draft: Draft): number {
  const drafted = planOf(costs, draft);
  if (drafted === null || drafted.missingBytes > 0) return Number.POSITIVE_INFINITY;
  const memory = memoryOf(costs, drafted.plan, drafted.schedule);
  const fits = costs.peers.every(({ id, memoryBytes }) => (memory.get(id) ?? 0) <= memoryBytes);
  return fits ? forecast(costs, drafted.plan, drafted.schedule).stepSeconds : Number.POSITIVE_INFINITY;
}
