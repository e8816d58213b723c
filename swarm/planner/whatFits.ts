/**
 * What would fit where a model fits nobody: fewer of its layers, shorter sequences, more peers like the roomiest one.
 * Each is tried, so that what is said fits has a plan; only for a while, so that more may fit than is said.
 */
import type { Model } from '../model/model.ts';
import { counted } from '../quantityText.ts';
import type { ClusterProblem } from './clusterCosts.ts';
import { searchPlan } from './search.ts';
import { withMore } from './whatIf.ts';

/** More peers than so many are no answer. */
const MOST_ADDED = 64;
/** Drafts of one look. */
const LOOK_WORK = 800;

/** After each look the parts of the answer so far; each a whole one. */
export function* whatFits(refused: ClusterProblem): Generator<readonly string[], void> {
  // A plan in force is one of all layers.
  const { inForce: _, ...problem } = refused;
  const found: string[] = [];
  const { model, batch, cluster } = problem;
  const say = function* (looks: Generator<void, string | null>): Generator<readonly string[], void> {
    let look = looks.next();
    for (; !look.done; look = looks.next()) yield found;
    if (look.value !== null) found.push(look.value);
    yield found;
  };
  const fewerLayers = function* (): Generator<void, string | null> {
    const most = yield* largest(model.layers - 1, (layers) => fits({ ...problem, model: withLayers(model, layers) }));
    return most === 0 ? null : `a model of ${counted(most, 'layer')} instead of ${model.layers}`;
  };
  const shorterSequences = function* (): Generator<void, string | null> {
    for (let sequence = batch.sequence >> 1; sequence > 0; sequence >>= 1) {
      if (fits({ ...problem, batch: { ...batch, sequence } }))
        return `samples of ${counted(sequence, 'token')} instead of ${batch.sequence}`;
      yield;
    }
    return null;
  };
  const morePeers = function* (): Generator<void, string | null> {
    const like = cluster.peers.reduce((most, peer) => (peer.memoryBytes > most.memoryBytes ? peer : most));
    const isEnough = (count: number): boolean => {
      const more = withMore(cluster, count, like.id);
      return more.ok && fits({ ...problem, cluster: more.value });
    };
    let enough = 1;
    for (; enough <= MOST_ADDED && !isEnough(enough); enough *= 2) yield;
    if (enough > MOST_ADDED) return null;
    const tooFew = yield* largest(enough - 1, (count) => !isEnough(count), enough >> 1);
    return `${counted(tooFew + 1, 'more donor')} like ${like.id}`;
  };
  yield* say(fewerLayers());
  yield* say(shorterSequences());
  yield* say(morePeers());
}

function fits(problem: ClusterProblem): boolean {
  for (const { best, work } of searchPlan(problem).progress)
    if (best !== null || work > LOOK_WORK) return best !== null;
  return false;
}

/** The largest number up to `most` that holds, where all from `held` up to it do. */
function* largest(most: number, holds: (count: number) => boolean, held = 0): Generator<void, number> {
  let [low, high] = [held, most];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (holds(middle)) low = middle;
    else high = middle - 1;
    yield;
  }
  return low;
}

/** The first so many layers of a model. */
const withLayers = (model: Model, layers: number): Model => ({
  ...model,
  layers,
  blocks: model.blocks.filter(({ name }) => !name.startsWith('layer.') || Number(name.slice(6)) < layers),
});
