/** Plans of every kind that the executor runs, for the same donors: what the planner's prediction is held against. */
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { Plan, ScheduleName } from '../../swarm/plan/plan.ts';
import type { ClusterCosts } from '../../swarm/planner/clusterCosts.ts';
import { planOf } from '../../swarm/planner/draft.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { judge } from '../../swarm/planner/judge.ts';
import type { Draft } from '../../swarm/planner/layout.ts';

/** The plan that donors learn by what their work takes, before any plan is measured. */
export const PRACTICE = 'practice';

export interface NamedPlan {
  readonly name: string;
  readonly plan: Plan;
}

/** A grouping of the donors, by their places in the costs' list, the fastest first. */
interface Kind {
  readonly name: string;
  readonly groups: Draft['groups'];
  readonly microBatches: Draft['microBatches'];
  readonly schedule: ScheduleName;
}

/** Far enough from each other for a prediction within a tenth to rank them. */
export function namedPlans(costs: ClusterCosts, donors: readonly PeerId[]): NamedPlan[] {
  const { model, batch, peers } = costs;
  const places = [...peers.keys()].sort((a, b) => slowness(costs, a) - slowness(costs, b));
  const [first = 0, second = 0, third = 0] = places;
  const { samples } = batch;
  const kinds: Kind[] = [
    { name: PRACTICE, groups: [places], microBatches: samples / 2, schedule: 'gpipe' },
    { name: 'stages', groups: places.map((place) => [place]), microBatches: samples / 8, schedule: '1f1b' },
    { name: 'lanes', groups: [places], microBatches: 'sized', schedule: '1f1b' },
    { name: 'mixed', groups: [[first, ...places.slice(2)], [second]], microBatches: samples / 2, schedule: 'gpipe' },
    { name: 'pair', groups: [[first], [third]], microBatches: samples / 4, schedule: '1f1b' },
  ];
  const drafted = kinds.flatMap(({ name, groups, microBatches, schedule }) => {
    const draft = judge(costs, { groups, microBatches, schedule })?.draft;
    const made = draft && planOf(costs, draft);
    return made ? { name, plan: made.plan } : [];
  });
  return [{ name: 'equal', plan: equalSplit(model, samples, donors) }, ...drafted];
}

/** The whole model on one donor. */
export const alonePlan = (costs: ClusterCosts, donor: PeerId): Plan | null => {
  const place = costs.peers.findIndex(({ id }) => id === peerId(donor));
  const draft: Draft = { groups: [[place]], layers: [costs.model.layers], microBatches: 4, schedule: '1f1b' };
  return place < 0 ? null : (planOf(costs, draft)?.plan ?? null);
};

function slowness(costs: ClusterCosts, place: number): number {
  const peer = costs.peers[place];
  return peer ? costs.slowness(peer) : Number.POSITIVE_INFINITY;
}

/** `[0, 3) a 24 | [3, 4) b 12 c 12`: layers, and each member's samples. */
export function planText({ stages, microBatches, schedule }: Plan, donors: readonly PeerId[]): string {
  const letter = (peer: PeerId): string => String(donors.indexOf(peer));
  const parts = stages.map(
    ({ layers: [from, to], members }) =>
      `[${from}, ${to}) ${members.map(({ peer, samples }) => `${letter(peer)}:${samples}`).join(' ')}`,
  );
  return `${schedule} ${microBatches.length} | ${parts.join(' | ')}`;
}
