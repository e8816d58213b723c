/**
 * One run: what donors and the operator say becomes events of its coordinator, what that asks for is done by its
 * observers, one after the other. It decides nothing.
 */

import { randomInt } from 'node:crypto';
import type { PlanningConfig } from '../../swarm/autoplan/knownDonors.ts';
import type { ReplannerState } from '../../swarm/autoplan/replannerState.ts';
import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { given, invariant, type PeerId, refusal } from '../../swarm/base.ts';
import { hasUnsaved } from '../../swarm/coordinator/beginning.ts';
import type { Conviction, Held, OperatorCommand } from '../../swarm/coordinator/events.ts';
import { COMMANDED } from '../../swarm/coordinator/operatorWords.ts';
import { type CoordinatorState, planInForce } from '../../swarm/coordinator/state.ts';
import { awaitingGroup, greetingOf } from '../../swarm/decisions/comingBack.ts';
import { type DecisionState, planningOf, snapshotOf, wholeRun } from '../../swarm/decisions/decide.ts';
import type { DecisionEffect, DecisionEvent } from '../../swarm/decisions/events.ts';
import { missing } from '../../swarm/decisions/groups.ts';
import { type RunWant, USUAL_DONOR_BYTES } from '../../swarm/messages/neededMost.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import type { RunFacts } from '../../swarm/messages/runFacts.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { aloneBytes } from '../../swarm/planner/equalSplit.ts';
import { stepTargets } from '../../swarm/run/data.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { DonorAnswers, type DonorAnswersHost } from '../answers/donorAnswers.ts';
import { Evidence, type EvidenceHost } from '../audits/evidence.ts';
import type { Connection } from '../donors/connectedDonors.ts';
import { compareCopy } from '../donors/copyComparison.ts';
import { donorNames, resumeKeys } from '../donors/donorIds.ts';
import { memoryToTry } from '../donors/draftedMemory.ts';
import { Reception, type ReceptionHost, type RunMessage } from '../donors/reception.ts';
import { watchFor } from '../donors/relay.ts';
import { type UploadCame, uploadPace } from '../donors/uploadPace.ts';
import { NotKept, standsSentence, storageProblem } from '../files/storageProblem.ts';
import { monotonicMs, wallMs } from '../monitoring/clock.ts';
import { type Manifest, parseManifest } from '../store/checkpointState.ts';
import { factsOf, parseDocument, type RunDocument } from '../store/runDocument.ts';
import type { RightAnswers } from '../store/stepStore.ts';
import { CheckpointGuard } from './checkpointGuard.ts';
import { DecisionLoop, type LoopHost } from './decisionLoop.ts';
import { addOperatorEvent } from './history.ts';
import { Outlook } from './outlook.ts';
import { closeAll, type DonorEvent, type Observed, type RunObserver } from './runObserver.ts';
import type { RunOptions } from './runOptions.ts';
import { type RunParts, runParts } from './runParts.ts';
import { backTo, configOf, startState } from './runStart.ts';
import { Watchers } from './watchers.ts';

/** One more than the largest chance that comes with a report: as many bits as Node draws at once. */
const MOST_CHANCE = 2 ** 48 - 1;

export class ActiveRun implements Observed {
  readonly name: string;
  readonly document: RunDocument;
  readonly facts: RunFacts;
  readonly model: Model;
  readonly wishes: PlanWishes;
  readonly memory: RunParts['memory'];
  readonly counts: RunParts['counts'];
  readonly refused: RunParts['refused'];
  readonly moved: RunParts['moved'];
  readonly network: RunParts['network'];
  readonly history: RunParts['history'];
  readonly uploads: RunParts['uploads'];
  readonly trafficOf: RunParts['trafficOf'];
  readonly reception: Reception;
  readonly guard: CheckpointGuard;
  readonly outlook: Outlook;
  /** Of audits. */
  readonly evidence: Evidence;
  /** What donors answer in their idle time. */
  readonly answers: DonorAnswers;
  readonly #observers: readonly RunObserver[];
  readonly #sessions: RunParts['sessions'];
  readonly #metrics: RunParts['metrics'];
  readonly #options: RunOptions;
  readonly #watchers: Watchers<DecisionState>;
  readonly #loop: DecisionLoop;
  #gatherTimer: NodeJS.Timeout | undefined;
  #closed = false;
  /** So many steps stood committed when it last did so because something failed. */
  #beganAgainAt: number | null = null;
  /** Where an effect threw: those before have done it. */
  #unkept: { readonly effect: DecisionEffect; readonly observer: number } | null = null;

  constructor(options: RunOptions) {
    const { store, name, gatherLimitMs } = options;
    const row = store.run(name);
    invariant(row, `the store knows no run ${name}`);
    [this.name, this.wishes] = [name, options.wishes];
    this.#options = options;
    this.document = parseDocument(row.document);
    this.facts = factsOf(this.document);
    this.model = modelOf(this.document.file);
    const config = configOf(this.document, this.model, options);
    const { observers, sessions, metrics, ...parts } = runParts(options, this, config.run.steps);
    ({
      memory: this.memory,
      counts: this.counts,
      refused: this.refused,
      moved: this.moved,
      network: this.network,
      history: this.history,
      uploads: this.uploads,
      trafficOf: this.trafficOf,
    } = parts);
    const known = { resumeKeyOf: resumeKeys(store, name), nameOf: donorNames(store, name) };
    this.reception = new Reception({ ...options, network: this.network, ...known }, this.#receptionHost());
    const [sendBack, stateLost] = [this.sendBack.bind(this), this.stateLost.bind(this)];
    this.guard = new CheckpointGuard({ ...options, sendBack, stateLost });
    // Last: what is answered is then always stored.
    const close = store.onStall((problem) => this.#loop.standStill(problem));
    this.outlook = new Outlook(store);
    [this.#sessions, this.#metrics] = [sessions, metrics];
    this.evidence = new Evidence(this.#evidenceHost());
    this.#observers = [
      ...observers,
      this.evidence,
      this.guard,
      this.outlook,
      { effect: (effect) => this.#answer(effect), close },
    ];
    this.answers = new DonorAnswers({
      vocabulary: this.model.vocabulary,
      nowMs: monotonicMs,
      counts: this.counts,
      send: (to, message) => this.reception.send(to, message),
      isConnected: (peer) => this.reception.measured().some((one) => one.peer === peer),
      committedSteps: () => this.committedSteps,
      inForce: () => this.#answeringPlan(),
    });
    this.#loop = new DecisionLoop(config, startState(store, this, true), this.#loopHost(), options.recorder ?? null);
    this.#watchers = new Watchers(store, () => this.#loop.state);
    const endGathering = (): void => this.#loop.dispatch({ type: 'gatheringEnded' });
    if (gatherLimitMs) this.#gatherTimer = setTimeout(endGathering, gatherLimitMs);
  }

  get #run(): CoordinatorState {
    return wholeRun(this.#loop.state).coordinator;
  }

  get phase(): CoordinatorState['phase']['name'] {
    return this.#run.phase.name;
  }

  get committedSteps(): number {
    return this.#run.committedSteps;
  }

  get epoch(): number {
    return this.#run.epoch;
  }

  /** The run as everybody may see it: nothing of it can be lost any more. */
  get kept(): CoordinatorState {
    return wholeRun(this.#watchers.kept).coordinator;
  }

  /** It waits, because no plan can be made for the donors at hand. */
  get lacksPlan(): boolean {
    const { phase } = this.kept;
    return phase.name === 'waiting' && phase.lack.of === 'plan';
  }

  /** What is known of the donors, as plans are judged by. */
  get replanner(): ReplannerState {
    return wholeRun(this.#loop.state).replanner;
  }

  /** The plan in force, and what is thought of it; null before the first one. */
  get planning(): Snapshot['planning'] | null {
    return planningOf(this.#loop.state);
  }

  snapshot(): Snapshot {
    const [state, sentence] = [snapshotOf(this.#watchers.kept, this.#loop.now()), this.standsSentence];
    const shown = { ...state, ...this.outlook.shown(state) };
    return sentence === null ? shown : { ...shown, phase: 'paused', cannotSave: true, sentence };
  }

  /** Why nothing can be kept now; null: it can. */
  get standsSentence(): string | null {
    const reason = this.#loop.standsBecause;
    return reason === null ? null : standsSentence(reason);
  }

  /** Called after every event that changed something to see, once that is kept. */
  onChange(listener: () => void): () => void {
    return this.#watchers.add(listener);
  }

  tellWatchers(): void {
    this.#watchers.tell();
  }

  /** Resolves once `holds` does. */
  until(holds: (run: ActiveRun) => boolean): Promise<void> {
    return this.#watchers.until(() => holds(this));
  }

  /** What the operator says. A stop holds until a start, also over a restart of the server. Throws where it cannot be kept. */
  command(command: OperatorCommand, session = ''): void {
    const { store } = this.#options;
    const reason = this.#loop.standsBecause;
    if (reason !== null) throw new NotKept(reason);
    addOperatorEvent(store, this.name, COMMANDED[command], session, this.committedSteps, wallMs());
    if (command === 'stop') store.setOperatorPaused(this.name, true);
    if (command !== 'stop' && this.phase === 'stopped') this.#beginAgain(true);
    this.#loop.dispatch({ type: 'operatorSaid', command });
  }

  /** Which steps wait for a donor that is on its way. */
  hold(held: Held): void {
    this.#loop.dispatch({ type: 'stepsHeld', held });
  }

  /** Ends at the next step boundary; the next server goes on from there. */
  shutDown(): void {
    this.#loop.dispatch({ type: 'operatorSaid', command: 'stop' });
  }

  /** Committed steps of the newest evaluation, where its questions are still to be asked or answered; null: there are none. */
  get unasked(): number | null {
    const { evaluatedSteps } = this.kept;
    if (this.document.answers === undefined || evaluatedSteps === null) return null;
    return this.#options.store.isAsked(this.name, evaluatedSteps) ? null : evaluatedSteps;
  }

  /** What came of these questions; null: nobody could be asked. */
  answered(committedSteps: number, answers: RightAnswers | null): void {
    const { store } = this.#options;
    this.keep(() => store.saveRightAnswers(this.name, committedSteps, answers));
    store.whenKept(() => this.keep(() => this.#metrics?.rewrite()));
    this.tellWatchers();
  }

  /** Back to a checkpoint that the store keeps. */
  sendBack(toStep: number, reason = `the operator sent the run back to checkpoint ${toStep}`): void {
    if (this.phase === 'stopped') this.#beginAgain(false);
    const { lossScale = null } = this.checkpoint(toStep) ?? {};
    this.#loop.dispatch({ type: 'sentBack', reason, lossScale, ...backTo(this.#options.store, this.name, toStep) });
  }

  /** There is no checkpoint that it could go on from. */
  stateLost(reason: string): void {
    this.#loop.dispatch({ type: 'stateLost', reason });
  }

  /** Lets a donor go as its own button would: nothing is lost. At once: its connection ends, and what it held with it. */
  letGo(peer: PeerId, reason: 'letGo' | 'blocked' | null): void {
    if (reason === null) this.#loop.dispatch({ type: 'donorSaid', peer, message: { type: 'leave' } });
    else this.reception.throwOut(peer, reason, 'the operator said so');
  }

  /** Those whose GPU is checked, in the order in which they connected. */
  donors(): readonly Connection[] {
    return this.reception.measured();
  }

  /** Nothing is in progress, and nothing will be; or nothing of it could be kept. */
  get isAtRest(): boolean {
    return this.phase === 'stopped' || this.#loop.standsBecause !== null;
  }

  /** Something of this run could not be kept: for whoever looks after the machine. */
  warn(text: string): void {
    this.#options.log('warn', text);
  }

  /** Something threw that nobody was prepared for: counted, and told with its place. */
  failed(error: unknown): void {
    this.counts.failed();
    this.warn(`Something failed that should not: ${error instanceof Error ? error.stack : error}`);
  }

  checkpoint(committedSteps: number): Manifest | null {
    const manifest = this.#options.store.checkpoint(this.name, committedSteps);
    return manifest === null ? null : parseManifest(manifest);
  }

  /** No event is handled any more; the last line of the metrics file is written. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#loop.close();
    this.#options.recorder?.close();
    clearTimeout(this.#gatherTimer);
    this.answers.close();
    closeAll(this.#observers, this);
    this.reception.close();
    this.#options.release?.();
  }

  #loopHost(): LoopHost {
    return {
      perform: (effect) => this.#perform(effect),
      tryDisk: () => this.#options.blobs.tryDisk(),
      stands: (reason) => {
        this.warn(`The run stands: ${reason}. It goes on by itself when that is mended.`);
        this.tellWatchers();
      },
      failed: (event, error, isHalfDone) => this.#failedOver(event, error, isHalfDone),
      handled: () => {
        this.#watchers.changed();
        this.answers.changed();
      },
    };
  }

  #receptionHost(): ReceptionHost {
    const memoryOf = memoryToTry(this.#options.store, this.name);
    return {
      shut: () => (this.phase === 'finished' ? 'runFinished' : null),
      greeting: (peer, donor) => {
        const { groups, apart } = this.#loop.state;
        return { run: this.facts, ...greetingOf(groups, apart.run, peer), memory: memoryOf(donor) };
      },
      isAwaiting: () => this.#loop.state.groups.some(({ coordinator }) => coordinator.phase.name === 'returning'),
      mayReturn: (peer) => awaitingGroup(this.#loop.state.groups, peer) !== null,
      joined: (connection) => this.#joined(connection),
      said: (connection, message) => this.#said(connection, message),
      missing: (peer) => missing(this.#loop.state.groups, peer),
      gone: (peer, detail) => this.#gone(peer, detail),
      failed: (error) => this.failed(error),
      countRefusal: (reason) => {
        this.counts.refused(reason);
        this.#options.log('debug', `refused: ${reason}`);
      },
    };
  }

  #joined(connection: Connection): void {
    this.#observe({ type: 'joined', connection });
    this.#tell(connection);
  }

  #said(connection: Connection, message: RunMessage): RefusalReason | null {
    const { peer } = connection;
    if (message.type === 'heartbeat') return this.#loop.heard(peer, message);
    if (message.type === 'answered' || message.type === 'unanswered') {
      this.answers.said(peer, message); // words of askers are in it: it is no decision, and not recorded
      return null;
    }
    this.#observe({ type: 'said', connection, message });
    if (message.type === 'uploaded' && !this.uploads.vouchesFor(peer, message)) return 'malformed';
    const isDrawn = message.type === 'report' && this.#run.audits !== undefined;
    this.#loop.dispatch({ type: 'donorSaid', peer, message, ...(isDrawn && { chance: randomInt(MOST_CHANCE) }) });
    return null;
  }

  #evidenceHost(): EvidenceHost {
    const { store, blobs, name } = this.#options;
    const planOf = (epoch: number): Plan | null => JSON.parse(store.epoch(name, epoch)?.plan ?? 'null'); // the store's own words
    return {
      ...{ document: this.document, model: this.model, blobs, planOf },
      isWanted: (audit) => this.#run.audits?.pending.some((one) => one.audit === audit) ?? false,
      answer: (event) => this.#loop.dispatch(event),
    };
  }

  #gone(peer: PeerId, detail: string): void {
    try {
      this.#observe({ type: 'gone', peer, detail });
    } finally {
      // Whatever else cannot be written: nobody waits for a donor that is not there.
      this.#loop.dispatch({ type: 'donorGone', peer, detail });
    }
  }

  #observe(event: DonorEvent): void {
    // What cannot be kept is no donor's fault, and nothing that a step depends on.
    for (const observer of this.#observers) this.keep(() => observer.event?.(event));
  }

  /** What can be done without: where the disk does not take it, the run stands and its caller goes on. */
  keep(write: () => void): void {
    try {
      write();
    } catch (error) {
      if (storageProblem(error) === null) throw error;
      this.couldNotKeep(error);
    }
  }

  /** A checkpoint's shard is on its way, once. */
  uploadBegins(peer: PeerId): UploadCame {
    const count = (sizeBytes: number): void => this.counts.served('checkpoint', sizeBytes);
    const tell = (): unknown => this.#donor(peer) && this.#loop.dispatch({ type: 'uploading', peer });
    return uploadPace(() => this.#loop.now(), count, tell);
  }

  /** Something could not be written: the run waits where the reason is the disk. */
  couldNotKeep(error: unknown): void {
    const problem = storageProblem(error);
    if (problem !== null) this.#loop.standStill(problem);
  }

  /**
   * The donor whose word it was is let go. Where effects are half done nobody's word is to blame: the run begins again
   * from the store, as the server after a killed one would, and its donors come back to it with what they have. That
   * ends: where no step was committed since it did so before, the donor goes too, and what the others have is not asked for.
   */
  #failedOver(event: DecisionEvent | null, error: unknown, isHalfDone: boolean): void {
    this.failed(error);
    const isWord = event?.type === 'donorSaid' || event?.type === 'donorJoined';
    const committed = this.#options.store.committedSteps(this.name);
    const isAgain = this.#beganAgainAt === committed;
    if (isWord && (isAgain || !isHalfDone))
      this.reception.throwOut(event.peer, 'unhandled', event.type === 'donorSaid' ? event.message.type : 'measured');
    if (isWord && !isHalfDone) return;
    this.#beganAgainAt = committed;
    this.#beginAgain(!isAgain);
    // The expected donors were there once, or one of them has just been let go.
    this.#loop.dispatch({ type: 'gatheringEnded' });
  }

  /** Of several groups the first that computes. */
  #answeringPlan(): ReturnType<DonorAnswersHost['inForce']> {
    const states = this.#loop.state.groups.map(({ coordinator }) => coordinator);
    const ready = states.filter(({ phase }) => phase.name !== 'preparing');
    const [found] = ready.flatMap((state) => planInForce(state) ?? []);
    if (found) return found;
    const all = (...names: string[]): boolean => states.every(({ phase }) => names.includes(phase.name));
    return all('paused', 'finished') ? 'kept' : all('finished', 'stopped', 'diverged') ? 'over' : null;
  }

  /** Back to the newest checkpoint that has nothing of what was found wrong. */
  #undo({ peer, firstStep }: Conviction): void {
    const kept = this.#options.store.checkpoints(this.name);
    const toStep = kept.findLast(({ committedSteps }) => committedSteps <= firstStep)?.committedSteps ?? 0;
    this.sendBack(toStep, `what ${peer} computed was wrong, and is done again`);
  }

  readonly #donor = (peer: PeerId) => this.#run.donors.find((one) => one.peer === peer);

  #tell(connection: Connection, isResting = false): void {
    this.#loop.dispatch(joinedEvent(this.#options, connection, this.#sessions.expectedOf(connection.peer)));
    const { peer } = connection;
    if (isResting) this.#loop.dispatch({ type: 'donorSaid', peer, message: { type: 'pause' } });
  }

  /** From the store, with those who are still connected, as they rest. `isAway`: they come back, with steps that no checkpoint has. */
  #beginAgain(isAway: boolean): void {
    const start = startState(this.#options.store, this, isAway);
    const resting = new Set(this.#run.donors.flatMap(({ peer, wish }) => (wish.startsWith('paus') ? peer : [])));
    this.#loop.beginAgain(start);
    if (hasUnsaved(start)) this.reception.breakAll();
    else for (const one of this.reception.measured()) this.#tell(one, resting.has(one.peer));
  }

  #perform(effect: DecisionEffect): void {
    const first = this.#unkept?.effect === effect ? this.#unkept.observer : 0;
    this.#unkept = null;
    for (const [index, observer] of this.#observers.entries()) {
      if (index < first) continue;
      try {
        const work = observer.effect?.(effect);
        work?.catch((error: unknown) =>
          storageProblem(error) === null ? this.failed(error) : this.couldNotKeep(error),
        );
      } catch (error) {
        this.#unkept = { effect, observer: index };
        throw error;
      }
    }
  }

  #answer(effect: DecisionEffect): void | Promise<void> {
    if (effect.type === 'search' || effect.type === 'searchGroups')
      return searched(this.#options, this.replanner.config, effect, (error) => this.failed(error)).then((event) =>
        this.#loop.dispatch(event),
      );
    if (effect.type === 'compareCopy') return compareCopy(this.#options.blobs, this.document.file, effect, this.#loop);
    if (effect.type === 'storeEpoch' || effect.type === 'relayAsked') watchFor(this.#loop, this.network.relay, effect);
    if (effect.type === 'convicted') this.#undo(effect);
    if (effect.type === 'send') this.#options.store.whenKept(() => this.reception.send(effect.to, effect.message));
    if (effect.type === 'refuse')
      this.reception.refuse(effect.peer, effect.reason, effect.detail, effect.isProven ?? false);
    // What a server did that leads no more, and does not know it yet, never was; a warning waits for nobody.
    const { log, store } = this.#options;
    if (effect.type === 'log' && effect.level === 'info') store.whenKept(() => log('info', effect.text));
    else if (effect.type === 'log') log(effect.level, effect.text);
  }
}

/** What the decisions of a run are told of a donor that was admitted: its own word, and what the store knows of it. */
function joinedEvent(
  { store, name, networkName, isOneLine }: RunOptions,
  { peer, link, adapter, limits, profile, donor, isOwn, wasHere }: Connection,
  sessionSeconds: number | undefined,
): DecisionEvent {
  const { address, roundTripMs } = link;
  const network = networkName(address);
  return {
    ...{ type: 'donorJoined', peer, adapter, limits, profile, isOwn, roundTripMs },
    ...{ rememberedAs: donor, remembered: donor === null ? null : store.profile(name, donor) },
    ...{ address: network, ...(isOneLine(address) && { line: network }) },
    stepsSeen: store.stepsOf(name, peer),
    ...(wasHere && { wasHere }),
    ...given({ sessionSeconds }),
  };
}

/** Searches that the decisions ask for, for plans and for groups of donors, each answered once: also one that fails. */
type Wanted = Extract<DecisionEffect, { type: 'search' | 'searchGroups' }>;

/** `failed`: told of what nobody was prepared for. */
async function searched(
  { search: forPlan, searchGroups: forGroups }: Pick<RunOptions, 'search' | 'searchGroups'>,
  config: PlanningConfig,
  wanted: Wanted,
  failed: (error: unknown) => void,
): Promise<DecisionEvent> {
  const refused = (error: unknown) => {
    failed(error);
    return refusal('the search failed');
  };
  const { search } = wanted;
  return wanted.type === 'search'
    ? { type: 'searched', search, found: await forPlan(config, wanted.problem, wanted.budget).catch(refused) }
    : { type: 'groupsFound', search, found: await forGroups(config, wanted.problem).catch(refused) };
}

/**
 * What a run wants of one more donor, from what its server knows of it (swarm/messages/neededMost.ts). `connected`: donors
 * whose sockets are open, also such as are not measured yet: of these the usual is expected.
 */
export function runWant(run: ActiveRun, connected: number): RunWant {
  const { phase, committedSteps, steps, tokensPerSecond, donors } = run.snapshot();
  const { data, train } = run.facts;
  const { globalBatchSize, sequenceLength } = train;
  const measured = run.donors();
  const coming = Math.max(0, connected - measured.length);
  const computing = donors.filter(({ state }) => state === 'computing').length;
  const said = { run: run.name, phase, committedSteps, steps, donors: computing };
  if (run.lacksPlan || measured.length === 0) {
    const here = measured.reduce((sum, { profile }) => sum + (profile?.memoryBytes ?? 0), coming * USUAL_DONOR_BYTES);
    const missing = aloneBytes(run.model, globalBatchSize, sequenceLength) - here;
    // Nobody is measured, and those who come are enough: it is about to begin.
    if (missing > 0 || coming === 0) return { ...said, missingBytes: Math.max(1, missing), secondsLeft: null };
  }
  const tokensLeft = (steps - committedSteps) * stepTargets(data, train);
  const secondsLeft = tokensPerSecond ? tokensLeft / tokensPerSecond : null;
  const share = computing > 0 ? computing / (computing + coming) : 1;
  return { ...said, missingBytes: null, secondsLeft: secondsLeft === null ? null : secondsLeft * share };
}
