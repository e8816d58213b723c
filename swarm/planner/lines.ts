/**
 * Lines that several peers share, as a plan uses them. Each peer's part is of all who could take part; of a plan the parts
 * are of those who are in it, who alone send. What they hand on may take turns (PL63): then a message has all of the line.
 */
import { at, type PeerId } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { type PlanLine, takesTurns } from '../plan/planLink.ts';
import { lineTurns } from '../simulate/lineTurns.ts';
import type { LineCost } from '../simulate/sharedLine.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Flow } from './flow.ts';

const known = new WeakMap<ClusterCosts, Map<string, ClusterCosts>>();

/**
 * The costs where these take part, by their places, and of each line nobody else does. With islands others of a line may
 * be in another one: everyone counts.
 */
export function sharedAmong(costs: ClusterCosts, places: Iterable<number>): ClusterCosts {
  if (!costs.hasLines) return costs;
  const counts = new Map<string, number>();
  for (const place of new Set(places)) {
    const line = costs.peers[place]?.line;
    if (line) counts.set(line.name, (counts.get(line.name) ?? 0) + 1);
  }
  const key = JSON.stringify([...counts].sort());
  const own = known.get(costs) ?? new Map<string, ClusterCosts>();
  known.set(costs, own);
  const found = own.get(key) ?? withParts(costs, counts);
  own.set(key, found);
  return found;
}

export const sharedIn = (costs: ClusterCosts, plan: Plan): ClusterCosts =>
  costs.hasLines ? sharedAmong(costs, peers(plan).map(costs.placeOf)) : costs;

function withParts(costs: ClusterCosts, counts: ReadonlyMap<string, number>): ClusterCosts {
  const of = costs.peers.map((peer) => {
    const count = peer.line ? counts.get(peer.line.name) : undefined;
    if (!peer.line || count === undefined || count === peer.line.sharers) return peer;
    const times = peer.line.sharers / count;
    return {
      ...peer,
      ...{ upload: peer.upload * times, download: peer.download * times },
      line: { ...peer.line, sharers: count },
    };
  });
  return { ...costs, peers: of, hasLines: false };
}

export function withoutTurns({ lines, ...plan }: Plan): Plan {
  return plan;
}

/** The plan with those who share a line, of whose stream some leaves it, taking turns. Null: there are none; with islands too, since others of a line may be in another one. */
export function withTurns(costs: ClusterCosts, plan: Plan, pipeline: Flow): Plan | null {
  if (costs.batch.islands !== undefined || !takesTurns(plan.schedule)) return null;
  const groups = new Map<string, PeerId[]>();
  for (const peer of peers(plan)) {
    const place = costs.placeOf(peer);
    const line = costs.peers[place]?.line;
    if (line && outside(costs, place, pipeline).length > 0)
      groups.set(line.name, [...(groups.get(line.name) ?? []), peer]);
  }
  const lines = [...groups.values()].filter(({ length }) => length > 1);
  return lines.length === 0 ? null : { ...plan, lines };
}

/** To whom a peer hands something on that is not behind its router. */
function outside({ peers: all }: ClusterCosts, place: number, pipeline: Flow): number[] {
  const own = all[place]?.line?.name;
  return [...pipeline.from(place).keys()].filter((other) => own === undefined || all[other]?.line?.name !== own);
}

/** Where the stream of each peer goes over a line that it shares: the line, and whom it reaches by it. */
interface SharedLines {
  readonly lines: readonly LineCost[];
  readonly lineOf: ReadonlyMap<number, { readonly line: number; readonly mates: ReadonlySet<number> }>;
}

/** At the rate of the whole line, or where nobody knows of one at the best that one of them reaches others with. */
export function turnLines(costs: ClusterCosts, { lines = [], ...plan }: Plan, pipeline: Flow): SharedLines {
  const order = lineTurns({ lines, ...plan });
  const lineOf = new Map<number, { line: number; mates: ReadonlySet<number> }>();
  const found = lines.map((line: PlanLine, index): LineCost => {
    const places = line.map(costs.placeOf).filter((place) => place >= 0);
    const mates = new Set(places);
    for (const place of places) lineOf.set(place, { line: index, mates });
    const rates = places.flatMap((place) => {
      const { upload, line: shared } = at(costs.peers, place);
      const reached = [...pipeline.from(place).keys()].filter((other) => !mates.has(other));
      return reached.map((other) =>
        Math.min(
          upload * (shared?.sharers ?? 1),
          costs.linkAt(place, other).bytesPerSecond ?? Number.POSITIVE_INFINITY,
        ),
      );
    });
    const isKnown = places.every((place) => at(costs.peers, place).line !== null);
    const rate = isKnown ? Math.min(...rates) : Math.max(0, ...rates);
    return { sharing: 'turns', bytesPerSecond: rate, order: at(order, index).map(({ from }) => from) };
  });
  return { lines: found, lineOf };
}
