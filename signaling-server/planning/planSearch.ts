/**
 * The search for a plan as a server can afford it: short where a plan is needed at once, longer in slices between which
 * everything else goes on. Both end after a number of drafts, so that the same donors get the same plan on every machine.
 */
import type { Result } from '../../swarm/base.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, planCluster, planning } from '../../swarm/planner/clusterPlan.ts';
import type { Progress } from '../../swarm/planner/search.ts';

/** Drafts that are judged; of those of a few donors a free machine judges some thousands in a tenth of a second. */
export const AT_ONCE_WORK = 2_000;
const IN_SLICES_WORK = 6_000;
/** With more donors it is looked for among the fastest first: nobody is answered meanwhile. */
const AT_ONCE_PEERS = 24;
/** Looks between two rests; in each some twenty drafts are judged. */
const LOOKS = 4;

const until =
  (most: number) =>
  ({ work }: Progress): boolean =>
    work < most;

/** Where there is no plan yet it is looked for to the end of the search: a refusal stops a run. */
export function planAtOnce(problem: ClusterProblem): Result<ClusterPlan> {
  const few = fastest(problem);
  const found = few === problem ? null : planCluster(few, until(AT_ONCE_WORK), () => []);
  return found?.ok ? found : planCluster(problem, until(AT_ONCE_WORK));
}

function fastest(problem: ClusterProblem): ClusterProblem {
  const { peers } = problem.cluster;
  if (peers.length <= AT_ONCE_PEERS) return problem;
  const seconds = ({ measured }: (typeof peers)[number]): number =>
    (measured?.forwardSecondsPerLayer[0] ?? 0) + (measured?.backwardSecondsPerLayer[0] ?? 0);
  const chosen = peers.toSorted((a, b) => seconds(a) - seconds(b)).slice(0, AT_ONCE_PEERS);
  return { ...problem, cluster: { ...problem.cluster, peers: chosen } };
}

/** `rest` resolves when everything that was waiting has had its turn. */
export async function planInSlices(problem: ClusterProblem, rest: () => Promise<void>): Promise<Result<ClusterPlan>> {
  const looks = planning(problem, until(IN_SLICES_WORK));
  for (let count = 1; ; count++) {
    const look = looks.next();
    if (look.done) return look.value;
    if (count % LOOKS === 0) await rest();
  }
}
