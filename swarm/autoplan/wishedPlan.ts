/**
 * A cluster's plan as a command line wishes for one (wishes.ts), with what it is predicted to take: in the form of a search's
 * answer, so that a run is judged by the plan that its server would make, whether or not that one searches.
 */
import { type PeerId, type Result, refusal, success } from '../base.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from '../planner/clusterCosts.ts';
import { type ClusterPlan, predictionOf } from '../planner/clusterPlan.ts';
import { memoryOf } from '../planner/draft.ts';
import { forecast } from '../planner/forecast.ts';
import { orderText } from '../planner/otherOrders.ts';
import { replicatedWithin } from '../planner/replicas.ts';
import type { LineCaps } from '../planner/streamWires.ts';
import { counted, secondsText } from '../quantityText.ts';
import { answerWished, capsOf, hostsOf, type PlanWishes } from './wishes.ts';

export function wishedPlan(problem: ClusterProblem, wishes: PlanWishes): Result<ClusterPlan> {
  const { model, batch, replicas } = problem;
  const costs = clusterCosts(problem);
  const buffers = costs.bufferLimits;
  const offer = costs.peers.map(({ id, memoryBytes, hostBytes }) => ({
    ...{ peer: id, memoryBytes, hostBytes, isNeeded: false },
  }));
  const question = { purpose: 'now', offer, inForce: null } as const;
  const called = (peer: PeerId): string => peer;
  const made = answerWished(question, model, batch, wishes, {
    ...{ buffers, lines: lineCaps(costs), called, own: costs.own },
  });
  if (made.answer !== 'plan') return refusal(made.answer === 'none' ? made.reason : 'no plan was found for this run');
  const everyone = offer.map(({ peer }) => peer);
  const run = {
    model,
    batch,
    caps: capsOf(question),
    hosts: hostsOf(question),
    buffers,
    offer: everyone,
    own: costs.own,
  };
  const { plan, reasons } = replicas ? replicatedWithin(run, made.plan, replicas) : { plan: made.plan, reasons: [] };
  const [predicted, memory] = [forecast(costs, plan), memoryOf(costs, plan)];
  const size = `${counted(plan.stages.length, 'stage')}, ${counted(plan.microBatches.length, 'micro-batch')}, ${orderText(plan)}`;
  const said = [
    `${size}: ${secondsText(predicted.stepSeconds)} a step. This server was started with a fixed order of work: with --schedule auto it would look for a faster plan.`,
    ...(made.instead === undefined ? [] : [`${made.instead}.`]),
  ];
  return success({
    plan,
    predicted: predictionOf(costs, predicted, memory),
    idle: everyone
      .filter((peer) => !memory.has(peer))
      .map((peer) => ({ peer, reason: `no ${plan.schedule} plan that has a part for it was found to fit` })),
    reasons: [...said.map((text) => ({ peer: null, text })), ...reasons],
  });
}

const lineCaps = ({ peers }: ClusterCosts): LineCaps => {
  const capOf = (rate: number): number | null => (Number.isFinite(rate) ? rate : null);
  return new Map(peers.map(({ id, upload, download }) => [id, { upload: capOf(upload), download: capOf(download) }]));
};
