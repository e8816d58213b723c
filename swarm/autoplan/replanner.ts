/**
 * Which plan a run should have: one pure function of what is known of its donors. Where a plan is needed it is searched for
 * shortly (the run begins, a member is lost or goes); everything else (a newcomer, a drift, other limits) is judged beside
 * the training, and what is worth the change is proposed. Searches are done by others, and may answer late or never: every
 * question is answered all the same. Without `auto` the command line's wishes decide, and this only predicts.
 */

import { assertNever, type PeerId, refusal, success } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { type ClusterCosts, clusterCosts } from '../planner/clusterCosts.ts';
import { donorCapacity } from '../planner/equalSplit.ts';
import { fittingSplit } from '../planner/fit.ts';
import { moreCopied, wishOf, withCopies } from './copies.ts';
import { donorGone, donorJoined, donorSaid } from './donorWords.ts';
import { isRash, isSeen, workShares } from './doubt.ts';
import { bufferLimitsOf, clusterProblem, type KnownDonor, type PlanningConfig, searchProblem } from './knownDonors.ts';
import { lineCapsOf } from './lines.ts';
import { NO_SAMPLING } from './linkSample.ts';
import { lastSeconds, NO_PACE } from './pace.ts';
import { connected, predictedSeconds } from './predicting.ts';
import { considerTrial, doing, inVain, planFrom } from './progress.ts';
import type {
  Comparison,
  Found,
  FoundPlan,
  NeededPlan,
  ReplannerEffect,
  ReplannerEvent,
  ReplannerState,
  RunView,
} from './replannerState.ts';
import { answer, change, isAuto, ownAmong, type Replanning, remember } from './replanning.ts';
import { NEW_STANDING } from './standing.ts';
import { acquit, suspect } from './suspicion.ts';
import { trialEndMs } from './takeBack.ts';
import { answerTo, answerWished, capsOf, type MakePlan } from './wishes.ts';
import { verdictOn } from './worth.ts';

/** A search that is needed at once has so long, on however busy a machine; then a plan is made without one. */
const NEEDED_MS = 10_000;
const COMPARED_MS = 60_000;
const RASH = 'it stays, because most of the work would be with donors that were not seen at work yet';

type PlanWanted = Extract<ReplannerEvent, { type: 'planWanted' }>;

export const beginReplanning = (config: PlanningConfig): ReplannerState => ({
  config,
  donors: [],
  pace: NO_PACE,
  linksStanding: NEW_STANDING,
  trial: null,
  suspicion: null,
  replaced: null,
  newestPlan: null,
  appraisal: null,
  made: [],
  causes: [],
  needed: null,
  comparison: null,
  arrival: null,
  searches: 0,
  sampling: NO_SAMPLING,
});

/** `run`: as the coordinator has it at this moment. */
export function replan(
  before: ReplannerState,
  event: ReplannerEvent,
  nowMs: number,
  run: RunView,
): [ReplannerState, ReplannerEffect[]] {
  const replanning: Replanning = { state: before, effects: [], run, nowMs };
  handle(replanning, event);
  return [replanning.state, replanning.effects];
}

/** When `deadlineReached` is due, or null. */
export function replannerDeadline({ needed, comparison, trial, pace }: ReplannerState): number | null {
  const searches = [needed, comparison].flatMap((search) => search?.deadline ?? []);
  const deadlines = [...searches, trialEndMs(trial, pace) ?? []].flat();
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}

function handle(replanning: Replanning, event: ReplannerEvent) {
  switch (event.type) {
    case 'donorJoined':
      return donorJoined(replanning, event);
    case 'donorGone':
      return donorGone(replanning, event.peer);
    case 'donorSaid':
      return donorSaid(replanning, event.peer, event.message);
    case 'planWanted':
      return planWanted(replanning, event);
    case 'doing':
      return doing(replanning, event.effect);
    case 'searched':
      return searched(replanning, event.search, event.found);
    case 'deadlineReached':
      return expire(replanning);
    case 'settled':
      return compareIfWanted(replanning);
    default:
      assertNever(event);
  }
}

function planWanted(replanning: Replanning, wanted: PlanWanted) {
  const { config, donors, searches } = replanning.state;
  change(replanning, { needed: null, arrival: null });
  if (!isAuto(replanning)) {
    const { batch, wishes } = config;
    const answered = answerWished(wanted, acceptedModel(config), batch, wishes, {
      lines: lineCapsOf(donors),
      buffers: bufferLimitsOf(config, donors),
      own: ownAmong(replanning),
    });
    return answer(replanning, wanted.ask, withCopies(replanning, wanted, answered));
  }
  if (wanted.purpose === 'arrival') return change(replanning, { arrival: wanted.ask });
  const offer = wanted.offer.map(({ peer }) => peer);
  const replicas = wishOf(replanning, wanted.inForce);
  const problem = { ...searchProblem(config, donors, offer, capsOf(wanted)), replicas };
  // Nobody of them has measured anything: they are taken for equals.
  if (problem.cluster.peers.length === 0) return answer(replanning, wanted.ask, withoutSearch(replanning, wanted));
  const deadline = replanning.nowMs + NEEDED_MS;
  change(replanning, { needed: { search: searches, ask: wanted.ask, question: wanted, deadline, ofStrangers: null } });
  search(replanning, problem, 'atOnce');
}

function search(
  replanning: Replanning,
  problem: Extract<ReplannerEffect, { type: 'search' }>['problem'],
  budget: 'atOnce' | 'atLength',
) {
  const { searches } = replanning.state;
  change(replanning, { searches: searches + 1 });
  replanning.effects.push({ type: 'search', search: searches, problem, budget });
}

/** The equal split, as far as donors give the memory. */
function withoutSearch(replanning: Replanning, question: PlanWanted): PlanAnswer {
  const { config, donors } = replanning.state;
  const { batch } = config;
  const model = acceptedModel(config);
  const [buffers, own] = [bufferLimitsOf(config, donors), ownAmong(replanning)];
  const makePlan: MakePlan = (peers, caps, hosts = new Map()) =>
    fittingSplit({
      ...{ model, batch, caps, hosts, buffers, options: {}, lines: lineCapsOf(donors), own },
      peers: peers.slice(0, donorCapacity(model)),
    });
  return withCopies(replanning, question, answerTo({ ...question, inForce: null }, makePlan, { buffers, own }));
}

/** With the memory that they tried. */
const asMeasured = (donors: readonly KnownDonor[], question: PlanWanted): PlanWanted => ({
  ...question,
  offer: question.offer.map((one) => {
    const known = donors.find(({ peer }) => peer === one.peer)?.profile.memoryBytes ?? Infinity;
    const bytes = Math.min(known, one.memoryBytes ?? Infinity);
    return { ...one, memoryBytes: Number.isFinite(bytes) ? bytes : null };
  }),
});

const plainly = (plan: Plan): PlanAnswer => ({ answer: 'plan', plan, reason: 'a plan was needed' });

/** The search knows only those who measured something: the others may do. */
function refused(replanning: Replanning, { question }: NeededPlan, reason: string): PlanAnswer {
  const made = withoutSearch(replanning, asMeasured(replanning.state.donors, question));
  return made.answer === 'plan' ? made : { answer: 'none', reason };
}

function searched(replanning: Replanning, number: number, came: Found) {
  const { needed, comparison } = replanning.state;
  const found = namesOnly(replanning.run.offer, came);
  if (needed?.search === number) {
    if (found.ok && seekAmongSeen(replanning, needed, found.value)) return;
    const strangers = livingOf(replanning.run.offer, needed.ofStrangers);
    const chosen = found.ok ? withIdle(found.value, strangers) : strangers;
    change(replanning, { needed: null });
    if (chosen !== null) remember(replanning, chosen, [], false);
    const why = found.ok ? '' : found.reason;
    answer(replanning, needed.ask, chosen ? plainly(chosen.plan) : refused(replanning, needed, why));
  }
  if (comparison?.search !== number) return;
  change(replanning, { comparison: null });
  compare(replanning, comparison, found);
}

/** Whoever was seen at work is not left out for those who were not, but where there is no plan without them. */
function seekAmongSeen(replanning: Replanning, needed: NeededPlan, found: FoundPlan): boolean {
  const { config, donors, searches } = replanning.state;
  const { offer, inForce } = needed.question;
  const seen = donors.filter((donor) => isSeen(donor) && offer.some(({ peer }) => peer === donor.peer));
  const workers = workShares(found.plan);
  if (needed.ofStrangers !== null || seen.length === 0 || seen.some(({ peer }) => workers.has(peer))) return false;
  const peers = seen.map(({ peer }) => peer);
  const replicas = wishOf(replanning, inForce);
  const problem = { ...searchProblem(config, donors, peers, capsOf(needed.question)), replicas };
  if (problem.cluster.peers.length === 0) return false;
  change(replanning, { needed: { ...needed, search: searches, ofStrangers: found } });
  search(replanning, problem, 'atOnce');
  return true;
}

const livingOf = (offer: readonly PeerId[], plan: FoundPlan | null): FoundPlan | null =>
  plan !== null && namesOnly(offer, success(plan)).ok ? plan : null;

/** Strangers who are left out for those who were seen. */
function withIdle(found: FoundPlan, ofStrangers: FoundPlan | null): FoundPlan {
  if (ofStrangers === null) return found;
  const reason = 'it was not seen at work yet, and would take the place of those who were';
  return { ...found, idle: [...found.idle, ...peersOf(ofStrangers.plan).map((peer) => ({ peer, reason }))] };
}

/** Whatever searches: nobody computes who is not here. */
function namesOnly(offer: readonly PeerId[], found: Found): Found {
  const stranger = found.ok ? peersOf(found.value.plan).find((peer) => !offer.includes(peer)) : undefined;
  return stranger === undefined ? found : refusal(`the plan that was found names ${stranger}, who is not here`);
}

function expire(replanning: Replanning) {
  considerTrial(replanning);
  const { donors, needed, comparison } = replanning.state;
  const { nowMs } = replanning;
  if (needed !== null && nowMs >= needed.deadline) {
    const ofStrangers = livingOf(replanning.run.offer, needed.ofStrangers);
    if (ofStrangers !== null) remember(replanning, ofStrangers, [], false);
    const made =
      ofStrangers === null ? withoutSearch(replanning, asMeasured(donors, needed.question)) : plainly(ofStrangers.plan);
    const isMade = made.answer === 'plan';
    // Only the search can find one: it may still answer.
    change(replanning, { needed: isMade ? null : { ...needed, deadline: nowMs + NEEDED_MS } });
    if (isMade) answer(replanning, needed.ask, made);
  }
  if (comparison !== null && nowMs >= comparison.deadline) {
    change(replanning, { comparison: null });
    stays(replanning);
  }
}

/** Where there is a reason to, and a plan in force whose members all stay, a better one is looked for. */
function compareIfWanted(replanning: Replanning) {
  const { config, donors, causes, comparison, searches } = replanning.state;
  const { offer, plan, epoch } = replanning.run;
  if (comparison !== null) return;
  // Where a member goes, the next plan is asked for, and judged when it has begun.
  const isWhole = plan !== null && peersOf(plan).every((peer) => offer.includes(peer));
  if (causes.length > 0) change(replanning, { causes: [] });
  const problem =
    causes.length > 0 && isWhole
      ? { ...searchProblem(config, donors, offer), inForce: plan, replicas: wishOf(replanning, plan) }
      : null;
  if (problem === null || problem.cluster.peers.length === 0) {
    if (replanning.state.arrival !== null) stays(replanning);
    return;
  }
  const deadline = replanning.nowMs + COMPARED_MS;
  change(replanning, { comparison: { search: searches, causes, offer, epoch, deadline } });
  search(replanning, problem, 'atLength');
}

/** The plan in force stays: said to who asked, or to everyone who is not used. */
function stays(replanning: Replanning) {
  const { arrival } = replanning.state;
  change(replanning, { arrival: null });
  answer(replanning, arrival, { answer: 'stays' });
}

function compare(replanning: Replanning, { causes, offer, epoch }: Comparison, found: Found) {
  const { run } = replanning;
  if (run.epoch !== epoch || run.plan === null || run.offer.join() !== offer.join())
    return change(replanning, { causes: [...causes, ...replanning.state.causes] });
  if (!found.ok) return stays(replanning);
  const { config, donors, pace, appraisal, arrival } = replanning.state;
  const problem = searchProblem(config, donors, run.offer);
  const costs = clusterCosts(clusterProblem(config, problem));
  const costsOf = (plan: Plan) => {
    const cluster = connected(problem.cluster, plan);
    return cluster === problem.cluster ? costs : clusterCosts(clusterProblem(config, { ...problem, cluster }));
  };
  const reason = [...new Set(causes.map((cause) => cause.reason))].join('; ');
  const verdict = verdictOn(costsOf, run.plan, found.value.plan, pace, reason);
  const { isWorth, sentence } = verdict;
  const offered = donors.filter(({ peer }) => offer.includes(peer));
  const rash = isRash(found.value.plan, offered);
  replanning.effects.push({ type: 'log', level: 'info', text: `${rash ? `${sentence}; ${RASH}` : sentence}.` });
  planFrom(replanning, run.plan);
  const predicted = predictedSeconds(replanning.state, run.plan);
  change(replanning, { appraisal: appraisal && { ...appraisal, predictedSeconds: predicted, verdict: sentence } });
  const by = [...new Set(causes.flatMap((cause) => cause.by ?? []))];
  if (!isWorth || rash) {
    inVain(replanning, by);
    if (!copyMore(replanning, costs, run.plan)) stays(replanning);
    acquit(replanning);
    const seconds = lastSeconds(pace);
    return seconds === null || replanning.state.trial !== null ? undefined : suspect(replanning, run.plan, seconds);
  }
  remember(replanning, found.value, by, true);
  change(replanning, { arrival: null });
  answer(replanning, arrival, { answer: 'plan', plan: found.value.plan, reason: sentence });
}

/** The plan in force, with copies that it lacks. */
function copyMore(replanning: Replanning, costs: ClusterCosts, plan: Plan): boolean {
  const { arrival } = replanning.state;
  const more = moreCopied(replanning, costs, plan);
  if (more === null) return false;
  const { copied, reason } = more;
  remember(replanning, { ...copied, idle: [] }, [], false);
  change(replanning, { arrival: null });
  answer(replanning, arrival, { answer: 'plan', plan: copied.plan, reason });
  return true;
}
