/**
 * What-if: a cluster edited by a few words (`add 4 like a; remove b; uploadBytesPerSecond x2`), for the same planner to
 * answer (COMET's use). Edits apply in order; links of an added peer are those of the peer it is like.
 */
import { type Result, refusal, success } from '../base.ts';
import { type Cluster, type ClusterPeer, parseCluster } from './cluster.ts';
import { SESSION_SECONDS } from './groupsAsked.ts';

const PEER_FIELDS = [
  'memoryBytes',
  'hostBytes',
  'flopsPerSecond',
  'uploadBytesPerSecond',
  'downloadBytesPerSecond',
  'meanSessionSeconds',
] as const;
const LINK_FIELDS = ['latencySeconds', 'bytesPerSecond', 'windowBytes'] as const;
const EXPECTED = `expected "add N like PEER", "remove PEER", or "FIELD xN" with one of ${[...PEER_FIELDS, ...LINK_FIELDS].join(', ')}`;
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
export function withMore(cluster: Cluster, count: number, model: string): Result<Cluster> {
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

function scaled({ peers, links }: Cluster, field: string, times: number): Result<Cluster> {
  const isField = <Name extends string>(names: readonly Name[], name: string): name is Name =>
    names.some((known) => known === name);
  const scale = <T extends object>(of: T, name: keyof T): T => {
    const value = of[name];
    return typeof value === 'number' ? { ...of, [name]: value * times } : of;
  };
  if (isField(PEER_FIELDS, field)) {
    const said = field === 'meanSessionSeconds' ? { meanSessionSeconds: SESSION_SECONDS } : {};
    const changed = peers.map((peer) => scale<ClusterPeer>({ ...said, ...peer }, field));
    return success({ peers: field === 'flopsPerSecond' ? changed.map((peer) => faster(peer, times)) : changed, links });
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

/** What was measured wins over a rate, so it changes with it. */
function faster(peer: ClusterPeer, times: number): ClusterPeer {
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
