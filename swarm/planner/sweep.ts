/**
 * A sweep: the same run planned for a cluster that varies along one axis or two, each cell a plan of its own, with what
 * holds it back: whichever of compute, links, memory and sessions, doubled alone, makes it fastest.
 */
import { arrayOf, at, type Result, refusal, success } from '../base.ts';
import { type Cluster, type ClusterPeer, parseCluster } from './cluster.ts';
import { SCALED_FIELDS, scaled } from './whatIf.ts';

export interface SweepAxis {
  /** `peers`, or a field of every peer or of the links, whose values are factors. */
  readonly name: string;
  readonly values: readonly number[];
}

/** The order decides where two help alike. */
const LIMITS = ['compute', 'links', 'memory', 'sessions'] as const;
type SweepLimit = (typeof LIMITS)[number];

const DOUBLED: Readonly<Record<SweepLimit, readonly string[]>> = {
  compute: ['flopsPerSecond'],
  links: ['bytesPerSecond', 'windowBytes', 'uploadBytesPerSecond', 'downloadBytesPerSecond'],
  memory: ['memoryBytes', 'hostBytes'],
  sessions: ['meanSessionSeconds'],
};

/** What a plan is predicted to do. */
export interface PredictedRate {
  readonly tokensPerSecond: number;
  /** Of a step; with islands, of a round. */
  readonly seconds: number;
  /** What is made as large as can be: with islands, tokens that reach their meeting. */
  readonly objective: number;
}

export interface SweepCell {
  /** Values of the axes. */
  readonly at: readonly number[];
  /** Both null: no plan fits. */
  readonly tokensPerSecond: number | null;
  readonly seconds: number | null;
  readonly limit: SweepLimit;
}

export interface Sweep {
  readonly axes: readonly SweepAxis[];
  /** Those of the last axis next to each other. */
  readonly cells: readonly SweepCell[];
}

const MOST_CELLS = 400;
const MOST_DRAWN = 1_000;
const NUMBER = String.raw`(\d+(?:\.\d+)?(?:e-?\d+)?)`;
const FACTORS = new RegExp(String.raw`^(\w+)\s+x\s*${NUMBER}\.\.x\s*${NUMBER}$`);
const EXPECTED = `expected "peers A..B" or "FIELD xA..xB" with one of ${SCALED_FIELDS.join(', ')}, and two of them at most with ; between`;

export function parseSweep(text: string): Result<readonly SweepAxis[]> {
  const axes: SweepAxis[] = [];
  for (const part of text.split(';')) {
    if (part.trim() === '') continue;
    const axis = parseAxis(part.trim());
    if (!axis.ok) return axis;
    if (axes.some(({ name }) => name === axis.value.name)) return refusal(`"${axis.value.name}" is named twice`);
    axes.push(axis.value);
  }
  if (axes.length < 1 || axes.length > 2) return refusal(`"${text}" has ${axes.length} axes: ${EXPECTED}`);
  const count = axes.reduce((product, { values }) => product * values.length, 1);
  return count > MOST_CELLS
    ? refusal(`"${text}" has ${count} cells: ${MOST_CELLS} at most were expected`)
    : success(axes);
}

function parseAxis(words: string): Result<SweepAxis> {
  const [, from, to] = /^peers\s+(\d+)\.\.(\d+)$/.exec(words) ?? [];
  if (from !== undefined && to !== undefined) {
    const [first, last] = [Number(from), Number(to)];
    if (first < 1 || last < first || last > MOST_DRAWN)
      return refusal(`"${words}" must be from 1 to ${MOST_DRAWN} peers, the fewer first`);
    return success({ name: 'peers', values: arrayOf(last - first + 1, (index) => first + index) });
  }
  const [, field = '', least, most] = FACTORS.exec(words) ?? [];
  if (!SCALED_FIELDS.some((name) => name === field)) return refusal(`"${words}" says nothing known: ${EXPECTED}`);
  const [low, high] = [Number(least), Number(most)];
  if (!(low > 0 && high >= low && Number.isFinite(high)))
    return refusal(`"${words}" must be of factors above 0, the smaller one first`);
  const values: number[] = [];
  // The last one may have been rounded.
  for (let factor = low; factor <= high * (1 + 1e-9); factor *= 2) values.push(factor);
  return success({ name: field, values });
}

/** `predict`: null where no plan fits. A refusal is of a cluster that cannot be. */
export function sweep(
  cluster: Cluster,
  axes: readonly SweepAxis[],
  predict: (cluster: Cluster) => PredictedRate | null,
): Result<Sweep> {
  const cells: SweepCell[] = [];
  for (const place of placesOf(axes)) {
    const changed = changedAt(cluster, axes, place);
    if (!changed.ok) return changed;
    const predicted = predict(changed.value);
    const limit = limitOf(changed.value, predict);
    if (!limit.ok) return limit;
    const { tokensPerSecond = null, seconds = null } = predicted ?? {};
    cells.push({ at: place, tokensPerSecond, seconds, limit: limit.value });
  }
  return success({ axes, cells });
}

const placesOf = (axes: readonly SweepAxis[]): number[][] =>
  axes.reduce<number[][]>(
    (places, { values }) => places.flatMap((place) => values.map((value) => [...place, value])),
    [[]],
  );

function changedAt(cluster: Cluster, axes: readonly SweepAxis[], place: readonly number[]): Result<Cluster> {
  let changed = cluster;
  for (const [index, { name }] of axes.entries()) {
    const value = at(place, index);
    const next = name === 'peers' ? success(drawn(changed, value)) : scaled(changed, name, value);
    if (!next.ok) return next;
    changed = next.value;
  }
  return parseCluster(changed, `the cluster at ${axes.map(({ name }, index) => `${name} ${place[index]}`).join(', ')}`);
}

/** Where nothing helps, the first one; where nothing fits, memory unless another one makes it fit. */
function limitOf(cluster: Cluster, predict: (cluster: Cluster) => PredictedRate | null): Result<SweepLimit> {
  let best: { readonly limit: SweepLimit; readonly objective: number } | null = null;
  for (const limit of LIMITS) {
    let doubled = cluster;
    for (const field of DOUBLED[limit]) {
      const next = scaled(doubled, field, 2);
      if (!next.ok) return next;
      doubled = next.value;
    }
    const objective = predict(doubled)?.objective ?? 0;
    if (objective > (best?.objective ?? 0)) best = { limit, objective };
  }
  return success(best?.limit ?? 'memory');
}

/**
 * So many peers, the file's own first, then copies of them in turn. A copy has the links of the peer it is like; between
 * copies, and between a copy and that peer, is the default link.
 */
function drawn({ peers, links }: Cluster, count: number): Cluster {
  const taken = new Set(peers.map(({ id }) => id));
  const all: { readonly peer: ClusterPeer; readonly like: string; readonly isCopy: boolean }[] = [];
  for (let index = 0; index < count; index++) {
    const like = at(peers, index % peers.length);
    const isCopy = index >= peers.length;
    all.push({ peer: isCopy ? { ...like, id: freeName(like.id, taken) } : like, like: like.id, isCopy });
  }
  const ids = new Set(all.map(({ peer }) => peer.id));
  const regions = new Set(all.map(({ peer }) => peer.region));
  const pairs = links.pairs.filter(({ between }) => between.every((id) => ids.has(id)));
  const ruleOf = (a: string, b: string) =>
    links.pairs.find(({ between }) => between.includes(a) && between.includes(b));
  for (const [index, one] of all.entries())
    for (const other of one.isCopy ? all.slice(0, index) : []) {
      const between: [string, string] = [other.peer.id, one.peer.id];
      const isApart = !other.isCopy && other.like !== one.like;
      const rule = isApart ? ruleOf(other.like, one.like) : {};
      if (rule !== undefined) pairs.push({ ...rule, between });
    }
  return {
    peers: all.map(({ peer }) => peer),
    links: {
      ...links,
      pairs,
      regions: links.regions.filter(({ between }) => between.every((name) => regions.has(name))),
    },
  };
}

/** Taken by it. */
function freeName(id: string, taken: Set<string>): string {
  let number = 2;
  while (taken.has(`${id}-${number}`)) number++;
  taken.add(`${id}-${number}`);
  return `${id}-${number}`;
}
