/**
 * What-if: a cluster edited by a few words (`add 4 like a; remove b; uploadBytesPerSecond x2`), for the same planner to
 * answer (COMET's use). Edits apply in order; links of an added peer are those of the peer it is like.
 * The same edits say what would fit where a model fits nobody.
 */

import { type Result, refusal, success } from '../base.ts';
import type { Block, Model } from '../model/model.ts';
import { counted } from '../quantityText.ts';
import { type Cluster, type ClusterPeer, parseCluster, SESSION_SECONDS } from './cluster.ts';
import type { ClusterProblem } from './clusterCosts.ts';
import { Search } from './search.ts';

const PEER_FIELDS = [
  'memoryBytes',
  'hostBytes',
  'flopsPerSecond',
  'uploadBytesPerSecond',
  'downloadBytesPerSecond',
  'meanSessionSeconds',
] as const;
const LINK_FIELDS = ['latencySeconds', 'bytesPerSecond', 'windowBytes'] as const;
/** Fields that a factor can change. */
export const SCALED_FIELDS: readonly string[] = [...PEER_FIELDS, ...LINK_FIELDS];
const EXPECTED = `expected "add N like PEER", "remove PEER", or "FIELD xN" with one of ${SCALED_FIELDS.join(', ')}`;
const MOST_ADDED = 1_000;

export function changedCluster(cluster: Cluster, text: string): Result<Cluster> {
  let changed = cluster;
  for (const part of text.split(';')) {
    const words = part.trim();
    if (words === '') continue;
    const next = edit(changed, words);
    if (!next.ok) return next;
    changed = next.value;
  }
  return parseCluster(changed, 'what it makes of the cluster');
}

function edit(cluster: Cluster, words: string): Result<Cluster> {
  const [, count, model] = /^add\s+(\d+)\s+like\s+(.+)$/.exec(words) ?? [];
  if (count !== undefined && model !== undefined) return withMore(cluster, Number(count), model);
  const [, gone] = /^remove\s+(.+)$/.exec(words) ?? [];
  if (gone !== undefined) return removed(cluster, gone);
  const [, field, factor] = /^(\w+)\s+x\s*(\d+(?:\.\d+)?(?:e-?\d+)?)$/.exec(words) ?? [];
  const times = Number(factor);
  if (field === undefined || !(times > 0 && Number.isFinite(times)))
    return refusal(`"${words}" says nothing known: ${EXPECTED}`);
  return scaled(cluster, field, times);
}

/** With so many more peers like this one, links included. */
function withMore(cluster: Cluster, count: number, model: string): Result<Cluster> {
  const like = cluster.peers.find(({ id }) => id === model);
  if (!like) return refusal(`"${model}" must be the id of a peer`);
  if (count < 1 || count > MOST_ADDED) return refusal(`"add ${count}" must be from 1 to ${MOST_ADDED} peers`);
  const taken = new Set(cluster.peers.map(({ id }) => id));
  const more: ClusterPeer[] = [];
  for (let number = 2; more.length < count; number++)
    if (!taken.has(`${model}-${number}`)) more.push({ ...like, id: `${model}-${number}` });
  const pairs = cluster.links.pairs.flatMap((rule) =>
    rule.between.includes(model)
      ? more.map(({ id }) => ({
          ...rule,
          between: rule.between.map((end) => (end === model ? id : end)) as [string, string], // as long as before
        }))
      : [],
  );
  return success({
    peers: [...cluster.peers, ...more],
    links: { ...cluster.links, pairs: [...cluster.links.pairs, ...pairs] },
  });
}

function removed({ peers, links }: Cluster, gone: string): Result<Cluster> {
  if (!peers.some(({ id }) => id === gone)) return refusal(`"${gone}" must be the id of a peer`);
  if (peers.length === 1) return refusal(`without "${gone}" there is no peer left`);
  const left = peers.filter(({ id }) => id !== gone);
  const regions = new Set(left.map(({ region }) => region));
  return success({
    peers: left,
    links: {
      ...links,
      regions: links.regions.filter(({ between }) => between.every((region) => regions.has(region))),
      pairs: links.pairs.filter(({ between }) => !between.includes(gone)),
    },
  });
}

/** Of every peer, or of all links. */
export function scaled({ peers, links }: Cluster, field: string, times: number): Result<Cluster> {
  const isField = <Name extends string>(names: readonly Name[], name: string): name is Name =>
    names.some((known) => known === name);
  const scale = <T extends object>(of: T, name: keyof T): T => {
    const value = of[name];
    return typeof value === 'number' ? { ...of, [name]: value * times } : of;
  };
  if (isField(PEER_FIELDS, field)) {
    const said = field === 'meanSessionSeconds' ? { meanSessionSeconds: SESSION_SECONDS } : {};
    const change = (peer: ClusterPeer): ClusterPeer =>
      field === 'flopsPerSecond' ? faster(peer, times) : scale<ClusterPeer>({ ...said, ...peer }, field);
    return success({ peers: peers.map(change), links });
  }
  if (!isField(LINK_FIELDS, field)) return refusal(`"${field}" is unknown: ${EXPECTED}`);
  return success({
    peers,
    links: {
      default: scale(links.default, field),
      regions: links.regions.map((rule) => scale(rule, field)),
      pairs: links.pairs.map((rule) => scale(rule, field)),
    },
  });
}

/** At so many times the rate: what was measured wins over it, so both change. */
export function faster({ flopsPerSecond, ...same }: ClusterPeer, times: number): ClusterPeer {
  const peer = flopsPerSecond === undefined ? same : { ...same, flopsPerSecond: flopsPerSecond * times };
  if (!peer.measured) return peer;
  const { forwardSecondsPerLayer, backwardSecondsPerLayer, ...rest } = peer.measured;
  const shorter = (table: readonly number[]): number[] => table.map((seconds) => seconds / times);
  return {
    ...peer,
    measured: {
      ...rest,
      forwardSecondsPerLayer: shorter(forwardSecondsPerLayer),
      backwardSecondsPerLayer: shorter(backwardSecondsPerLayer),
    },
  };
}

/** More peers than so many are no answer. */
const MOST_LIKE_IT = 64;
/** Drafts of one look. */
const LOOK_WORK = 800;

/**
 * What would fit where a model fits nobody: fewer of its layers, shorter sequences, more peers like the roomiest one.
 * Each is tried, so that what is said fits has a plan; only for a while, so that more may fit than is said.
 *
 * After each look the parts of the answer so far; each a whole one.
 */
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
    for (; enough <= MOST_LIKE_IT && !isEnough(enough); enough *= 2) yield;
    if (enough > MOST_LIKE_IT) return null;
    const tooFew = yield* largest(enough - 1, (count) => !isEnough(count), enough >> 1);
    return `${counted(tooFew + 1, 'more donor')} like ${like.id}`;
  };
  yield* say(fewerLayers());
  yield* say(shorterSequences());
  yield* say(morePeers());
}

function fits(problem: ClusterProblem): boolean {
  for (const { best, work } of new Search(problem).progress())
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
  blocks: firstLayers(model.blocks, layers),
  ...(model.standing && { standing: firstLayers(model.standing, layers) }),
});

const firstLayers = (blocks: readonly Block[], layers: number): Block[] =>
  blocks.filter(({ name }) => !name.startsWith('layer.') || Number(name.slice(6)) < layers);
