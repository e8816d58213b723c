/**
 * The groups that donors at hand could make as islands: those that there are, with others of whoever has no group, and the
 * best of all that `shoal plan` would find. Which of the two a meeting goes on with is decided by what they are predicted to
 * do and what the change costs (worth.ts).
 */
import { type PeerId, type Result, refusal, success } from '../base.ts';
import { peers } from '../plan/plan.ts';
import type { Cluster } from '../planner/cluster.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from '../planner/clusterCosts.ts';
import { type IslandPlan, islandsAsked, planGroups, planIslands } from '../planner/islandPlan.ts';
import { savingSeconds } from '../planner/replicas.ts';
import { clusterProblem, type PlanningConfig, type SearchProblem } from './knownDonors.ts';
import { UNMEASURED_LINK } from './lines.ts';
import { isWorth, loadingSeconds } from './worth.ts';

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
    const { peers: all, links } = of.cluster;
    const pairs = links.pairs.filter(({ between }) => between.every(isIn));
    return { ...of, cluster: { ...of.cluster, peers: all.filter(({ id }) => isIn(id)), links: { ...links, pairs } } };
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

/** A donor's speed or line that is so many times as high or as low as when groups were sought makes others worth seeking. */
const DRIFT_FACTOR = 1.5;

/** What groups are sought by of one donor: the seconds a layer takes there and back with one sample, its line in bytes a second. */
export interface DonorPace {
  readonly peer: string;
  readonly layerSeconds: number;
  readonly upload: number;
  readonly download: number;
  /** On its GPU, and in main memory. */
  readonly memoryBytes: number;
}

/** In the order of the cluster. A line that nobody has measured is taken for a good one, as in a plan. */
export const pacesOf = ({ peers }: Cluster): DonorPace[] =>
  peers.map(({ id, measured, uploadBytesPerSecond, downloadBytesPerSecond, memoryBytes, hostBytes = 0 }) => ({
    peer: id,
    layerSeconds: (measured?.forwardSecondsPerLayer[0] ?? 0) + (measured?.backwardSecondsPerLayer[0] ?? 0),
    upload: uploadBytesPerSecond ?? UNMEASURED_LINK.bytesPerSecond,
    download: downloadBytesPerSecond ?? UNMEASURED_LINK.bytesPerSecond,
    memoryBytes: memoryBytes + hostBytes,
  }));

const isFar = (one: number, other: number): boolean => Math.max(one, other) > DRIFT_FACTOR * Math.min(one, other);

/** Whether one who is in both lists is not what it was. Who came or went is no drift. */
export function haveDrifted(before: readonly DonorPace[], now: readonly DonorPace[]): boolean {
  const known = new Map(before.map((pace) => [pace.peer, pace]));
  return now.some((pace) => {
    const was = known.get(pace.peer);
    return (
      was !== undefined &&
      (isFar(was.layerSeconds, pace.layerSeconds) ||
        isFar(was.upload, pace.upload) ||
        isFar(was.download, pace.download))
    );
  });
}
