/**
 * The cluster file that `shoal plan` reads: who could take part, what each measured of itself, and how they are linked.
 * Its one idea: of several rules for one link the most exact wins (pairs, then regions, then default), field by field.
 * See SPEC.md, rules CL.
 */
import { z } from 'zod';
import { type PeerId, peerId, type Result, refusal, success } from '../base.ts';
import {
  expecting,
  fields,
  isTooDeep,
  nonNegative,
  number,
  positive,
  sentence,
  TOO_DEEP,
  text,
} from '../inputFields.ts';
import { linkRate } from '../simulate/links.ts';

/** Connections side by side between two peers: more of them never make a link slower. */
export const MOST_STREAMS = 8;
const MOST_PEERS = 10_000;

const unlimited = number('a number above 0, or null', (value) => value > 0).nullable();
const table = z
  .array(nonNegative, { error: expecting('a list of numbers') })
  .min(1, { error: expecting('a list of one number or more') });
const between = z.tuple([text('a name'), text('a name')], { error: expecting('a list of two names') });
const linkFields = {
  latencySeconds: nonNegative.optional(),
  bytesPerSecond: unlimited.optional(),
  windowBytes: unlimited.optional(),
};
const ruleList = z.array(fields({ between, ...linkFields }), { error: expecting('a list of links') }).default([]);

const peer = fields({
  id: text('a name'),
  memoryBytes: nonNegative,
  flopsPerSecond: positive.optional(),
  uploadBytesPerSecond: unlimited.default(null),
  downloadBytesPerSecond: unlimited.default(null),
  region: text('a name').optional(),
  meanSessionSeconds: positive.optional(),
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

export type Cluster = z.output<typeof CLUSTER>;
export type ClusterPeer = Cluster['peers'][number];
type LinkRule = Cluster['links']['default'];

/** `fileName` opens every sentence. */
export function parseCluster(json: unknown, fileName: string): Result<Cluster> {
  if (isTooDeep(json)) return refusal(`${fileName}: the cluster ${TOO_DEEP}`);
  const parsed = CLUSTER.safeParse(json);
  if (!parsed.success) return refusal(`${fileName}: ${sentence(parsed.error.issues[0], 'the cluster')}`);
  const fault = disagreement(parsed.data);
  return fault === null ? success(parsed.data) : refusal(`${fileName}: ${fault}`);
}

/** What is wrong although each field for itself is right. */
function disagreement({ peers, links }: Cluster): string | null {
  const first = new Map<string, number>();
  for (const [index, { id, flopsPerSecond, measured }] of peers.entries()) {
    const other = first.get(id);
    if (other !== undefined)
      return `peers[${index}].id must be a name of its own, not "${id}" as peers[${other}].id is`;
    first.set(id, index);
    if (flopsPerSecond === undefined && measured === undefined)
      return `peers[${index}].flopsPerSecond is missing: it must be a number above 0, where nothing is measured`;
  }
  const regions = new Set(peers.flatMap(({ region }) => region ?? []));
  return (
    unknownEnd('regions', links.regions, 'a region of a peer', (name) => regions.has(name)) ??
    unknownEnd('pairs', links.pairs, 'the id of a peer', (name) => first.has(name)) ??
    selfLink(links.pairs)
  );
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

/** The link between two peers of the cluster; the caps of its ends are not in it. */
export function linksOf({ peers, links }: Cluster): (a: PeerId, b: PeerId) => ClusterLink {
  const base = links.default;
  const regionOf = new Map(peers.map(({ id, region }) => [peerId(id), region]));
  const byKey = (rules: Cluster['links']['pairs']) =>
    new Map(rules.map((rule) => [linkKey(rule.between[0], rule.between[1]), linkOf({ ...base, ...defined(rule) })]));
  const [pairs, regions] = [byKey(links.pairs), byKey(links.regions)];
  const fallback = linkOf(base);
  return (a, b) => {
    const [from, to] = [regionOf.get(a), regionOf.get(b)];
    const pair = pairs.size === 0 ? undefined : pairs.get(linkKey(a, b));
    const region = from === undefined || to === undefined ? undefined : regions.get(linkKey(from, to));
    return pair ?? region ?? fallback;
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
