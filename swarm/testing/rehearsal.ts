/**
 * A run without browsers, for the tests: the real coordinator, a store in memory, and what an honest donor would
 * answer. The store and the donors are the judges. Every effect is held against what they know, so that each test,
 * scripted or random, checks all invariants of the step protocol after every event.
 */

import { answerTo } from '../autoplan/wishes.ts';
import { addToKey, invariant, type PeerId, totalOf } from '../base.ts';
import type { Applied, CommitRecord, CoordinatorConfig, KeptPlan, StartState } from '../coordinator/events.ts';
import type { CoordinatorState } from '../coordinator/state.ts';
import { unsavedLimit } from '../coordinator/stepsAhead.ts';
import type { DecisionConfig } from '../decisions/events.ts';
import { isMeeting, roundLength, turnAt } from '../islands/rounds.ts';
import type { LastCommit, ServerMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Block } from '../model/model.ts';
import type { LedgerEntry } from '../plan/ledger.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { LossScale } from '../precision.ts';
import type { Recording } from '../recording/recording.ts';
import { budgetRate, learningRate } from '../run/learningRate.ts';
import {
  AllDecisions,
  CoordinatorAlone,
  type Decider,
  type Planner,
  type RehearsedEffect,
  type RehearsedEvent,
} from './decider.ts';
import { coversState, usesExpected } from './placement.ts';
import type { RehearsalTerms } from './rehearsalTerms.ts';

/** The server's store, as far as the protocol can tell. */
interface Store {
  readonly commits: CommitRecord[];
  readonly evaluations: Map<number, number>;
  checkpoint: number;
  /** In the checkpoint. */
  lossScale: LossScale | null;
  epoch: number;
  generation: number;
  paused: boolean;
  plan: Plan | null;
  /** Of this generation. */
  plans: KeptPlan[];
  lastCommit: LastCommit | null;
  applied: Applied | null;
  readonly ledgers: (readonly LedgerEntry[])[];
}

export interface Rehearsal {
  readonly config: CoordinatorConfig;
  readonly blocks: readonly Block[];
  /** By the step that they are of; else by what is in them. */
  readonly areUploadsNamed: boolean;
  readonly decider: Decider;
  readonly store: Store;
  readonly state: CoordinatorState;
  /** Connected, and not refused. */
  readonly connected: Set<PeerId>;
  /** Peers who said ready to the newest epoch. */
  readonly ready: Set<PeerId>;
  /** Peers who have been in the plan of the newest epoch since everyone was ready, and still live. */
  readonly holding: Set<PeerId>;
  /** Those that had it when the server was killed. */
  readonly heldBefore: Set<PeerId>;
  /** The newest plan that donors were told to get ready for, and who of them said that they are. */
  warm: { readonly number: number; readonly plan: Plan; readonly peers: Set<PeerId> } | null;
  /** The loss scale that stood when so many steps were committed. */
  readonly scales: Map<number, LossScale | null>;
  /** Donors that were let go, or went, since the newest checkpoint: each may have taken a checkpoint on its way with it, while replicas kept the run going. */
  departures: number;
  ended: 'finished' | 'stopped' | null;
}

/** The coordinator alone, with plans as a test makes them. */
export function rehearse(
  { config, blocks, makePlan }: RehearsalTerms,
  planner: Planner = (wanted) => answerTo(wanted, makePlan),
): Rehearsal {
  return rehearsal(config, blocks, (start) => new CoordinatorAlone(config, start, planner));
}

/** All that decides a run. */
export function rehearseDecisions(
  config: DecisionConfig,
  recording: Recording | null,
  areUploadsNamed = true,
): Rehearsal {
  const { blocks } = acceptedModel(config.planning);
  return rehearsal(config.run, blocks, (start) => new AllDecisions(config, start, recording), areUploadsNamed);
}

function rehearsal(
  config: CoordinatorConfig,
  blocks: readonly Block[],
  begin: (start: StartState) => Decider,
  areUploadsNamed = true,
): Rehearsal {
  const store: Store = {
    commits: [],
    evaluations: new Map(),
    checkpoint: 0,
    lossScale: null,
    epoch: 0,
    generation: 0,
    paused: false,
    plan: null,
    plans: [],
    lastCommit: null,
    applied: null,
    ledgers: [],
  };
  const decider = begin(stored(store, false));
  return {
    config,
    blocks,
    areUploadsNamed,
    decider,
    store,
    get state() {
      return decider.coordinator;
    },
    connected: new Set(),
    ready: new Set(),
    holding: new Set(),
    heldBefore: new Set(),
    warm: null,
    scales: new Map([[0, decider.coordinator.lossScale]]),
    departures: 0,
    ended: null,
  };
}

function stored(store: Store, isAway: boolean): StartState {
  const { commits, evaluations, checkpoint, lossScale, epoch, generation, paused, lastCommit, ledgers } = store;
  const isKept = isAway && lastCommit !== null;
  const earned = (from: number): LedgerEntry[] => ledgers.slice(from).flat();
  const evaluatedSteps = evaluations.size === 0 ? null : Math.max(...evaluations.keys());
  return {
    generation,
    epoch,
    committedSteps: commits.length,
    newestCheckpointStep: checkpoint,
    savedLossScale: lossScale,
    operatorPaused: paused,
    evaluatedSteps,
    evaluationLoss: evaluations.get(evaluatedSteps ?? -1) ?? null,
    loss: commits.at(-1)?.loss ?? null,
    lastCommit,
    applied: store.applied,
    plans: isKept ? store.plans.filter(({ epochs }) => (epochs.at(-1) ?? 0) >= (lastCommit?.epoch ?? 0)) : [],
    credit: isKept ? summed(earned(0)) : [],
    unsaved: isKept ? [{ step: checkpoint, ledger: summed(earned(checkpoint)) }] : [],
  };
}

/** One entry for each donor. */
function summed(entries: readonly LedgerEntry[]): LedgerEntry[] {
  const tokens = new Map<PeerId, number>();
  for (const entry of entries) addToKey(tokens, entry.peer, entry.tokens);
  return [...tokens].map(([peer, sum]) => ({ peer, tokens: sum }));
}

/** The server dies and comes back from its store, or only begins again from it; every connection is gone. */
export function restart(run: Rehearsal, isKilled = true): void {
  // Who was back already, or not yet, has it still.
  for (const peer of run.holding) run.heldBefore.add(peer);
  for (const peers of [run.connected, run.ready, run.holding]) peers.clear();
  const start = stored(run.store, isKilled);
  if (isKilled) run.decider.begin(start);
  else run.decider.decide({ type: 'restarted', start }, 0);
  run.ended = null;
}

const goesOn = (_effect: RehearsedEffect): boolean => true;
/** One event, judged. `perform`: told of each effect once it is stored; false: the server is killed there. */
export function happen(run: Rehearsal, event: RehearsedEvent, now: number, perform = goesOn) {
  const before = run.state;
  if (event.type === 'donorJoined') run.connected.add(event.peer);
  if (event.type === 'donorGone') {
    disconnect(run, event.peer);
    run.departures++;
  }
  if (event.type === 'sentBack' && event.toStep < run.store.commits.length) {
    run.store.checkpoint = event.toStep;
    run.store.lossScale = event.lossScale;
    run.ended = null;
  }
  if (event.type === 'donorSaid' && event.message.type === 'ready' && event.message.epoch === run.store.epoch) {
    run.ready.add(event.peer);
    const members = run.store.plan === null ? [] : peers(run.store.plan);
    // Where the epoch is given up its plan has not taken over, whoever says so too late.
    if (before.phase.name !== 'planning' && members.every((peer) => run.ready.has(peer))) hold(run, members);
  }
  if (event.type === 'donorSaid' && event.message.type === 'resumed') {
    const { role } = event.message;
    // A hand-over that was under way when the server died goes on between the donors.
    const tookOver = role?.epoch === run.store.epoch && role.step === run.store.commits.length;
    if (tookOver || run.heldBefore.has(event.peer)) run.holding.add(event.peer);
  }
  if (event.type === 'donorSaid' && event.message.type === 'warmed' && event.message.number === run.warm?.number)
    run.warm.peers.add(event.peer);
  const effects = run.decider.decide(event, now);
  const { state } = run;
  const { committedSteps, lossScale } = state;
  if (committedSteps > before.committedSteps) run.scales.set(committedSteps, lossScale);
  for (const effect of effects) {
    check(run, before, event, effect);
    if (!perform(effect)) return effects;
  }
  invariant(state.committedSteps === run.store.commits.length, 'state and store count the same steps');
  invariant(state.newestCheckpointStep === run.store.checkpoint, 'state and store know the same checkpoint');
  return effects;
}

function disconnect(run: Rehearsal, peer: PeerId): void {
  for (const peers of [run.connected, run.ready, run.holding]) peers.delete(peer);
}

function check(run: Rehearsal, before: CoordinatorState, event: RehearsedEvent, effect: RehearsedEffect) {
  const { store, config } = run;
  switch (effect.type) {
    case 'send':
      return judgeMessage(run, effect.to, effect.message);
    case 'storeCommit':
      return judgeCommit(run, effect);
    case 'storeEvaluation':
      invariant(effect.committedSteps === store.commits.length, 'an evaluation is of the committed state');
      invariant(!store.evaluations.has(effect.committedSteps), 'each state is evaluated once');
      invariant(isMeeting(config.train, effect.committedSteps), 'an evaluation is of a meeting');
      store.evaluations.set(effect.committedSteps, effect.loss);
      return;
    case 'storeCheckpoint':
      return judgeCheckpoint(run, effect);
    case 'rollBack':
      return judgeRollBack(run, effect, before, event);
    case 'storeEpoch':
      invariant(effect.epoch > store.epoch, 'epochs rise');
      invariant(effect.generation === store.generation, 'the generation rises with each roll-back, and only then');
      // The same plan again may lack one that came back meanwhile.
      invariant(effect.plan === store.plan || usesExpected(run.state, effect.plan), 'all who are expected compute');
      keepPlan(store, effect);
      store.epoch = effect.epoch;
      store.plan = effect.plan;
      run.ready.clear();
      return;
    case 'storePaused':
      store.paused = effect.paused;
      return;
    case 'refuse':
      // A checkpoint that it owed a part of is never whole, as where it had gone.
      if (run.connected.has(effect.peer)) run.departures++;
      disconnect(run, effect.peer);
      return;
    case 'finished':
      invariant(
        store.commits.length >= run.state.config.steps && store.checkpoint === store.commits.length,
        'all is done and saved',
      );
      for (let at = 0; config.evaluation !== null && at < config.steps; at += config.evaluation.everySteps) {
        invariant(store.evaluations.has(at), `there is an evaluation after ${at} steps`);
      }
      invariant(config.evaluation === null || store.evaluations.has(config.steps), 'the end is evaluated');
      run.ended = 'finished';
      return;
    case 'stopped':
      run.ended = 'stopped';
      return;
    case 'offerChanged':
    case 'planWanted':
    case 'search':
    case 'recordPlan':
    case 'keepProfile':
    case 'publish':
    case 'log':
      return;
  }
}

type EffectOf<Type extends RehearsedEffect['type']> = Extract<RehearsedEffect, { type: Type }>;

function judgeCommit({ store, config }: Rehearsal, { record, ledger, applied }: EffectOf<'storeCommit'>): void {
  const tokens = config.batch.samples * config.batch.sequence;
  invariant(record.step === store.commits.length, `step ${record.step} follows ${store.commits.length - 1}`);
  const { number } = turnAt(config.train, record.step);
  const { share } = record;
  const rate = share === undefined ? learningRate(config.train, number) : budgetRate(config.train, share);
  invariant(record.learningRate === rate, 'the rate is that of the number, or of the share');
  invariant(record.plan === store.epoch && record.tokens === tokens, 'the record names its plan and its tokens');
  invariant(Number.isFinite(record.loss) && Number.isFinite(record.gradientNorm), 'what is committed is finite');
  const shared = totalOf(ledger, (entry) => entry.tokens);
  invariant(Math.abs(shared - tokens) < 1e-9 * tokens, `the ledger shares out ${shared} of ${tokens} tokens`);
  store.commits.push(record);
  store.ledgers.push(ledger);
  store.applied = applied;
  const { plan: epoch, step, learningRate: told } = record;
  store.lastCommit = { epoch, step, clipScale: applied.clipScale, learningRate: told };
}

function judgeCheckpoint(run: Rehearsal, { step, generation, shards, lossScale }: EffectOf<'storeCheckpoint'>): void {
  const { store, config } = run;
  invariant(step > store.checkpoint && step <= store.commits.length, 'checkpoints go forward');
  invariant(generation === store.generation, 'a checkpoint is of this generation');
  const hash = step.toString(16).padStart(64, '0');
  invariant(!run.areUploadsNamed || shards.every((shard) => shard.hash === hash), 'all shards are of one step');
  invariant(coversState(shards, config.layers, run.blocks), 'every element of every block is in the checkpoint, once');
  invariant(isSame(lossScale, run.scales.get(step)), 'a checkpoint has its own loss scale');
  invariant(isMeeting(config.train, step), 'a checkpoint is of a meeting');
  store.checkpoint = step;
  store.lossScale = lossScale;
  run.departures = 0;
}

function judgeRollBack(
  run: Rehearsal,
  { toStep, atStep }: EffectOf<'rollBack'>,
  before: CoordinatorState,
  event: RehearsedEvent,
): void {
  const { store, config } = run;
  invariant(toStep === store.checkpoint && atStep === store.commits.length && toStep < atStep, 'back to a checkpoint');
  // Or two have not the same state, and nobody knows whose is right.
  const isWanted = event.type === 'sentBack' || before.faults.some(({ of }) => of === 'state');
  invariant(
    isWanted || atStep - toStep <= unsavedLimit(config) + run.departures * roundLength(config.train),
    'no more is lost than may be unsaved',
  );
  const harmless = event.type === 'donorJoined' || (event.type === 'donorSaid' && isButton(event.message));
  invariant(!harmless || before.phase.name === 'waiting', 'neither a join nor a button rolls back');
  invariant(isSame(run.state.lossScale, run.scales.get(toStep)), 'the loss scale goes back with the state');
  store.commits.length = toStep;
  store.ledgers.length = toStep;
  store.lastCommit = null;
  store.plans = [];
  for (const steps of [...store.evaluations.keys()]) if (steps > toStep) store.evaluations.delete(steps);
  store.generation++;
}

/** The same plan again is one with it. */
function keepPlan({ plans }: Store, { epoch, plan }: EffectOf<'storeEpoch'>): void {
  const last = plans.at(-1);
  const isAgain = last !== undefined && JSON.stringify(last.plan) === JSON.stringify(plan);
  if (isAgain) plans[plans.length - 1] = { plan: last.plan, epochs: [...last.epochs, epoch] };
  else plans.push({ plan, epochs: [epoch] });
}

const isSame = (a: LossScale | null, b: LossScale | null | undefined): boolean =>
  a?.scale === b?.scale && a?.sound === b?.sound;

const isButton = ({ type }: { readonly type: string }): boolean =>
  type === 'pause' || type === 'leave' || type === 'resume';

function judgeMessage(run: Rehearsal, to: PeerId, message: ServerMessage): void {
  const { store } = run;
  invariant(run.connected.has(to), `${to} hears ${message.type} although it is gone`);
  if (message.type === 'standby' && message.state === 'left') run.departures++;
  if (message.type === 'warm') {
    invariant(peers(message.plan).includes(to), `${to} gets ready for a plan that has a place for it`);
    invariant(run.state.phase.name !== 'planning', 'where nothing is computed nobody gets ready beside it');
    if (run.warm?.number !== message.number)
      run.warm = { number: message.number, plan: message.plan, peers: new Set() };
  }
  if (message.type === 'committed') invariant(message.step === store.commits.length - 1, 'a commit is stored first');
  if (message.type !== 'prepare' && message.type !== 'start' && message.type !== 'evaluate') return;
  const members = store.plan === null ? [] : peers(store.plan);
  if (message.type === 'prepare') {
    invariant(message.epoch === store.epoch && message.step === store.commits.length, 'a plan begins at the next step');
    const { source } = message;
    if (source.from === 'checkpoint') {
      invariant(source.step === store.checkpoint, 'a plan begins from the newest checkpoint');
      invariant(message.step === source.step, 'nothing is committed beyond the checkpoint a plan begins from');
      run.holding.clear();
    } else {
      const { phase } = run.state;
      const isWarm = phase.name === 'preparing' && phase.isWarm;
      const warm = run.warm?.peers ?? new Set();
      invariant(
        !isWarm || members.every((peer) => warm.has(peer)),
        'only who is warm has the short deadline of a hand-over',
      );
      const having = source.from === 'kept' ? members : source.salvaged ? primaries(source.plan) : peers(source.plan);
      invariant(
        having.every((peer) => run.holding.has(peer)),
        'state is kept or handed over only where everyone kept it',
      );
    }
  }
  if (message.type !== 'prepare') {
    invariant(message.epoch === store.epoch && message.step === store.commits.length, 'the next step starts');
    invariant(
      members.every((peer) => run.ready.has(peer)),
      'a step starts when everyone is ready',
    );
    hold(run, members);
  }
}

const primaries = ({ state }: Plan): PeerId[] => state.flatMap(({ shards }) => shards.map(({ peer }) => peer));

/** These have the state, and nobody else is counted on. */
function hold({ holding, heldBefore }: Rehearsal, members: readonly PeerId[]): void {
  heldBefore.clear();
  holding.clear();
  for (const peer of members) holding.add(peer);
}
