/** Plans of every kind that the executor runs, for the same donors: what the planner's prediction is held against. */
import { at, type PeerId } from '../../swarm/base.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import type { ClusterCosts } from '../../swarm/planner/clusterCosts.ts';
import { judgeDraft, planOf } from '../../swarm/planner/draft.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import type { CutSketch, Draft } from '../../swarm/planner/layout.ts';
import { ownedPlan } from '../../swarm/planner/otherOrders.ts';
import { MOST_REPLICAS } from '../../swarm/run/runFile.ts';
import { firstLayers, recomputing } from '../../swarm/schedule/recompute.ts';
import { badInput } from '../commands/failure.ts';

/** The plan that donors learn by what their work takes, before any plan is measured. */
export const PRACTICE = 'practice';

/** What may be measured: a kind of plan, with `+N` after its name with N replicas of each shard. */
const KINDS = [
  ...['equal', 'stages', 'lanes', 'mixed', 'pair'],
  ...['1f1b', 'overlap', 'eager', 'eager-overlap', 'varuna', 'interleaved', 'breadth-first', 'chimera'],
  ...['gathered', 'layered'],
  'auto',
];

const NAME = new RegExp(String.raw`^(${KINDS.join('|')}|alone \d{1,4})(?:\+([0-${MOST_REPLICAS}]))?$`);

/** The names, separated by commas. */
export function planNames(text: string): string[] {
  const list = text.split(',');
  const unknown = list.find((name) => !NAME.test(name));
  if (unknown === undefined) return list;
  const known = `${KINDS.join(', ')}, alone 0, alone 1 and so on, and each with +0 to +${MOST_REPLICAS} replicas`;
  throw badInput(`--plans: "${unknown}" is unknown: expected ${known}`);
}

/** Undefined replicas: as the plan was made. */
export function partsOf(name: string): { readonly kind: string; readonly replicas: number | undefined } {
  const [, kind = name, replicas] = NAME.exec(name) ?? [];
  return { kind, replicas: replicas === undefined ? undefined : Number(replicas) };
}

interface NamedPlan {
  readonly name: string;
  readonly plan: Plan;
}

/** A grouping of the donors, by their places in the costs' list, the fastest first. */
interface Kind {
  readonly name: string;
  readonly groups: Draft['groups'];
  readonly microBatches: Draft['microBatches'];
  readonly schedule: Draft['schedule'];
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
    const draft = judgeDraft(costs, { groups, microBatches, schedule })?.draft;
    const made = draft && planOf(costs, draft);
    return made ? { name, plan: made.plan } : [];
  });
  return [
    { name: 'equal', plan: equalSplit(model, samples, donors) },
    ...drafted,
    ...orderedPlans(costs, places),
    ...gatheringPlans(costs, places),
  ];
}

/** One stage whose donors gather its blocks from one another, each block once a micro-batch, and once for all of a pass. */
function gatheringPlans(costs: ClusterCosts, places: readonly number[]): NamedPlan[] {
  const draft = judgeDraft(costs, { groups: [places], microBatches: 2 * places.length, schedule: 'gpipe' })?.draft;
  const made = draft && planOf(costs, draft)?.plan;
  if (!made || places.length < 2) return [];
  const gathered = { ...made, stages: made.stages.map((stage) => ({ ...stage, gathered: 1 as const })) };
  const layered = { ...gathered, stages: gathered.stages.map((stage) => ({ ...stage, layered: true as const })) };
  return [
    { name: 'gathered', plan: gathered },
    { name: 'layered', plan: layered },
  ];
}

/** The same donors in every order: a stage each, or what the order asks for; as many micro-batches, so that all can be compared. */
function orderedPlans(costs: ClusterCosts, places: readonly number[]): NamedPlan[] {
  const groups = places.map((place) => [place]);
  const draft = judgeDraft(costs, { groups, microBatches: 2 * places.length, schedule: '1f1b' })?.draft;
  const made = draft && planOf(costs, draft)?.plan;
  if (!made) return [];
  const again = made.stages.slice(0, -1).flatMap(({ layers }) => firstLayers(layers));
  const peers = places.map((place) => at(costs.peers, place).id);
  const alike = [
    ...peers.filter((_, place) => place % 2 === 0),
    ...peers.filter((_, place) => place % 2 === 1).reverse(),
  ];
  const microBatches = 2 * places.length;
  const owned = [
    { name: 'interleaved', plan: ownedPlan(costs, peers, { schedule: 'interleaved', chunks: 2, microBatches }) },
    { name: 'breadth-first', plan: ownedPlan(costs, peers, { schedule: 'breadth-first', chunks: 2, microBatches }) },
    { name: 'chimera', plan: ownedPlan(costs, alike, { schedule: 'chimera', pairs: 1, microBatches }) },
  ];
  return [
    { name: '1f1b', plan: made },
    { name: 'overlap', plan: { ...made, warmup: 'overlap' } },
    { name: 'eager', plan: { ...made, schedule: 'eager' } },
    { name: 'eager-overlap', plan: { ...made, schedule: 'eager', warmup: 'overlap' } },
    { name: 'varuna', plan: recomputing({ ...made, schedule: 'varuna' }, again) },
    ...owned.flatMap(({ name, plan }) => (plan ? { name, plan } : [])),
  ];
}

/** A plan of a kind; null: none can be made for these donors. */
export function planOfKind(costs: ClusterCosts, donors: readonly PeerId[], kind: string): Plan | null {
  const [, number] = /^alone (\d+)$/.exec(kind) ?? [];
  if (number !== undefined) return alonePlan(costs, donors[Number(number)]);
  return namedPlans(costs, donors).find(({ name }) => name === kind)?.plan ?? null;
}

/** The whole model on one donor. */
const alonePlan = (costs: ClusterCosts, donor: PeerId | undefined): Plan | null => {
  const place = costs.peers.findIndex(({ id }) => id === donor);
  const draft: CutSketch = { groups: [[place]], layers: [costs.model.layers], microBatches: 4, schedule: '1f1b' };
  return place < 0 ? null : (planOf(costs, draft)?.plan ?? null);
};

function slowness(costs: ClusterCosts, place: number): number {
  const peer = costs.peers[place];
  return peer ? costs.slowness(peer) : Infinity;
}

/** `[0, 3) a 24 | [3, 4) b 12 c 12`: layers, and each member's samples. */
export function planText({ stages, microBatches, schedule, warmup }: Plan, donors: readonly PeerId[]): string {
  const letter = (peer: PeerId): string => String(donors.indexOf(peer));
  const parts = stages.map(
    ({ layers: [from, to], gathered, layered, members }) =>
      `[${from}, ${to}) ${gathered ? `gathered ${gathered} ${layered ? 'once a pass ' : ''}` : ''}${members.map(({ peer, samples }) => `${letter(peer)}:${samples}`).join(' ')}`,
  );
  return `${schedule}${warmup ? ` ${warmup}` : ''} ${microBatches.length} | ${parts.join(' | ')}`;
}
