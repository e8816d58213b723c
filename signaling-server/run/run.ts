/**
 * One run: what donors and the operator say becomes events of its coordinator, what that asks for becomes messages, rows
 * and files. It decides nothing. Connections, the store and the metrics file are all it owns.
 */
import { invariant, type PeerId } from '../../swarm/base.ts';
import { snapshot } from '../../swarm/coordinator/snapshot.ts';
import {
  type CoordinatorState,
  courseOf,
  type Effect,
  type Held,
  type OperatorCommand,
} from '../../swarm/coordinator/state.ts';
import { isNeeded, offerOf } from '../../swarm/coordinator/successor.ts';
import {
  type HelloMessage,
  type PeerMessage,
  PROTOCOL_VERSION,
  type RunFacts,
  type ServerMessage,
  type Snapshot,
} from '../../swarm/messages.ts';
import type { Model } from '../../swarm/model.ts';
import type { RefusalReason } from '../../swarm/refusals.ts';
import { modelOf } from '../../swarm/runFile.ts';
import { Arrivals } from '../donors/arrivals.ts';
import { ConnectedDonors, type Connection } from '../donors/connectedDonors.ts';
import { DonorMemories } from '../donors/donorMemory.ts';
import type { DonorHost, DonorLink } from '../donors/donorSocket.ts';
import { Network } from '../donors/network.ts';
import { Resumes } from '../donors/resumes.ts';
import { Uploads } from '../donors/uploads.ts';
import { RunCounts } from '../metrics.ts';
import { audit, RunHistory } from '../operator/history.ts';
import { type TrafficOf, trafficOf } from '../operator/traffic.ts';
import type { AutoPlanner, PlannerHost } from '../planning/autoPlanner.ts';
import { throttled } from '../throttled.ts';
import { isStored, type Manifest, parseManifest, stateSize } from './checkpointState.ts';
import { CoordinatorLoop } from './coordinatorLoop.ts';
import { type MetricsFile, metricsFileOf } from './metricsFile.ts';
import { factsOf, isEvaluationDue, parseDocument, type RunDocument } from './runDocument.ts';
import type { RunOptions } from './runOptions.ts';
import { keep } from './runRecords.ts';
import { configOf, startState } from './runStart.ts';
import { Watchers } from './watchers.ts';

export type Log = (level: 'debug' | 'info' | 'warn', text: string) => void;

/** A number from 1 to 1,000 is no bound that anyone reaches on purpose: it keeps a flood from filling memory. */
const MAX_DONORS = 1_000;
/** Donors hear of each other's limits at most so often. */
const DOWNLOADS_INTERVAL_MS = 250;

export class ActiveRun implements DonorHost {
  readonly name: string;
  readonly document: RunDocument;
  readonly model: Model;
  readonly facts: RunFacts;
  readonly memory: DonorMemories;
  readonly counts = new RunCounts();
  readonly network: Network;
  readonly history: RunHistory;
  readonly uploads: Uploads;
  readonly trafficOf: TrafficOf;
  readonly #options: RunOptions;
  readonly #donors = new ConnectedDonors();
  readonly #resumes = new Resumes();
  readonly #arrivals = new Arrivals();
  /** One donor that changes its mind all the time is no flood for all others. */
  readonly #downloads = throttled(DOWNLOADS_INTERVAL_MS, () => this.broadcast(this.#donors.downloads()));
  readonly #watchers = new Watchers();
  readonly #metrics: MetricsFile | null;
  readonly #loop: CoordinatorLoop;
  #gatherTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: RunOptions) {
    const { store, name } = options;
    const row = store.run(name);
    invariant(row, `the store knows no run ${name}`);
    this.name = name;
    this.#options = options;
    this.network = new Network(options);
    this.history = new RunHistory(store, name, Date.now);
    this.document = parseDocument(row.document);
    this.model = modelOf(this.document.file);
    this.uploads = new Uploads(store, options.blobs, stateSize(this.model));
    this.memory = new DonorMemories(this.model, this.document.file);
    this.facts = factsOf(this.document);
    this.trafficOf = trafficOf(store, name, this.model, this.document.file);
    const config = configOf(this.document, this.model, options);
    this.#loop = new CoordinatorLoop(config, startState(store, name), {
      perform: (effect) => this.#perform(effect),
      handled: () => this.tellWatchers(),
    });
    options.planner?.attach(this.#plannerHost());
    const { gatherLimitMs } = options;
    if (gatherLimitMs)
      this.#gatherTimer = setTimeout(() => this.#loop.dispatch({ type: 'gatheringEnded' }), gatherLimitMs);
    this.#metrics = metricsFileOf(options, (steps) => isEvaluationDue(this.document, steps, config.steps));
  }

  get phase(): CoordinatorState['phase']['name'] {
    return this.#loop.state.phase.name;
  }

  get committedSteps(): number {
    return this.#loop.state.committedSteps;
  }

  get epoch(): number {
    return this.#loop.state.epoch;
  }

  /** The step that donors were told to do, or that is held back until a donor is here; null between two plans. */
  get announcedStep(): number | null {
    const { phase, committedSteps } = this.#loop.state;
    if (phase.name === 'training') return phase.step;
    return phase.name === 'holding' ? committedSteps : null;
  }

  /** What decides the plans; null where nothing measured does. */
  get planner(): AutoPlanner | null {
    return this.#options.planner ?? null;
  }

  snapshot(): Snapshot {
    return snapshot(this.#loop.state, Date.now());
  }

  /** Called after every event that changed something to see. */
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

  /** What the operator says. A stop holds until a start, also over a restart of the server. */
  command(command: OperatorCommand, session = ''): void {
    const { store } = this.#options;
    audit(store, this.name, command, session, this.committedSteps, Date.now());
    if (command === 'stop') store.setOperatorPaused(this.name, true);
    if (command !== 'stop' && this.phase === 'stopped') this.#beginAgain();
    this.#loop.dispatch({ type: 'operatorSaid', command });
  }

  /** Which steps wait for a donor that is on its way. */
  hold(held: Held): void {
    const { planner } = this.#options;
    const hold = (): void => this.#loop.dispatch({ type: 'stepsHeld', held });
    // A newcomer that was waited for may be about to be proposed.
    if (held !== 'none' || !planner) hold();
    else void planner.settled().then(hold);
  }

  /** Ends at the next step boundary; the next server goes on from there. */
  shutDown(): void {
    this.#loop.dispatch({ type: 'operatorSaid', command: 'stop' });
  }

  /** Back to a checkpoint that the store keeps. */
  sendBack(toStep: number): void {
    if (this.phase === 'stopped') this.#beginAgain();
    const ledger = this.#options.store.ledgerFrom(this.name, toStep);
    const { lossScale = null } = this.checkpoint(toStep) ?? {};
    this.#loop.dispatch({ type: 'sentBack', toStep, lossScale, earned: [{ step: toStep, ledger }] });
  }

  /** Lets a donor go as its own button would: nothing is lost. At once: its connection ends, and what it held with it. */
  letGo(peer: PeerId, reason: 'letGo' | 'blocked' | null): void {
    if (reason === null) this.#loop.dispatch({ type: 'donorSaid', peer, message: { type: 'leave' } });
    else this.#donors.of(peer)?.link.refuse(reason, 'the operator said so');
  }

  /** Those whose GPU is checked, in the order in which they connected. */
  donors(): readonly Connection[] {
    return this.#donors.measured();
  }

  /** Nothing is in progress, and nothing will be. */
  get isAtRest(): boolean {
    return this.phase === 'stopped';
  }

  admit(hello: HelloMessage, link: DonorLink): PeerId | RefusalReason {
    if (!this.network.isInvited(hello.invite)) return 'notInvited';
    if (this.#options.isBlocked?.(link.address)) return 'blocked';
    if (this.#closed) return 'serverFull';
    if (this.phase === 'finished') return 'runFinished';
    if (this.#donors.count >= (this.#options.maxDonors ?? MAX_DONORS)) return 'serverFull';
    const { peer, token, limits } = this.#donors.enter(hello, link);
    this.network.connected(peer, link);
    const { generation, epoch, committedSteps } = this.#loop.state;
    link.send({
      type: 'welcome',
      protocol: PROTOCOL_VERSION,
      peer,
      token,
      run: this.facts,
      iceServers: this.network.iceServers,
      generation,
      epoch,
      committedSteps,
    });
    link.send(this.#donors.downloads());
    if (limits.downloadBytesPerSecond !== null) this.#downloads.request();
    return peer;
  }

  heard(peer: PeerId, message: PeerMessage): RefusalReason | null {
    const connection = this.#donors.of(peer);
    if (!connection) return null;
    if (message.type === 'resume' && connection.profile !== null) {
      this.#resumes.asked(peer, () => this.#pass(peer, message));
      return null;
    }
    if (message.type === 'pause' || message.type === 'leave') this.#resumes.withdrawn(peer);
    this.#options.planner?.heard(peer, message);
    switch (message.type) {
      case 'hello':
        return 'outOfOrder';
      case 'measured':
        if (connection.profile !== null) return 'outOfOrder';
        connection.profile = message.profile;
        this.#take(connection);
        return null;
      case 'limits':
        connection.limits = message.limits;
        this.#downloads.request();
        return null;
      case 'heartbeat':
        return null;
      case 'signal':
        // Both ends change plans at their own time: a signal of another epoch, or to someone gone, is no fault.
        this.#donors.send(message.to, signalFrom(peer, message));
        return null;
      case 'report':
        this.network.reported(peer, message.links ?? []);
        this.history.reported(peer, message);
        break;
      case 'fault':
        this.history.faulted(peer, message, this.committedSteps);
        break;
      case 'uploaded':
        if (!message.shards.every((shard) => isStored(this.#options.blobs, shard))) return 'malformed';
        break;
      case 'ready':
        if (this.history.plan) this.memory.ready(peer, connection.adapter, this.history.plan.plan, message.memoryBytes);
        break;
    }
    if (connection.profile === null) return 'outOfOrder';
    this.#loop.dispatch({ type: 'donorSaid', peer, message });
    return null;
  }

  relayed(peer: PeerId, bytes: Uint8Array<ArrayBuffer>): RefusalReason | null {
    return this.#donors.of(peer) ? this.network.relay.accept(peer, bytes) : null;
  }

  gone(peer: PeerId, detail: string): void {
    this.network.gone(peer);
    const address = this.#donors.of(peer)?.link.address;
    if (this.#closed || !this.#donors.leave(peer)) return;
    const donor = this.#loop.state.donors.find((one) => one.peer === peer);
    if (address !== undefined && donor?.wish === 'compute' && isNeeded(this.#loop.state, peer))
      this.#arrivals.lost(address, Date.now());
    this.memory.gone(peer);
    this.uploads.gone(peer);
    this.#resumes.gone(peer);
    this.#arrivals.gone(peer);
    // Nobody is named for what was never done: who comes and goes would fill the list.
    if (!donor?.tokens) this.#options.store.unlinkPeer(this.name, peer);
    this.#options.planner?.gone(peer);
    this.history.gone(peer, detail, this.committedSteps);
    this.#loop.dispatch({ type: 'donorGone', peer, detail });
  }

  countRefusal(reason: RefusalReason): void {
    this.counts.refused(reason);
    this.#options.log('debug', `refused: ${reason}`);
  }

  /** The donor whose HTTP calls carry this token. */
  donorOfToken(token: string): PeerId | null {
    return this.#donors.ofToken(token);
  }

  /** Something of this run could not be kept: for whoever looks after the machine. */
  warn(text: string): void {
    this.#options.log('warn', text);
  }

  /** A message for everyone, past the coordinator: snapshots. */
  broadcast(message: ServerMessage): void {
    this.#donors.broadcast(message);
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
    clearTimeout(this.#gatherTimer);
    this.#resumes.close();
    this.#arrivals.close();
    this.#downloads.cancel();
    this.#options.planner?.close();
    this.#metrics?.append(true);
    this.history.flush();
    this.#donors.close();
  }

  /** A resting donor comes back. */
  #pass(peer: PeerId, message: Extract<PeerMessage, { type: 'resume' }>): void {
    this.#options.planner?.heard(peer, message);
    this.#loop.dispatch({ type: 'donorSaid', peer, message });
  }

  /** Its GPU is checked. Donors that were counted on beforehand are our own: they never wait. */
  #take(connection: Connection): void {
    const { peer, link } = connection;
    const join = (): void => this.#join(connection);
    if (this.#options.expectedDonors !== null) join();
    else if (this.#arrivals.asked(peer, link.address, join) === 'later') link.send({ type: 'standby', state: 'spare', why: 'mustWait' });
  }

  /** It may be planned for. */
  #join(connection: Connection): void {
    this.history.joined(connection, this.committedSteps);
    const { peer, profile, limits, donor, adapter } = connection;
    if (profile) this.#options.planner?.measured(peer, profile, limits, donor, adapter.halves === true);
    this.#tell(connection);
  }

  #plannerHost(): PlannerHost {
    const { store, log } = this.#options;
    return {
      planned: () => ({ offer: offerOf(this.#loop.state), plan: courseOf(this.#loop.state)?.plan ?? null }),
      propose: (proposal) => this.#loop.dispatch({ type: 'planProposed', proposal }),
      record: (detail) => store.addEvent(this.name, 'planned', detail, Date.now(), this.committedSteps),
      log,
    };
  }

  #tell({ peer, adapter, limits: { memoryBytes } }: Connection): void {
    this.#loop.dispatch({ type: 'donorJoined', peer, adapter, ...(memoryBytes === null ? {} : { memoryBytes }) });
  }

  /** From the store, with those who are still connected. */
  #beginAgain(): void {
    this.#loop.beginAgain(startState(this.#options.store, this.name));
    for (const connection of this.#donors.measured()) this.#tell(connection);
  }

  #perform(effect: Effect): void {
    const { store, blobs, log, planner } = this.#options;
    this.history.performing(effect, this.committedSteps);
    planner?.performing(effect);
    if (effect.type === 'storeEpoch') this.network.planned(effect.plan);
    if (keep({ store, blobs, run: this, metrics: this.#metrics }, effect)) return;
    switch (effect.type) {
      case 'send':
        if (effect.message.type === 'committed' && effect.message.checkpoint)
          void this.uploads.asked(effect.to, effect.message);
        this.#donors.send(effect.to, effect.message);
        return;
      case 'refuse':
        this.#donors.refuse(effect.peer, effect.reason, effect.detail);
        return;
      case 'log':
        log(effect.level, effect.text);
    }
  }
}

const signalFrom = (
  from: PeerId,
  { epoch, attempt, data }: Extract<PeerMessage, { type: 'signal' }>,
): ServerMessage => ({ type: 'signal', from, epoch, attempt, data });
