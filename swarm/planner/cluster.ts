/**
 * The cluster file that `shoal plan` reads: who could take part, what each measured of itself, and how they are linked.
 * Of several rules for one link the most exact wins (pairs, then regions, then default), field by field.
 */
import { z } from 'zod';
import { addToKey, got, type Result, refusal, success } from '../base.ts';
import {
  expecting,
  fields,
  isTooDeep,
  name,
  nonNegative,
  number,
  positive,
  sentence,
  TOO_DEEP,
} from '../model/inputFields.ts';
import { MOST_STREAMS } from '../plan/planLink.ts';
import { linkRate } from '../simulate/links.ts';

/** How long a donor stays where nobody says. */
export const SESSION_SECONDS = 3600;

const MOST_PEERS = 10_000;

/** Any unit: past it, or nearer to 0, a number is a slip, and times worked out from it are none any more. */
const [LEAST, MOST] = [1e-30, 1e30];

const limited = (value: z.ZodNumber) =>
  value
    .refine((amount) => amount <= MOST, { error: expecting(`at most ${MOST}`) })
    .refine((amount) => amount === 0 || amount >= LEAST, { error: expecting(`at least ${LEAST}`) });
const amount = limited(nonNegative);
const rate = limited(positive);
/** Past it blocks are kept in ever so many pieces. WebGPU guarantees 128 MiB. */
const LEAST_BUFFER_BYTES = 65_536;
const bufferSize = amount.refine((bytes) => bytes >= LEAST_BUFFER_BYTES, {
  error: expecting(`at least ${LEAST_BUFFER_BYTES}`),
});
const unlimited = limited(number('a number above 0, or null', (value) => value > 0)).nullable();
const table = z
  .array(amount, { error: expecting('a list of numbers') })
  .min(1, { error: expecting('a list of one number or more') });
const between = z.tuple([name('a name'), name('a name')], { error: expecting('a list of two names') });
const linkFields = {
  latencySeconds: amount.optional(),
  bytesPerSecond: unlimited.optional(),
  windowBytes: unlimited.optional(),
};
const ruleList = z.array(fields({ between, ...linkFields }), { error: expecting('a list of links') }).default([]);

/** As it is in a cluster that was read, whose lines are shared out. */
const sharedBy: z.ZodType<SharedBy> = z.strictObject({
  ...{ name: name('a name'), sharers: positive, upload: unlimited, download: unlimited },
});

const peer = fields({
  id: name('a name'),
  memoryBytes: amount,
  flopsPerSecond: rate.optional(),
  uploadBytesPerSecond: unlimited.default(null),
  downloadBytesPerSecond: unlimited.default(null),
  region: name('a name').optional(),
  line: z.union([name('a name'), sharedBy], { error: expecting('a name') }).optional(),
  meanSessionSeconds: rate.optional(),
  hostBytes: amount.optional(),
  bufferBytes: bufferSize.optional(),
  bindingBytes: bufferSize.optional(),
  /** The operator's own: of a run with `trust.ends` "own" the first and last stage are theirs alone. */
  own: z.boolean({ error: expecting('true or false') }).optional(),
  measured: fields({
    forwardSecondsPerLayer: table,
    backwardSecondsPerLayer: table,
    memoryBytesPerLayer: table.optional(),
  }).optional(),
});

const CLUSTER = fields({
  peers: z
    .array(peer, { error: expecting('a list of peers') })
    .min(1, { error: expecting('a list of one peer or more') })
    .max(MOST_PEERS, { error: `must be a list of at most ${MOST_PEERS} peers` }),
  links: fields({
    default: fields(linkFields).default({}),
    regions: ruleList,
    pairs: ruleList,
  }).default({ default: {}, regions: [], pairs: [] }),
});

type Read = z.output<typeof CLUSTER>;
type ReadPeer = Read['peers'][number];
/** Caps are the peer's own: of a line that several share, an equal part. */
export interface ClusterPeer extends Omit<ReadPeer, 'line'> {
  line?: SharedBy;
}
/** A line that so many peers share, by its name. */
interface SharedBy {
  readonly name: string;
  readonly sharers: number;
  /** Caps of the peer's own, which hold behind the router too; null: none. */
  readonly upload: number | null;
  readonly download: number | null;
}
export type Cluster = Omit<Read, 'peers'> & { peers: ClusterPeer[] };
type LinkRule = Cluster['links']['default'];

/** `fileName` opens every sentence. */
export function parseCluster(json: unknown, fileName: string): Result<Cluster> {
  if (isTooDeep(json)) return refusal(`${fileName}: the cluster ${TOO_DEEP}`);
  const parsed = CLUSTER.safeParse(json);
  if (!parsed.success) return refusal(`${fileName}: ${sentence(parsed.error.issues[0], 'the cluster')}`);
  const fault = disagreement(parsed.data);
  return fault === null ? success(sharedOut(parsed.data)) : refusal(`${fileName}: ${fault}`);
}

/** What is wrong although each field for itself is right. */
function disagreement({ peers, links }: Read): string | null {
  const first = new Map<string, number>();
  for (const [index, { id, flopsPerSecond, measured }] of peers.entries()) {
    const other = first.get(id);
    if (other !== undefined)
      return `peers[${index}].id must be a name of its own, not "${id}" as peers[${other}].id is`;
    first.set(id, index);
    if (flopsPerSecond === undefined && measured === undefined)
      return `peers[${index}].flopsPerSecond is missing: it must be a number above 0, where nothing is measured`;
    if (measured?.forwardSecondsPerLayer[0] === 0 && measured.backwardSecondsPerLayer[0] === 0)
      return `peers[${index}].measured must be times above 0, not a layer there and back in 0 seconds`;
  }
  const regions = new Set(peers.flatMap(({ region }) => region ?? []));
  return (
    unlikeCaps(peers) ??
    unknownEnd('regions', links.regions, 'a region of a peer', (name) => regions.has(name)) ??
    unknownEnd('pairs', links.pairs, 'the id of a peer', (name) => first.has(name)) ??
    selfLink(links.pairs)
  );
}

const nameOf = ({ line }: ReadPeer): string | undefined => (typeof line === 'string' ? line : undefined);

/** Caps of peers on one line are that line's: all say the same. */
function unlikeCaps(peers: readonly ReadPeer[]): string | null {
  const first = new Map<string, number>();
  for (const [index, peer] of peers.entries()) {
    const line = nameOf(peer);
    if (line === undefined) continue;
    const place = first.get(line) ?? index;
    first.set(line, place);
    const cap = CAPS.find((each) => peer[each] !== peers[place]?.[each]);
    if (cap !== undefined)
      return `peers[${index}].${cap} must be the same as peers[${place}].${cap}: both are on the line "${line}"`;
  }
  return null;
}

const CAPS = ['uploadBytesPerSecond', 'downloadBytesPerSecond'] as const;

/**
 * Of a line that several peers share, as donors behind one router do, each has an equal part, both ways: what all of them
 * get when all send at once. A plan's step is predicted with those of them who are in it (sharedAmong).
 */
function sharedOut({ peers, links }: Read): Cluster {
  const counts = new Map<string, number>();
  for (const line of peers.map(nameOf)) if (line !== undefined) addToKey(counts, line, 1);
  return {
    links,
    peers: peers.map((read) => {
      const { line, ...peer } = read;
      if (typeof line === 'object') return { ...peer, line };
      const sharers = line === undefined ? 1 : got(counts, line);
      const part = (cap: number | null): number | null => (cap === null ? null : cap / sharers);
      return {
        ...peer,
        ...(line !== undefined && sharers > 1 && { line: { name: line, sharers, upload: null, download: null } }),
        uploadBytesPerSecond: part(peer.uploadBytesPerSecond),
        downloadBytesPerSecond: part(peer.downloadBytesPerSecond),
      };
    }),
  };
}

function unknownEnd(
  list: 'regions' | 'pairs',
  rules: Cluster['links']['pairs'],
  expected: string,
  isKnown: (name: string) => boolean,
): string | null {
  const seen = new Map<string, number>();
  for (const [index, { between: ends }] of rules.entries()) {
    for (const [end, name] of ends.entries())
      if (!isKnown(name)) return `links.${list}[${index}].between[${end}] must be ${expected}, not "${name}"`;
    const same = seen.get(linkKey(ends[0], ends[1]));
    if (same !== undefined)
      return `links.${list}[${index}].between must be two others than those of links.${list}[${same}]: links are symmetric`;
    seen.set(linkKey(ends[0], ends[1]), index);
  }
  return null;
}

function selfLink(pairs: Cluster['links']['pairs']): string | null {
  const index = pairs.findIndex(({ between: [a, b] }) => a === b);
  return index < 0 ? null : `links.pairs[${index}].between must be two peers, not "${pairs[index]?.between[0]}" twice`;
}

const linkKey = (a: string, b: string): string => JSON.stringify(a < b ? [a, b] : [b, a]);

/** A link as it is used: with the streams that make it fastest. */
export interface ClusterLink {
  readonly latencySeconds: number;
  /** Null: unlimited. */
  readonly bytesPerSecond: number | null;
  /** The fewest that reach this rate. */
  readonly streams: number;
}

/** The link between two peers by their places in the cluster's list; the caps of its ends are not in it. */
export function linkTable({ peers, links }: Cluster): (a: number, b: number) => ClusterLink {
  const base = links.default;
  const fallback = linkOf(base);
  const placeOf = new Map(peers.map(({ id }, place) => [id, place]));
  const numberOf = new Map([...new Set(peers.flatMap(({ region }) => region ?? []))].map((name, at) => [name, at]));
  const regionOf = Int32Array.from(peers, ({ region }) => (region === undefined ? -1 : got(numberOf, region)));
  const [peerCount, regionCount] = [peers.length, numberOf.size];
  // Looked up for millions of pairs: one number names a pair, either way round.
  const byKey = (rules: Cluster['links']['pairs'], numbers: ReadonlyMap<string, number>, count: number) =>
    new Map(
      rules.flatMap((rule) => {
        const [a, b] = [got(numbers, rule.between[0]), got(numbers, rule.between[1])];
        const link = linkOf({ ...base, ...defined(rule) });
        return [[a * count + b, link] as const, [b * count + a, link] as const];
      }),
    );
  const pairs = byKey(links.pairs, placeOf, peerCount);
  const regions = byKey(links.regions, numberOf, regionCount);
  return (a, b) => {
    const pair = pairs.size === 0 ? undefined : pairs.get(a * peerCount + b);
    if (pair !== undefined) return pair;
    const [from, to] = [regionOf[a] ?? -1, regionOf[b] ?? -1];
    return (from < 0 || to < 0 ? undefined : regions.get(from * regionCount + to)) ?? fallback;
  };
}

const defined = ({ latencySeconds, bytesPerSecond, windowBytes }: LinkRule): LinkRule => ({
  ...(latencySeconds === undefined ? {} : { latencySeconds }),
  ...(bytesPerSecond === undefined ? {} : { bytesPerSecond }),
  ...(windowBytes === undefined ? {} : { windowBytes }),
});

function linkOf({ latencySeconds = 0, bytesPerSecond = null, windowBytes = null }: LinkRule): ClusterLink {
  const rate = (streams: number) => linkRate({ latencySeconds, bytesPerSecond, windowBytes, streams });
  const best = rate(MOST_STREAMS);
  let streams = 1;
  while (streams < MOST_STREAMS && rate(streams) !== best) streams++;
  return { latencySeconds, bytesPerSecond: best, streams };
}
