/**
 * A donor's side of the step protocol (DESIGN §3): takes the server's words in order, keeps one role at a time, runs its
 * steps. Leaving an epoch is one abort. What it promises: a committed step is applied here even when the step's own run
 * was aborted a moment later, and nothing is reported for a step before the state stands after the one before.
 */
import { invariant, type PeerId, type Range } from '../../../swarm/base.ts';
import { type Order, SEQUENTIAL, type TokenList } from '../../../swarm/data.ts';
import { modelFromConfig } from '../../../swarm/families.ts';
import { encodeTensor, type TensorKey } from '../../../swarm/frame.ts';
import type { StateKind } from '../../../swarm/handover.ts';
import { type Limits, NO_LIMITS } from '../../../swarm/limits.ts';
import type { LinkReport, Profile, RunFacts, ServerMessage } from '../../../swarm/messages.ts';
import type { BlockName, Model } from '../../../swarm/model.ts';
import type { Plan } from '../../../swarm/plan.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/runFile.ts';
import { forwardOnly, stepSchedule } from '../../../swarm/schedule/lower.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import type { DonorPage } from '../gpu/protocol.ts';
import { DutyCycle } from './dutyCycle.ts';
import type { UpdateScalars } from './engine.ts';
import { type Epoch, Epochs } from './epochs.ts';
import { type Role, StepRun, type Surroundings } from './execute.ts';
import { forecastOf } from './forecast.ts';
import { Holding } from './holding.ts';
import { abortable, Inbox } from './inbox.ts';
import { Meter } from './meter.ts';
import { type Engine, neighbours, roleBytes } from './role.ts';
import { TokenSource } from './tokenSource.ts';
import { expectHeldOut, expectTokens, samplesRead } from './tokensAhead.ts';
import { downloadParts, Traffic } from './traffic.ts';

/** The server's HTTP side, with this donor's token. */
export interface RunFiles {
  tokenShard(hash: string): Promise<ArrayBuffer>;
  state(checkpoint: number, block: BlockName, kind: StateKind, range: Range): Promise<Float32Array>;
  /** Values, m, v of a shard, one after the other; resolves to the blob's SHA-256. */
  upload(state: Float32Array): Promise<string>;
}

export interface SessionParts {
  readonly page: Pick<DonorPage, 'sendServer' | 'sendFrame' | 'connect' | 'showStatus'>;
  readonly engine: (model: Model, train: Train, wire: WireEncoding, compute?: Compute) => Engine;
  readonly files: (token: string) => RunFiles;
  /** Seconds, monotonic. */
  readonly now: () => number;
  readonly wait: (seconds: number) => Promise<void>;
}

interface Run {
  readonly peer: PeerId;
  readonly facts: RunFacts;
  readonly model: Model;
  readonly engine: Engine;
  readonly files: RunFiles;
  readonly tokens: TokenSource;
  readonly evaluation: TokenSource | null;
}

type Message<T extends ServerMessage['type']> = Extract<ServerMessage, { type: T }>;

export class Session {
  readonly #parts: SessionParts;
  readonly #inbox = new Inbox();
  readonly #dutyCycle: DutyCycle;
  readonly #traffic: Traffic;
  /** Of the donors that have a cap on what they receive. */
  #downloads: ReadonlyMap<PeerId, number> = new Map();
  #run: Run | null = null;
  #links: readonly LinkReport[] = [];
  readonly #holding = new Holding();
  readonly #epochs: Epochs;
  /** A peer without losses and shards may hear of the commit before it asks for it. */
  #lastCommit: { readonly epoch: number; readonly scalars: UpdateScalars } | null = null;
  #awaitingCommit: { readonly step: number; readonly resolve: (scalars: UpdateScalars) => void } | null = null;
  /** One upload at a time: a checkpoint's readback buffer is one. */
  #upload: Promise<void> = Promise.resolve();
  readonly #meter: Meter;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#epochs = new Epochs((epoch, reason, detail, about) => {
      const message = { type: 'fault' as const, epoch, reason, detail: detail.slice(0, 2_000) };
      parts.page.sendServer(about === undefined ? message : { ...message, about });
    });
    const clock = { now: parts.now, wait: parts.wait };
    this.#meter = new Meter(parts.now, (status) =>
      parts.page.showStatus({ ...status, droppedFrames: this.#inbox.droppedFrames }),
    );
    this.#dutyCycle = new DutyCycle(clock, this.#meter.busy);
    this.#traffic = new Traffic(clock);
    this.limit(NO_LIMITS);
  }

  /** What this donor gives from now on; memory is the planner's affair. */
  limit(limits: Limits): void {
    this.#dutyCycle.speed = limits.speed;
    this.#traffic.limit(limits);
  }

  serverSaid(message: ServerMessage): void {
    switch (message.type) {
      case 'welcome':
        this.#welcome(message);
        return;
      case 'prepare':
        this.#prepare(message);
        return;
      case 'start':
        this.#epochs.enqueue(message.epoch, (epoch) => this.#train(epoch, message.step, message.lossScale));
        return;
      case 'evaluate':
        this.#epochs.enqueue(message.epoch, (epoch) => this.#evaluate(epoch, message.step));
        return;
      case 'committed':
        this.#committed(message);
        return;
      case 'abandon':
        this.#epochs.abandon(message.epoch, message.detail);
        return;
      case 'standby':
        this.#leave();
        return;
      case 'limits':
        this.#downloads = new Map(message.downloads.map(({ peer, bytesPerSecond }) => [peer, bytesPerSecond]));
        if (this.#holding.role) this.#shareDownloads(this.#holding.role.plan);
        return;
      case 'refused':
      case 'signal':
      case 'snapshot':
        return;
    }
  }

  peerSent(from: PeerId, message: ArrayBuffer): void {
    this.#meter.received(message.byteLength);
    this.#inbox.accept(from, message);
  }

  linkLost(peer: PeerId): void {
    const { role } = this.#holding;
    const epoch = this.#epochs.current;
    if (!epoch || !this.#run || !role) return;
    if (!neighbours(this.#run.model, role.plan, this.#run.peer).includes(peer)) return;
    this.#epochs.fault(epoch, 'linkLost', `the link to ${peer} closed`, peer);
  }

  /** What the admission found: from now on the server may plan with this donor. */
  measured(profile: Profile): void {
    if (!this.#run) return; // the connection is gone: the next one measures anew
    const { model, facts } = this.#run;
    this.#dutyCycle.forecast = forecastOf(model, facts.train, profile);
    this.#parts.page.sendServer({ type: 'measured', profile });
  }

  /** Before each step that the server starts. */
  linksMeasured(links: readonly LinkReport[]): void {
    this.#links = links;
  }

  /** The server is out of reach: what was in progress will not be committed. */
  disconnected(): void {
    this.#leave();
    this.#run = null;
  }

  #welcome({ peer, run: facts, token }: Message<'welcome'>): void {
    const model = modelFromConfig(facts.model);
    invariant(model.ok, 'the server sent a model that it would have refused itself');
    const files = this.#metered(this.#parts.files(token));
    const source = (list: TokenList, order: Order) =>
      new TokenSource(list, order, facts.train.sequenceLength, (hash) => files.tokenShard(hash));
    this.#run = {
      peer,
      facts,
      model: model.value,
      engine: this.#parts.engine(model.value, facts.train, facts.wire, facts.compute),
      files,
      tokens: source(facts.data, facts.order),
      evaluation: facts.evaluation ? source(facts.evaluation, SEQUENTIAL) : null,
    };
  }

  /** What goes to and comes from the server counts as well. */
  #metered(files: RunFiles): RunFiles {
    const traffic = this.#traffic;
    const received = async <T extends { readonly byteLength: number }>(coming: Promise<T>): Promise<T> => {
      const bytes = await coming;
      this.#meter.received(bytes.byteLength);
      await traffic.fetched(bytes.byteLength);
      return bytes;
    };
    return {
      tokenShard: (hash) => received(files.tokenShard(hash)),
      state: (checkpoint, block, kind, range) => received(files.state(checkpoint, block, kind, range)),
      upload: async (state) => {
        await traffic.maySend(null, state.byteLength);
        this.#meter.sent(state.byteLength);
        return files.upload(state);
      },
    };
  }

  #shareDownloads(plan: Plan): void {
    if (this.#run) this.#traffic.share(downloadParts(this.#run.model, plan, this.#run.peer, this.#downloads));
  }

  #prepare(message: Message<'prepare'>): void {
    const { source, epoch: number } = message;
    // Who hands over completes the committed step first; nothing else of an older epoch goes on.
    const completing = source.from === 'peers' ? source.epoch : null;
    if (this.#epochs.current?.number !== completing) this.#awaitingCommit = null;
    this.#epochs.begin(number, completing, (epoch) => this.#getReady(epoch, message));
  }

  async #getReady(epoch: Epoch, message: Message<'prepare'>): Promise<void> {
    const run = this.#run;
    invariant(run, 'a plan came before the welcome');
    const { plan, source, step } = message;
    this.#inbox.advance(epoch.number, step);
    this.#shareDownloads(plan);
    this.#meter.show({ activity: 'preparing', step });
    await this.#holding.arrive({ ...run, train: run.facts.train, epoch: epoch.number, step, plan }, source, {
      connect: (others) => this.#connect(others, epoch),
      read: (checkpoint, block, kind, range) => run.files.state(checkpoint, block, kind, range),
      send: (to, key, values) => this.#sendTensor(epoch.abort.signal, to, key, values),
      receive: (key, sender) => this.#inbox.receive(key, sender, epoch.abort.signal),
    });
    // What was gathered here and what a step gathers have the same keys.
    this.#inbox.advance(epoch.number, step);
    const { role } = this.#holding;
    // One who only hands over has nothing to say: the server lets it go when everyone else is ready.
    if (!role) return;
    const samples = samplesRead(plan, run.peer);
    expectTokens(run.tokens, run.facts.train, samples, step);
    if (run.evaluation) expectHeldOut(run.evaluation, run.facts.train, samples, 0);
    epoch.abort.signal.throwIfAborted();
    this.#meter.show({
      activity: 'waiting',
      stages: [...role.stages.keys()].map((stage) => ({ stage, layers: plan.stages[stage]?.layers ?? [0, 0] })),
      gpuMemoryBytes: roleBytes(role),
    });
    this.#parts.page.sendServer({ type: 'ready', epoch: epoch.number, memoryBytes: roleBytes(role) });
  }

  #connect(others: readonly PeerId[], epoch: Epoch): Promise<void> {
    const links = this.#parts.page.connect(others, epoch.number);
    links.catch(() => undefined); // awaited when the stages are built
    return links;
  }

  async #train(epoch: Epoch, step: number, lossScale = 1): Promise<void> {
    const { run, role } = this.#atWork();
    this.#inbox.advance(epoch.number, step);
    const actions = stepSchedule(role.plan).get(run.peer) ?? [];
    this.#meter.begin(epoch.number, step, actions.filter(({ op }) => op === 'B').length);
    this.#holding.settle();
    expectTokens(run.tokens, run.facts.train, samplesRead(role.plan, run.peer), step);
    const around = { ...this.#surroundings(epoch, role, step), lossScale };
    await new StepRun(role, around, step).train(actions);
    this.#holding.gathered(step + 1);
    this.#meter.end();
  }

  async #evaluate(epoch: Epoch, step: number): Promise<void> {
    const { run, role } = this.#atWork();
    const source = run.evaluation;
    invariant(source, 'the run has no held-out text');
    this.#holding.settle();
    this.#meter.show({ activity: 'evaluating', step });
    const { globalBatchSize, sequenceLength } = run.facts.train;
    const samples = samplesRead(role.plan, run.peer);
    const actions = forwardOnly(role.plan).get(run.peer) ?? [];
    const sums = new Map<number, number | null>();
    const firstSample = new Map(role.plan.microBatches.map(({ id, samples }) => [id, samples[0]]));
    for (let first = 0, round = 0; first < source.windows; first += globalBatchSize, round++) {
      expectHeldOut(source, run.facts.train, samples, first);
      const around = this.#surroundings(epoch, role, step, source, first);
      const counted = (microBatch: number, row: number): boolean =>
        first + (firstSample.get(microBatch) ?? 0) + Math.floor(row / sequenceLength) < source.windows;
      const losses = await new StepRun(role, around, step, round).evaluate(actions, counted);
      for (const { microBatch, lossSum } of losses) {
        const sum = sums.get(microBatch) ?? 0;
        sums.set(microBatch, lossSum === null || sums.get(microBatch) === null ? null : sum + lossSum);
      }
    }
    const losses = [...sums].map(([microBatch, lossSum]) => ({ microBatch, lossSum }));
    if (losses.length > 0) this.#parts.page.sendServer({ type: 'evaluated', epoch: epoch.number, step, losses });
    this.#meter.show({ activity: 'waiting' });
  }

  #committed({ epoch, step, clipScale, learningRate, checkpoint }: Message<'committed'>): void {
    if (this.#epochs.current?.number !== epoch || !this.#holding.role) return;
    const scalars = { learningRate, clipScale, time: step + 1 };
    this.#lastCommit = { epoch, scalars };
    const waiting = this.#awaitingCommit;
    this.#holding.updated(step + 1);
    if (waiting?.step === step) {
      this.#awaitingCommit = null;
      waiting.resolve(scalars);
    }
    if (checkpoint) this.#epochs.enqueueAlways(() => this.#saveShards(epoch, step + 1));
  }

  /** Copies each shard aside, then uploads while training goes on. */
  async #saveShards(epoch: number, step: number): Promise<void> {
    const { run, role } = this.#atWork();
    if (this.#holding.step !== step) return; // the update itself failed, or the role is another by now
    await this.#upload;
    const shards: { block: BlockName; range: Range; hash: string }[] = [];
    for (const { block, range } of role.kept) {
      const state = await role.shards.readState(block, range);
      shards.push({ block, range, hash: '' });
      const at = shards.length - 1;
      this.#upload = this.#upload.then(async () => {
        shards[at] = { block, range, hash: await run.files.upload(state) };
      });
    }
    this.#upload = this.#upload
      .then(() => {
        if (shards.length > 0) this.#parts.page.sendServer({ type: 'uploaded', epoch, step, shards });
      })
      .catch(() => undefined); // the server misses the upload at its deadline, or has another checkpoint by then
  }

  #surroundings(epoch: Epoch, role: Role, step: number, source?: TokenSource, first?: number): Surroundings {
    const { page } = this.#parts;
    const { signal } = epoch.abort;
    const { run } = this.#atWork();
    const from = first ?? step * run.facts.train.globalBatchSize;
    const samplesOf = new Map(role.plan.microBatches.map(({ id, samples }) => [id, samples]));
    return {
      signal,
      now: this.#parts.now,
      pace: this.#dutyCycle,
      links: this.#links,
      lossScale: 1,
      send: (to, key, values) => this.#sendTensor(signal, to, key, values),
      receive: (key, sender) => this.#meter.awaited(sender, this.#inbox.receive(key, sender, signal)),
      computed: (span) => this.#meter.computed(span),
      tokens: (microBatch) => (source ?? run.tokens).read(from, samplesOf.get(microBatch) ?? [0, 0]),
      report: (message) => page.sendServer(message),
      committed: () => {
        const answer = abortable<UpdateScalars>(signal, (resolve) => {
          const known = this.#lastCommit;
          if (known?.epoch === epoch.number && known.scalars.time === step + 1) resolve(known.scalars);
          else this.#awaitingCommit = { step, resolve };
        });
        this.#meter.show({ activity: 'waiting' });
        return this.#meter.awaited(null, answer).then((scalars) => {
          this.#meter.show({ activity: 'updating' });
          return scalars;
        });
      },
    };
  }

  /** Cuts the tensor at once (its values are only lent), then sends frame by frame as the link has room. */
  #sendTensor(signal: AbortSignal, to: PeerId, key: TensorKey, values: Float32Array): Promise<void> {
    const messages = encodeTensor(key, values);
    return (async () => {
      for (const message of messages) {
        await this.#traffic.maySend(to, message.byteLength);
        signal.throwIfAborted();
        this.#meter.sent(message.byteLength);
        await this.#parts.page.sendFrame(to, message);
      }
    })();
  }

  #atWork(): { readonly run: Run; readonly role: Role } {
    const run = this.#run;
    const { role } = this.#holding;
    invariant(run && role, 'work came before a plan');
    return { run, role };
  }

  #leave(): void {
    this.#epochs.leave();
    this.#meter.drop();
    this.#awaitingCommit = null;
    this.#meter.show({ activity: 'idle' });
    this.#epochs.afterwards(() => this.#dropRole());
  }

  #dropRole(): void {
    this.#holding.drop();
    this.#meter.show({ activity: 'idle', stages: [], gpuMemoryBytes: 0 });
  }
}
