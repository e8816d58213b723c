/** A group's best plan as an island, and what its memory leaves over. */
import { at, got, type PeerId } from '../base.ts';
import { blocksOfStage } from '../model/model.ts';
import { type Plan, peers as peersOf, problems } from '../plan/plan.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { memoryOf, planOf, roomyBytes, withConnections, withLinks } from './draft.ts';
import { type Forecast, forecast } from './forecast.ts';
import type { Group } from './islandGroups.ts';
import type { Part } from './islandMeeting.ts';

/** A group with its plan, as it would run. */
export interface Team {
  /** Of its group, with as many turns. */
  readonly costs: ClusterCosts;
  readonly group: Group;
  readonly plan: Plan;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
  readonly parts: readonly Part[];
  /** Islands that it computes by turns. */
  readonly turns: number;
}

/** Costs of a group that does so many islands by turns; `planned` are those that it is planned with, which may keep room for owners. */
export type CostsFor = (turns: number) => Readonly<Record<'planned' | 'own', ClusterCosts>>;

/** With streams as exact as leave it as many steps in so many seconds. */
export function exact(team: Team, steps: number, seconds: number): Team {
  const { costs } = team;
  if (costs.batch.wire !== 'auto') return team;
  const plan = withLinks(costs, team.plan, steps > 0 ? seconds / steps : undefined);
  return { ...team, plan, forecast: forecast(costs, plan), memory: memoryOf(costs, plan) };
}

/** Null where its memory, to the byte, is more than its donors have. */
export function teamOf(costsFor: CostsFor, group: Group, turns: number): Team | null {
  const { planned, own: costs } = costsFor(turns);
  const drafted = planOf(planned, group.judged.draft);
  if (drafted === null || drafted.missingBytes > 0) return null;
  const plan = withConnections(costs, drafted.plan);
  const [memory, roomy] = [memoryOf(costs, plan), roomyBytes(costs, plan)];
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
      free:
        memoryBytes -
        (got(roomy, id) <= memoryBytes ? got(roomy, id) : got(memory, id)) +
        Math.max(0, hostBytes - costs.planeBytes * primary),
    };
  });
  return { costs, group, plan, forecast: forecast(costs, plan), memory, parts, turns };
}
