/** What the pages show of a run: a pure view of the coordinator's state, the same for donors and operator. */
import { assertNever, type PeerId, totalOf } from '../base.ts';
import { isRecorded, roundEnd, roundSoFar } from '../islands/rounds.ts';
import type { Snapshot } from '../messages/snapshot.ts';
import { peers } from '../plan/plan.ts';
import { counted, groupedText } from '../quantityText.ts';
import { usedMsAt } from './budget.ts';
import { type CoordinatorState, type Donor, dutiesIn, type Lack, planInForce } from './state.ts';
import { nextStepOf } from './stepsAhead.ts';
import { offerOf, uncopied, uncopiedSentence } from './successor.ts';
import { reportersOf } from './tally.ts';

export function snapshot(state: CoordinatorState, now: number): Snapshot {
  const { config, phase } = state;
  const blocks = uncopied(state);
  return {
    run: config.name,
    phase: shownPhase(phase),
    ...(phase.name === 'stopped' ? { isStopped: true } : {}),
    ...(phase.name === 'diverged' ? { hasDiverged: true } : {}),
    ...(phase.name === 'returning' ? { isReturning: true } : {}),
    sentence: [sentence(state), uncopiedSentence(blocks)].filter(Boolean).join(' '),
    ...(blocks.length > 0 ? { uncopied: blocks } : {}),
    generation: state.generation,
    epoch: state.epoch,
    committedSteps: state.committedSteps,
    steps: stepsShown(state, now),
    ...(config.train.budget
      ? { time: { seconds: config.train.budget.seconds, usedSeconds: usedMsAt(state, now) / 1_000 } }
      : {}),
    loss: state.loss,
    ...(config.batch.adapter?.beta !== undefined && { lossPer: 'pair' as const }),
    evaluationLoss: state.evaluationLoss,
    tokensPerSecond: tokensPerSecond(state, now),
    donors: state.donors.map((donor) => ({
      peer: donor.peer,
      adapter: donor.adapter,
      state: donorState(state, donor),
      stages: stagesOf(state, donor.peer),
      tokens: donor.tokens,
    })),
    ...(config.train.islands ? { groups: [groupOf(state)] } : {}),
  };
}

/** Of a run that ends with its time: as many as there will be at the newest steps' pace. */
function stepsShown(state: CoordinatorState, now: number): number {
  const { config, committedSteps, newestSteps } = state;
  const { budget } = config.train;
  if (!budget || config.steps !== config.train.steps) return config.steps;
  const seconds = totalOf(newestSteps, (step) => step.seconds);
  const left = budget.seconds - usedMsAt(state, now) / 1_000;
  return committedSteps + Math.max(1, Math.ceil(seconds > 0 ? (left * newestSteps.length) / seconds : left));
}

/** Everyone in the plan computes all islands of this group, by turns. */
function groupOf(state: CoordinatorState): NonNullable<Snapshot['groups']>[number] {
  const { config, committedSteps, met } = state;
  const { own, train } = config;
  const plan = planInForce(state)?.plan;
  const donors = plan ? peers(plan) : [];
  if (isRecorded(train)) {
    const [island = null] = own ?? [];
    const islands = island === null ? [] : [{ number: island, innerStep: committedSteps - met, innerSteps: null }];
    return { donors, round: state.turn?.round ?? 0, active: isMeeting(state) ? null : island, islands };
  }
  if (own === undefined) return { donors, ...roundSoFar(train, committedSteps) };
  const next = met < config.steps ? nextStepOf(state) : null;
  const { round, active, islands } = roundSoFar(train, next ?? roundEnd(train, met) - 1);
  const mine = islands.filter(({ number }) => own.includes(number));
  if (next !== null) return { donors, round, active, islands: mine };
  // It waits for the meeting.
  return { donors, round, active: null, islands: mine.map((one) => ({ ...one, innerStep: one.innerSteps })) };
}

/** Its round is done: it waits for what comes of the meeting, or for other groups who have still to end theirs. */
export const isMeeting = ({ phase }: Pick<CoordinatorState, 'phase'>): boolean =>
  phase.name === 'holding' && phase.awaits === 'groups';

function shownPhase(phase: CoordinatorState['phase']): Snapshot['phase'] {
  const { name } = phase;
  // A meeting is a part of the training, as a step is.
  if (isMeeting({ phase })) return 'training';
  // The next step waits for the save before: nothing is prepared anew.
  if (name === 'holding' && (phase.awaits === 'checkpoint' || phase.awaits === 'audits')) return 'saving';
  if (name === 'stopped' || name === 'diverged') return 'paused';
  if (name === 'returning') return 'waiting';
  return name === 'holding' || name === 'planning' ? 'preparing' : name;
}

function donorState(state: CoordinatorState, { peer, wish, isApart }: Donor): Snapshot['donors'][number]['state'] {
  if (wish === 'paused') return 'paused';
  const inForce = planInForce(state);
  if (inForce === null || isApart) return 'joining';
  if (!dutiesIn(inForce, peer)) {
    const { ask, proposal } = state;
    const isComing = proposal !== null && peers(proposal.plan).includes(peer);
    return isComing || (ask !== null && ask.answer === null) ? 'joining' : 'spare';
  }
  return state.phase.name === 'preparing' && state.phase.waitingFor.includes(peer) ? 'joining' : 'computing';
}

function stagesOf(state: CoordinatorState, peer: PeerId): Snapshot['donors'][number]['stages'] {
  const stages = planInForce(state)?.plan.stages ?? [];
  return stages.flatMap(({ layers, members }, stage) =>
    members.some((member) => member.peer === peer) ? { stage, layers } : [],
  );
}

/** A save or a moment's wait between two steps takes nothing from what the steps made. */
const HAS_PACE: ReadonlySet<CoordinatorState['phase']['name']> = new Set([
  'training',
  'evaluating',
  'saving',
  'holding',
]);

/** Over the last committed steps; a step that takes longer than they did lowers it while it lasts. */
function tokensPerSecond({ phase, newestSteps }: CoordinatorState, now: number): number | null {
  if (!HAS_PACE.has(phase.name)) return null;
  const slowest = Math.max(0, ...newestSteps.map(({ seconds }) => seconds));
  const elapsed = phase.name === 'training' ? (now - phase.startedAt) / 1000 : 0;
  const seconds = totalOf(newestSteps, (step) => step.seconds) + Math.max(0, elapsed - slowest);
  const tokens = totalOf(newestSteps, (step) => step.tokens);
  // Before the first step of a plan, or of a round, nothing is known.
  return tokens > 0 && seconds > 0 ? tokens / seconds : null;
}

function returningText(back: number, committedSteps: number): string {
  const begins = (whose: string) =>
    `Step ${groupedText(committedSteps + 1)} begins when ${whose} are back, or soon without them.`;
  if (back === 0) return `The server is back. ${begins('its donors')}`;
  const some = back === 1 ? 'so is one' : `so are ${back}`;
  return `The server is back, and ${some} of its donors. ${begins('the others')}`;
}

function sentence(state: CoordinatorState): string {
  const { phase, config, committedSteps, operator } = state;
  const when = config.train.islands ? 'At the next meeting' : 'Then';
  const then = operator === 'run' ? '' : ` ${when} the run ${operator === 'stop' ? 'stops' : 'pauses'}.`;
  switch (phase.name) {
    case 'waiting':
      return waitingSentence(phase.lack);
    case 'returning':
      return `${returningText(phase.back.length, committedSteps)}${then}`;
    case 'diverged':
      return phase.sentence;
    case 'preparing':
      return `Waiting for ${counted(phase.waitingFor.length, 'donor')} to get ready for step ${groupedText(committedSteps + 1)}.${then}`;
    case 'planning':
      if (state.ask?.answer?.answer === 'none')
        return `No plan for these donors: ${state.ask.answer.reason}. They wait until another one comes.${then}`;
      return `Working out who does what, for ${counted(offerOf(state).length, 'donor')}, before step ${groupedText(committedSteps + 1)}.${then}`;
    case 'holding':
      if (isMeeting(state)) return `The islands meet.${then}`;
      if (phase.awaits === 'audits') return AUDITS_TEXT;
      if (phase.awaits === 'checkpoint')
        return `Finishing a save before step ${groupedText(committedSteps + 1)}.${then}`;
      return `Waiting a moment for a donor that is joining, before step ${groupedText(committedSteps + 1)}.${then}`;
    case 'training':
      return `${trainingText(reportersOf(phase.inForce.duties).length)} ${stepText(state, phase.step)}.${then}`;
    case 'evaluating':
      return `Testing the model on unseen text after ${counted(committedSteps, 'step')}.${then}`;
    case 'saving':
      return `Saving the state after ${counted(committedSteps, 'step')}.${then}`;
    case 'paused':
      return `Paused by the operator after ${counted(committedSteps, 'step')}.`;
    case 'stopped':
      return `Stopped after ${counted(committedSteps, 'step')}. Everything is saved.`;
    case 'finished':
      return config.train.budget
        ? `Finished: its time is over, after ${counted(committedSteps, 'step')}.`
        : `Finished: all ${counted(config.steps, 'step')} are done.`;
    default:
      return assertNever(phase);
  }
}

/** Where other groups do other steps of the same run, how far this group is in the round that all of them are in. */
function stepText(state: CoordinatorState, step: number): string {
  const { steps, own } = state.config;
  const { round, active, islands } = groupOf(state);
  const island = islands.find(({ number }) => number === active);
  const ofAll = state.config.train.budget ? '' : ` of ${groupedText(steps)}`;
  if (own === undefined || !island) return `step ${groupedText(step + 1)}${ofAll}`;
  const all = island.innerSteps === null ? '' : ` of ${groupedText(island.innerSteps)}`;
  return `island ${island.number + 1} in round ${groupedText(round + 1)}, step ${groupedText(island.innerStep + 1)}${all}`;
}

const AUDITS_TEXT = 'Every step is done. Checking the last of what donors computed.';

const trainingText = (donors: number): string => `${counted(donors, 'donor')} ${donors === 1 ? 'is' : 'are'} training`;

function waitingSentence(lack: Lack): string {
  switch (lack.of) {
    case 'firstDonor':
      return 'Waiting for the first donor.';
    case 'donor':
      return 'Waiting for a donor.';
    case 'donors':
      return `Waiting for donors: ${lack.here} of ${lack.expected} are here.`;
    case 'plan':
      return `No plan for these donors: ${lack.reason}`;
    case 'state':
      return `No checkpoint loads: ${lack.reason}.`;
    case 'audits':
      return AUDITS_TEXT;
    case 'groups':
      return `Waiting for the other groups: ${lack.reason}.`;
    default:
      return assertNever(lack);
  }
}
