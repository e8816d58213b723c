/**
 * The groups that donors at hand could make as islands: those that there are, with others of whoever has no group, and the
 * best of all that `shoal plan` would find. Which of the two a meeting goes on with is decided by what they are predicted to
 * do and what the change costs (worth.ts).
 */
import { type PeerId, type Result, refusal, success } from '../base.ts';
import { peers } from '../plan/plan.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from '../planner/clusterCosts.ts';
import { type IslandPlan, planGroups, planIslands } from '../planner/islandPlan.ts';
import { islandsAsked } from '../planner/plannedRun.ts';
import { clusterProblem, type PlanningConfig, type SearchProblem } from './knownDonors.ts';
import { isWorth, loadingSeconds, savingSeconds } from './worth.ts';

export type Groups = readonly (readonly PeerId[])[];

/** Groups, and what all of them together take for a step. */
interface Judged {
  readonly groups: Groups;
  /** Null: none of them is predicted to end one in a round. */
  readonly stepSeconds: number | null;
}

export interface GroupsFound {
  /** With all groups that there are. */
  readonly kept: Judged;
  readonly best: Judged;
  /** From the one to the other: what is shared is saved, and new islands load it. */
  readonly costSeconds: number;
}

/** What such a search is about: plain data. */
export interface GroupsProblem {
  readonly problem: SearchProblem;
  /** The groups that there are, the one that saves first. */
  readonly standing: Groups;
}

export function findGroups(config: PlanningConfig, { problem, standing }: GroupsProblem): Result<GroupsFound> {
  const { islands } = config.batch;
  if (islands?.count !== 'auto') return refusal('the run does not make as many islands as groups');
  const asked = { ...islandsAsked(islands), rounds: { count: 'auto', roundSeconds: islands.roundSeconds } } as const;
  const costs = clusterCosts(clusterProblem(config, problem));
  // What islands keep beside their model is counted by what plans them.
  const { islands: _, ...batch } = config.batch;
  const among = (isIn: (peer: string) => boolean): ClusterProblem => {
    const of = clusterProblem({ ...config, batch }, problem);
    return { ...of, cluster: { ...of.cluster, peers: of.cluster.peers.filter(({ id }) => isIn(id)) } };
  };
  const members = new Set<string>(standing.flat());
  const isFree = (peer: string): boolean => !members.has(peer);
  const free = costs.peers.some(({ id }) => isFree(id)) ? planIslands(among(isFree), asked) : null;
  const groups = [...standing, ...(free?.ok ? groupsIn(free.value) : [])];
  const known = groups
    .map((group) => group.filter((peer) => costs.peers.some(({ id }) => id === peer)))
    .filter(({ length }) => length > 0);
  if (known.length === 0) return refusal('nobody has measured anything');
  const all = among(() => true);
  const kept = planGroups(all, asked, known);
  const best = planIslands(all, asked);
  const tokens = batch.samples * batch.sequence;
  const secondsOf = (plan: Result<IslandPlan>): number | null =>
    plan.ok ? tokens / plan.value.predicted.tokensPerSecond : null;
  const keptJudged = { groups, stepSeconds: secondsOf(kept) };
  if (!best.ok) return success({ kept: keptJudged, best: keptJudged, costSeconds: 0 });
  return success({
    kept: keptJudged,
    best: { groups: groupsIn(best.value), stepSeconds: secondsOf(best) },
    costSeconds: changeSeconds(costs, standing, best.value),
  });
}

const groupsIn = ({ islands }: IslandPlan): Groups => islands.map(({ plan }) => peers(plan));

const nameOf = (group: readonly PeerId[]): string => group.toSorted().join(' ');

/** Somebody saves all that is shared, and whoever begins anew loads it. */
function changeSeconds(costs: ClusterCosts, standing: Groups, { islands }: IslandPlan): number {
  const known = new Set(standing.map(nameOf));
  const begun = islands.flatMap(({ plan }) => (known.has(nameOf(peers(plan))) ? [] : plan));
  const saving = Math.min(...islands.map(({ plan }) => savingSeconds(costs, plan)));
  return begun.length === 0 ? 0 : saving + Math.max(...begun.map((plan) => loadingSeconds(costs, plan)));
}

/** The groups to go on with where so many steps are left. */
export function groupsWorth({ kept, best, costSeconds }: GroupsFound, steps: number): Groups {
  if (best.stepSeconds === null) return kept.groups;
  const nowSeconds = kept.stepSeconds ?? Number.MAX_VALUE;
  return isWorth({ nowSeconds, nextSeconds: best.stepSeconds, costSeconds, steps }) ? best.groups : kept.groups;
}
