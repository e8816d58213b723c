/** A group's best plan as an island, and what its memory leaves over. */
import { at, got, type PeerId } from '../base.ts';
import { blocksOfStage } from '../model/model.ts';
import { type Plan, peers as peersOf, problems } from '../plan/plan.ts';
import type { WireEncoding } from '../wire.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { memoryOf, planOf } from './draft.ts';
import { type Forecast, forecast } from './forecast.ts';
import type { Group } from './islandGroups.ts';
import type { Part } from './islandMeeting.ts';

/** A group with its plan, as it would run. */
export interface Team {
  readonly group: Group;
  readonly plan: Plan;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
  readonly parts: readonly Part[];
  /** Islands that it computes by turns. */
  readonly turns: number;
  /** How the stream goes between its donors. */
  readonly wire: WireEncoding;
}

/** A stream that is more exact may make a step so much longer. */
const AS_FAST = 1.02;

/** Costs of a group that does so many islands by turns; `planned` are those that it is planned with, which may keep room for owners. */
export type CostsFor = (turns: number, wire: WireEncoding) => Readonly<Record<'planned' | 'own', ClusterCosts>>;

/** With the most exact stream that is about as fast as any. */
export function chosenTeam(
  wires: readonly WireEncoding[],
  costsFor: CostsFor,
  group: Group,
  turns: number,
): Team | null {
  const hasStream = group.judged.draft.groups.length > 1;
  const teams = (hasStream ? wires : wires.slice(0, 1)).flatMap(
    (wire) => teamOf(costsFor(turns, wire), group, turns, wire) ?? [],
  );
  const least = Math.min(...teams.map(({ forecast: { stepSeconds } }) => stepSeconds));
  return teams.find(({ forecast: { stepSeconds } }) => stepSeconds <= AS_FAST * least) ?? null;
}

/** Null where its memory, to the byte, is more than its donors have. */
function teamOf(
  { planned, own: costs }: ReturnType<CostsFor>,
  group: Group,
  turns: number,
  wire: WireEncoding,
): Team | null {
  const drafted = planOf(planned, group.judged.draft);
  if (drafted === null || drafted.missingBytes > 0) return null;
  const { plan } = drafted;
  const memory = memoryOf(costs, plan);
  if (problems(costs.model, costs.batch, plan).length > 0) return null;
  const isFull = (id: PeerId): boolean => got(memory, id) > at(costs.peers, costs.placeOf(id)).memoryBytes;
  if (peersOf(plan).some(isFull)) return null;
  const parts = peersOf(plan).map((id): Part => {
    const stages = plan.stages.filter(({ members }) => members.some(({ peer }) => peer === id));
    const held = stages.flatMap(({ layers }) => blocksOfStage(costs.model, layers).flatMap(({ ranges }) => ranges));
    const kept = plan.state.flatMap(({ shards }) => shards.filter(({ peer }) => peer === id));
    const elements = (ranges: readonly (readonly [number, number])[]) =>
      ranges.reduce((sum, [from, to]) => sum + to - from, 0);
    const place = costs.placeOf(id);
    const { memoryBytes, hostBytes } = at(costs.peers, place);
    const primary = elements(kept.map(({ range }) => range));
    return {
      place,
      primary: turns * primary,
      held: elements(held),
      // What is kept for meetings may lie in main memory, as far as planes leave it over.
      free: memoryBytes - got(memory, id) + Math.max(0, hostBytes - costs.planeBytes * primary),
    };
  });
  return { group, plan, forecast: forecast(costs, plan), memory, parts, turns, wire };
}
