/** What a plan is predicted to take, by what is known of its members. */
import { type PeerId, peerId } from '../base.ts';
import { UNSHARED_STEP_MS } from '../coordinator/deadlines.ts';
import type { Predicted } from '../coordinator/events.ts';
import { tensorBytes } from '../messages/frame.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { streamsOf } from '../plan/planLink.ts';
import type { Cluster } from '../planner/cluster.ts';
import { clusterCosts, flow, flowSeconds } from '../planner/clusterCosts.ts';
import { forecast } from '../planner/forecast.ts';
import { linkRate } from '../simulate/links.ts';
import { meetingPassages } from '../ways/meeting.ts';
import { believed } from './believed.ts';
import { clusterProblem, searchProblem } from './knownDonors.ts';
import type { ReplannerState } from './replannerState.ts';
import { loadingSeconds, movingSeconds } from './worth.ts';

function costsOf(
  { config, donors }: ReplannerState,
  plan: Pick<Plan, 'links'>,
  members: readonly PeerId[],
  as: 'now' | 'planned',
) {
  const problem = searchProblem(config, donors, members, new Map(), as);
  if (problem.cluster.peers.length < members.length) return null;
  return clusterCosts(clusterProblem(config, { ...problem, cluster: connected(problem.cluster, plan) }));
}

/** As far as deadlines believe it: each member's word is held against those of all who are here. */
function believedCosts({ config, donors }: ReplannerState, plan: Plan, members: readonly PeerId[]) {
  const here = donors.map(({ peer }) => peer);
  const problem = searchProblem(config, donors, here, new Map(), 'now');
  const known = new Set(problem.cluster.peers.map(({ id }) => peerId(id)));
  if (!members.every((peer) => known.has(peer))) return null;
  const cluster = believed(connected(problem.cluster, plan), donors, config.batch.samples);
  return clusterCosts(clusterProblem(config, { ...problem, cluster }));
}

/** Links carry what the connections of this plan do, not those that another could have. */
export function connected(cluster: Cluster, plan: Pick<Plan, 'links'>): Cluster {
  const { peers, links } = cluster;
  if (links.pairs.every(({ windowBytes }) => windowBytes === undefined)) return cluster;
  const pairs = links.pairs.map((pair) => {
    const { between, windowBytes = null, ...rest } = pair;
    if (windowBytes === null) return pair;
    const [one, other] = between;
    const { latencySeconds = 0, bytesPerSecond = null } = { ...links.default, ...rest };
    const streams = streamsOf(plan.links, peerId(one)).get(peerId(other)) ?? 1;
    return { between, ...rest, bytesPerSecond: linkRate({ latencySeconds, bytesPerSecond, windowBytes, streams }) };
  });
  return { peers, links: { ...links, pairs } };
}

/** Seconds of a step, by what is known now (or was, when the plan was made); null where a member measured nothing. */
export function predictedSeconds(state: ReplannerState, plan: Plan, as: 'now' | 'planned' = 'now'): number | null {
  const costs = costsOf(state, plan, peersOf(plan), as);
  return costs && forecast(costs, plan).stepSeconds;
}

/**
 * Seconds of a meeting of groups with these plans: the packets on their way, and the server's word there and back. What is
 * worked out of them is not counted. Null where a member measured nothing.
 */
export function predictedMeetingSeconds(state: ReplannerState, plans: readonly Plan[]): number | null {
  const { islands } = state.config.batch;
  const costs = costsOf(state, { links: plans.flatMap(({ links = [] }) => links) }, plans.flatMap(peersOf), 'now');
  if (costs === null || islands === undefined) return null;
  const sent = flow();
  const groups = plans.map((plan) => ({ islands: plan.islands ?? [], state: plan.state }));
  for (const { from, to, tensor } of meetingPassages(costs.model, islands, groups))
    sent.add(costs.placeOf(from), costs.placeOf(to), tensorBytes(tensor));
  const seconds = costs.peers.map(({ serverSeconds }, place) => 2 * serverSeconds + flowSeconds(costs, place, sent));
  return Math.max(...seconds);
}

/** For deadlines (believed.ts). `inForce`: whose members have the state; null: the server has it. */
export function predictedOf(state: ReplannerState, plan: Plan, inForce: Plan | null): Predicted {
  const costs = believedCosts(state, plan, peersOf(plan));
  const involved = inForce && [...new Set([...peersOf(inForce), ...peersOf(plan)])];
  const moving = involved ? believedCosts(state, plan, involved) : costs;
  // Nobody else is here to hold its word against.
  const mostMs = state.donors.length === 1 && !state.donors[0]?.isOwn ? UNSHARED_STEP_MS : Infinity;
  const seconds =
    moving && (inForce ? movingSeconds(moving.model, moving, inForce, plan) : loadingSeconds(moving, plan));
  return {
    stepMs: costs && Math.min(mostMs, 1_000 * forecast(costs, plan).stepSeconds),
    movingMs: seconds === null ? null : Math.min(mostMs, 1_000 * seconds),
  };
}
