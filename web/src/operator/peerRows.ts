/** Everything that is known of each donor as rows of one table, and how they are sorted. Pure. */
import type { RelayReason, Route } from '../../../swarm/messages/profile.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { PeerFacts, PlanInForce } from '../../../swarm/messages/watch.ts';

type Reason = NonNullable<Snapshot['planning']>['reasons'][number];
type Donor = Snapshot['donors'][number];

export interface PeerRow extends Donor {
  readonly facts: PeerFacts | null;
  /** Of a sample through a layer, there and back, at the share of its GPU that it gives; null: not measured. */
  readonly layerSeconds: number | null;
  readonly samples: number;
  /** Stages whose copies it keeps. */
  readonly copies: readonly number[];
  readonly why: string;
}

export type SortedBy = 'peer' | 'state' | 'samples' | 'layerSeconds' | 'memory' | 'tokens' | 'faults';
export interface Order {
  readonly by: SortedBy;
  readonly isDescending: boolean;
}

export function peerRows(
  donors: readonly Donor[],
  facts: readonly PeerFacts[],
  /** One, but where groups have islands of their own. */
  plans: readonly Pick<PlanInForce, 'stages' | 'microBatches'>[],
  reasons: readonly Reason[],
): PeerRow[] {
  const known = new Map(facts.map((each) => [each.peer, each]));
  /** Of a donor in several stages, the most. */
  const samplesOf = new Map<string, number>();
  const stages = plans.flatMap((plan) => plan.stages);
  for (const { peer, samples } of stages.flatMap(({ members }) => members))
    samplesOf.set(peer, Math.max(samplesOf.get(peer) ?? 0, samples));
  const reasonOf = new Map(reasons.map(({ peer, text }) => [peer, text]));
  const rows = donors.map((donor) => {
    const own = known.get(donor.peer) ?? null;
    const samples = samplesOf.get(donor.peer) ?? 0;
    const copies = plans.flatMap((plan) =>
      plan.stages.flatMap((stage, index) => (stage.copies.includes(donor.peer) ? index : [])),
    );
    return { ...donor, facts: own, layerSeconds: layerSeconds(own), samples, copies, why: '' };
  });
  // Of a step, whoever does it.
  const all = plans[0]?.microBatches.reduce((sum, { samples: [from, to] }) => sum + to - from, 0) ?? 0;
  const fastest = Math.min(...rows.flatMap((row) => row.layerSeconds ?? []));
  return rows.map((row) => ({ ...row, why: whyText(row, all, fastest, reasonOf.get(row.peer)) }));
}

/** One layer of the smallest micro-batch that was measured, a sample of it. */
function layerSeconds(facts: PeerFacts | null): number | null {
  const [first] = facts?.profile?.layers.toSorted((a, b) => a.samples - b.samples) ?? [];
  if (!facts || !first) return null;
  return (first.forwardSeconds + first.backwardSeconds) / first.samples / facts.limits.speed;
}

/** Why its part has the size that it has, in one sentence. */
function whyText(row: Omit<PeerRow, 'why'>, all: number, fastest: number, planned: string | undefined): string {
  if (planned !== undefined) return planned;
  const speed =
    row.layerSeconds === null || !Number.isFinite(fastest) ? '' : `: ${speedText(fastest / row.layerSeconds)}`;
  const copies = copiesText(row.copies);
  if (row.samples === 0 && copies !== '') return copies;
  if (row.samples === 0) return row.state === 'spare' ? 'the plan has no part for it' : 'not in the plan';
  return `${row.samples} of ${all} samples${speed}${copies && `; ${copies}`}`;
}

const copiesText = (stages: readonly number[]): string =>
  stages.length === 0
    ? ''
    : `keeps copies of ${stages.length === 1 ? 'stage' : 'stages'} ${stages.map((stage) => stage + 1).join(', ')}`;

function speedText(share: number): string {
  if (share > 0.95) return 'as fast as the fastest';
  return `${Math.round(share * 100)} % of the speed of the fastest`;
}

const sortValue = (row: PeerRow, by: SortedBy): number | string => {
  switch (by) {
    case 'peer':
      return row.peer;
    case 'state':
      return row.state;
    case 'samples':
      return row.samples;
    case 'layerSeconds':
      return row.layerSeconds ?? Infinity;
    case 'memory':
      return row.facts?.peakBytes ?? 0;
    case 'tokens':
      return row.tokens;
    case 'faults':
      return row.facts?.faults ?? 0;
  }
};

/** Equal ones stay in the order in which they joined. */
export function sorted(rows: readonly PeerRow[], { by, isDescending }: Order): PeerRow[] {
  const sign = isDescending ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [left, right] = [sortValue(a, by), sortValue(b, by)];
    return left === right ? 0 : sign * (left < right ? -1 : 1);
  });
}

export interface Pair {
  readonly a: string;
  readonly b: string;
  readonly route: Route;
  /** What either end says of it; the end that gave up first knows best. */
  readonly why: RelayReason | null;
}

/** Both directions as one; one that is relayed makes the pair relayed. */
export function pairsOf(links: Readonly<NonNullable<Snapshot['links']>>): Pair[] {
  const pairs = new Map<string, Pair>();
  for (const { from, peer, route, why = null } of links) {
    const [a = from, b = peer] = [from, peer].sort();
    const known = pairs.get(`${a} ${b}`);
    pairs.set(`${a} ${b}`, {
      ...{ a, b, route: route === 'relayed' ? route : (known?.route ?? route) },
      why: why === null || (why === 'otherEnd' && known?.why) ? (known?.why ?? null) : why,
    });
  }
  return [...pairs.values()];
}
