/**
 * Which plan a run should have: one pure function of what is known of its donors. Where a plan is needed it is searched for
 * shortly (the run begins, a member is lost or goes); everything else (a newcomer, a drift, other limits) is judged beside
 * the training, and what is worth the change is proposed. Searches are done by others, and may answer late or never: every
 * question is answered all the same. Without `auto` the command line's wishes decide, and this only predicts. Rules AP.
 */
import { assertNever, type PeerId, refusal } from '../base.ts';
import type { PlanAnswer, Question } from '../coordinator/events.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { donorCapacity } from '../planner/equalSplit.ts';
import { fittingSplit } from '../planner/fit.ts';
import { donorGone, donorJoined, donorSaid } from './donorWords.ts';
import { answer, change, isAuto, type Judgement } from './judgement.ts';
import type {
  Comparison,
  Found,
  JudgeEffect,
  JudgeEvent,
  JudgeState,
  MadePlan,
  NeededPlan,
  RunView,
} from './judging.ts';
import { clusterProblem, type KnownDonor, modelOf, type PlanningConfig, searchProblem } from './knownDonors.ts';
import { NO_SAMPLING } from './linkSample.ts';
import { NO_PACE } from './pace.ts';
import { doing, inVain, planFrom } from './progress.ts';
import { NEW_STANDING } from './standing.ts';
import { verdictOn } from './verdict.ts';
import { answerTo, capsOf, type MakePlan, planWished } from './wishes.ts';

/** A search that is needed at once has so long, on however busy a machine; then a plan is made without one. */
const NEEDED_MS = 10_000;
const COMPARED_MS = 60_000;
/** Plans that came out of a search: the one in force, the one that may take over, and those that both replace. */
const MADE_KEPT = 4;

type PlanWanted = Extract<JudgeEvent, { type: 'planWanted' }>;

export const beginJudging = (config: PlanningConfig): JudgeState => ({
  config,
  donors: [],
  pace: NO_PACE,
  linksStanding: NEW_STANDING,
  trial: null,
  planning: null,
  made: [],
  causes: [],
  needed: null,
  comparison: null,
  arrival: null,
  searches: 0,
  sampling: NO_SAMPLING,
});

/** `run`: as the coordinator has it at this moment. */
export function judge(before: JudgeState, event: JudgeEvent, nowMs: number, run: RunView): [JudgeState, JudgeEffect[]] {
  const judgement: Judgement = { state: before, effects: [], run, nowMs };
  handle(judgement, event);
  return [judgement.state, judgement.effects];
}

/** When `deadlineReached` is due, or null. */
export function judgeDeadline({ needed, comparison }: JudgeState): number | null {
  const deadlines = [needed, comparison].flatMap((search) => search?.deadline ?? []);
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}

function handle(judgement: Judgement, event: JudgeEvent) {
  switch (event.type) {
    case 'donorJoined':
      return donorJoined(judgement, event);
    case 'donorGone':
      return donorGone(judgement, event.peer);
    case 'donorSaid':
      return donorSaid(judgement, event.peer, event.message);
    case 'planWanted':
      return planWanted(judgement, event);
    case 'doing':
      return doing(judgement, event.effect);
    case 'searched':
      return searched(judgement, event.search, event.found);
    case 'deadlineReached':
      return expire(judgement);
    case 'settled':
      return compareIfWanted(judgement);
    default:
      assertNever(event);
  }
}

function planWanted(judgement: Judgement, wanted: PlanWanted) {
  const { config, donors, searches } = judgement.state;
  change(judgement, { needed: null, arrival: null });
  if (!isAuto(judgement))
    return answer(judgement, wanted.ask, answerTo(wanted, planWished(modelOf(config), config.batch, config.wishes)));
  if (wanted.purpose === 'arrival') return change(judgement, { arrival: wanted.ask });
  const offer = wanted.offer.map(({ peer }) => peer);
  const problem = searchProblem(config, donors, offer, capsOf(wanted));
  // Nobody of them has measured anything: they are taken for equals.
  if (problem.cluster.peers.length === 0) return answer(judgement, wanted.ask, withoutSearch(config, wanted));
  const deadline = judgement.nowMs + NEEDED_MS;
  change(judgement, { needed: { search: searches, ask: wanted.ask, question: wanted, deadline } });
  search(judgement, problem, 'atOnce');
}

function search(
  judgement: Judgement,
  problem: Extract<JudgeEffect, { type: 'search' }>['problem'],
  budget: 'atOnce' | 'atLength',
) {
  const { searches } = judgement.state;
  change(judgement, { searches: searches + 1 });
  judgement.effects.push({ type: 'search', search: searches, problem, budget });
}

/** The equal split, as far as donors give the memory. */
function withoutSearch(config: PlanningConfig, question: Question): PlanAnswer {
  const model = modelOf(config);
  const makePlan: MakePlan = (peers, caps) =>
    fittingSplit({ model, batch: config.batch, peers: peers.slice(0, donorCapacity(model)), caps, options: {} });
  return answerTo({ ...question, inForce: null }, makePlan);
}

/** With the memory that they tried. */
const asMeasured = (donors: readonly KnownDonor[], question: Question): Question => ({
  ...question,
  offer: question.offer.map((one) => {
    const known = donors.find(({ peer }) => peer === one.peer)?.profile.memoryBytes ?? Number.POSITIVE_INFINITY;
    const bytes = Math.min(known, one.memoryBytes ?? Number.POSITIVE_INFINITY);
    return { ...one, memoryBytes: Number.isFinite(bytes) ? bytes : null };
  }),
});

const plainly = (plan: Plan): PlanAnswer => ({ answer: 'plan', plan, reason: 'a plan was needed' });

/** The search knows only those who measured something: the others may do. */
function refused({ state: { config, donors } }: Judgement, { question }: NeededPlan, reason: string): PlanAnswer {
  const made = withoutSearch(config, asMeasured(donors, question));
  return made.answer === 'plan' ? made : { answer: 'none', reason };
}

function searched(judgement: Judgement, number: number, came: Found) {
  const { needed, comparison } = judgement.state;
  const found = namesOnly(judgement.run.offer, came);
  if (needed?.search === number) {
    change(judgement, { needed: null });
    if (found.ok) remember(judgement, found.value, [], false);
    answer(judgement, needed.ask, found.ok ? plainly(found.value.plan) : refused(judgement, needed, found.reason));
  }
  if (comparison?.search !== number) return;
  change(judgement, { comparison: null });
  compare(judgement, comparison, found);
}

/** Whatever searches: nobody computes who is not here. */
function namesOnly(offer: readonly PeerId[], found: Found): Found {
  const stranger = found.ok ? peersOf(found.value.plan).find((peer) => !offer.includes(peer)) : undefined;
  return stranger === undefined ? found : refusal(`the plan that was found names ${stranger}, who is not here`);
}

function remember(
  judgement: Judgement,
  { plan, reasons, idle }: Extract<Found, { ok: true }>['value'],
  by: readonly PeerId[],
  isJudged: boolean,
) {
  const all = [...reasons, ...idle.map(({ peer, reason }) => ({ peer, text: `left idle: ${reason}.` }))];
  const made: MadePlan = { plan, reasons: all, by, isJudged };
  change(judgement, { made: [...judgement.state.made, made].slice(-MADE_KEPT) });
}

function expire(judgement: Judgement) {
  const { config, donors, needed, comparison } = judgement.state;
  const { nowMs } = judgement;
  if (needed !== null && nowMs >= needed.deadline) {
    const made = withoutSearch(config, asMeasured(donors, needed.question));
    const isMade = made.answer === 'plan';
    // Only the search can find one: it may still answer.
    change(judgement, { needed: isMade ? null : { ...needed, deadline: nowMs + NEEDED_MS } });
    if (isMade) answer(judgement, needed.ask, made);
  }
  if (comparison !== null && nowMs >= comparison.deadline) {
    change(judgement, { comparison: null });
    stays(judgement);
  }
}

/** Where there is a reason to, and a plan in force whose members all stay, a better one is looked for. */
function compareIfWanted(judgement: Judgement) {
  const { config, donors, causes, comparison, searches } = judgement.state;
  const { offer, plan, epoch } = judgement.run;
  if (comparison !== null) return;
  // Where a member goes, the next plan is asked for, and judged when it has begun.
  const isWhole = plan !== null && peersOf(plan).every((peer) => offer.includes(peer));
  if (causes.length > 0) change(judgement, { causes: [] });
  const problem = causes.length > 0 && isWhole ? { ...searchProblem(config, donors, offer), inForce: plan } : null;
  if (problem === null || problem.cluster.peers.length === 0) {
    if (judgement.state.arrival !== null) stays(judgement);
    return;
  }
  const deadline = judgement.nowMs + COMPARED_MS;
  change(judgement, { comparison: { search: searches, causes, offer, epoch, deadline } });
  search(judgement, problem, 'atLength');
}

/** The plan in force stays: said to who asked, or to everyone who is not used. */
function stays(judgement: Judgement) {
  const { arrival } = judgement.state;
  change(judgement, { arrival: null });
  answer(judgement, arrival, { answer: 'stays' });
}

function compare(judgement: Judgement, { causes, offer, epoch }: Comparison, found: Found) {
  const { run } = judgement;
  if (run.epoch !== epoch || run.plan === null || run.offer.join() !== offer.join())
    return change(judgement, { causes: [...causes, ...judgement.state.causes] });
  if (!found.ok) return stays(judgement);
  const { config, donors, pace, planning, arrival } = judgement.state;
  const costs = clusterCosts(clusterProblem(config, searchProblem(config, donors, run.offer)));
  const reason = [...new Set(causes.map((cause) => cause.reason))].join('; ');
  const verdict = verdictOn(costs, run.plan, found.value.plan, pace, reason);
  const { isWorth, sentence, predictedSeconds } = verdict;
  judgement.effects.push({ type: 'log', level: 'info', text: `${sentence}.` });
  planFrom(judgement, run.plan);
  change(judgement, { planning: planning && { ...planning, predictedSeconds, verdict: sentence } });
  const by = [...new Set(causes.flatMap((cause) => cause.by ?? []))];
  if (!isWorth) {
    inVain(judgement, by);
    return stays(judgement);
  }
  remember(judgement, found.value, by, true);
  change(judgement, { arrival: null });
  answer(judgement, arrival, { answer: 'plan', plan: found.value.plan, reason: sentence });
}
