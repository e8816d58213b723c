/**
 * A donor's side of a run: takes the server's messages in order, keeps one role at a time, runs its steps. Leaving an
 * epoch is one abort. A committed step is applied here even when the step's own run was aborted a moment later (CO22),
 * and nothing is reported for a step before the state stands after the one before.
 */
import { got, invariant, type PeerId } from '../../../swarm/base.ts';
import { isRecorded, laterStep, turnAt } from '../../../swarm/islands/rounds.ts';
import { type Limits, NO_LIMITS } from '../../../swarm/limits.ts';
import { type FrameKind, isOfAnswer, isOfMeeting, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { EvaluatedMessage, ReportMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import type { MeasuredLinks, Profile } from '../../../swarm/messages/profile.ts';
import { stepSchedule } from '../../../swarm/schedule/lower.ts';
import { committedBy, committedPassages } from '../../../swarm/ways/evidence.ts';
import { arrivalPartners, incoming, planPartners, warmBytes } from '../../../swarm/ways/partners.ts';
import type { Passage } from '../../../swarm/ways/passage.ts';
import { admittedSeconds } from './aloneSeconds.ts';
import { type AnswerHost, Answers } from './answers.ts';
import { Checkpointing } from './checkpointing.ts';
import { Commitments } from './commitments.ts';
import { DutyCycle } from './dutyCycle.ts';
import type { UpdateScalars } from './engine.ts';
import { type Epoch, Epochs } from './epochs.ts';
import { type AskedEvidence, EvidenceUploads } from './evidence.ts';
import { StepRun } from './execute.ts';
import { evaluateHeldOut } from './heldOut.ts';
import { Holding } from './holding.ts';
import { IdleWindows } from './idleWindows.ts';
import { abortable, Inbox } from './inbox.ts';
import { type JoinedRun, joinedRun } from './joinedRun.ts';
import { Meetings } from './meetings.ts';
import { Meter } from './meter.ts';
import { Neighbours, probeLink } from './neighbours.ts';
import { type Role, roleBytes, warmRole } from './role.ts';
import { meteredFiles } from './runFiles.ts';
import { sendEach, sendTensor } from './sendFrames.ts';
import type { SessionParts, Ways } from './sessionParts.ts';
import { StepRows } from './slices.ts';
import type { Surroundings } from './surroundings.ts';
import { tampering } from './tampering.ts';
import { TensorCheck } from './tensorCheck.ts';
import type { TokenSource } from './tokenSource.ts';
import { expectHeldOut, expectTokens, samplesOfStep, samplesRead } from './tokensAhead.ts';
import { Traffic } from './traffic.ts';
import { aheadOf, endOfTurn, Turns } from './turns.ts';

type Message<T extends ServerMessage['type']> = Extract<ServerMessage, { type: T }>;

/** Tensors that a step stands still for, its GPU with nothing to do: others come beside its work. */
const STOOD_STILL_FOR: ReadonlySet<FrameKind> = new Set(['activation', 'gradient', 'heldOut', 'slice']);
/** The same in every step of a plan. */
const waitName = ({ kind, stage, index, range }: TensorKey): string => `${kind}/${stage}/${index}/${range.join('-')}`;

/**
 * The server's answers to this peer's steps. A peer without losses and shards may be told of a commit before it asks for it:
 * so the newest one is kept, and whoever asks for it has it at once.
 */
export class Commits {
  #last: { readonly epoch: number; readonly step: number; readonly scalars: UpdateScalars } | null = null;
  #awaiting: { readonly step: number; readonly resolve: (scalars: UpdateScalars) => void } | null = null;

  arrived(epoch: number, step: number, scalars: UpdateScalars): void {
    this.#last = { epoch, step, scalars };
    const waiting = this.#awaiting;
    if (waiting?.step !== step) return;
    this.#awaiting = null;
    waiting.resolve(scalars);
  }

  answer(epoch: number, step: number, signal: AbortSignal): Promise<UpdateScalars> {
    return abortable<UpdateScalars>(signal, (resolve) => {
      const known = this.#last;
      if (known?.epoch === epoch && known.step === step) resolve(known.scalars);
      else this.#awaiting = { step, resolve };
    });
  }

  /** Nobody waits any more. */
  forget(): void {
    this.#awaiting = null;
  }
}

export class Session {
  readonly #parts: SessionParts;
  readonly #inbox = new Inbox((from) => this.#bar(from));
  readonly #dutyCycle: DutyCycle;
  readonly #traffic: Traffic;
  readonly #neighbours: Neighbours;
  #settledEpoch = 0;
  #run: JoinedRun | null = null;
  #token = '';
  /** Plans to make ready for; rises also where a server is back, which counts anew. */
  #warmUps = 0;
  /** What the admission found; null: it is not over. */
  #profile: Profile | null = null;
  #links: MeasuredLinks = { links: [] };
  readonly #holding = new Holding();
  readonly #epochs: Epochs;
  readonly #commits = new Commits();
  readonly #turns = new Turns();
  readonly #checkpointing = new Checkpointing();
  readonly #evidence = new EvidenceUploads();
  /** Of the epoch in progress, where it is audited: what this peer sends and gets in a step. */
  #passages: readonly Passage[] | null = null;
  /** Of the step in progress. */
  #commitments: Commitments | null = null;
  #askedEvidence: AskedEvidence = [];
  readonly #meetings: Meetings;
  readonly #windows: IdleWindows;
  readonly #answers: Answers;
  /** The step under way. */
  #step: StepRun | null = null;
  #limits: Limits = NO_LIMITS;
  /** Of the epoch in progress, where the server wants it checked. */
  #check: TensorCheck | null = null;
  readonly #meter: Meter;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#epochs = new Epochs((epoch, reason, detail, about, attempt) => {
      const of = { ...(about !== undefined && { about }), ...(attempt !== undefined && { attempt }) };
      parts.page.sendServer({ type: 'fault', epoch, reason, detail: detail.slice(0, 2_000), ...of });
    });
    const clock = { now: parts.now, wait: parts.wait };
    this.#meter = new Meter(parts.now, (status) =>
      parts.page.showStatus({ ...status, droppedFrames: this.#inbox.droppedFrames + this.#meetings.droppedFrames }),
    );
    this.#dutyCycle = new DutyCycle(clock, this.#meter.busy);
    this.#traffic = new Traffic(clock);
    this.#neighbours = new Neighbours(parts.ways, this.#traffic);
    this.#meetings = new Meetings({
      ...{ ...parts, epochs: this.#epochs, holding: this.#holding, neighbours: this.#neighbours },
      ...{ traffic: this.#traffic, meter: this.#meter, run: () => this.#run, links: () => this.#links.links },
      bar: (from) => this.#bar(from),
      send: (...of) => this.#sendTensor(...of),
      receive: (...of) => this.#receive(...of),
      advance: (...to) => this.#inbox.advance(...to),
    });
    this.#windows = new IdleWindows(parts.now);
    this.#answers = new Answers({
      ...{ ...clock, windows: this.#windows, throttle: this.#dutyCycle },
      role: () => this.#answering(),
      mayAnswer: () => parts.page.mayAnswer(),
      answering: (stage, rows, done) => {
        this.#step?.answering(stage, done);
        this.#meter.answered(rows);
      },
      memoryBytes: () => this.#limits.memoryBytes ?? this.#profile?.memoryBytes ?? null,
      sendServer: (message) => parts.page.sendServer(message),
      sendFrames: (to, frames) =>
        sendEach(to, frames, { traffic: this.#traffic, meter: this.#meter, ways: parts.ways }),
    });
    this.limit(NO_LIMITS);
  }

  /** What this donor gives from now on. Its memory counts where the server plans. */
  limit(limits: Limits): void {
    this.#limits = limits;
    this.#dutyCycle.speed = limits.speed;
    this.#traffic.limit(limits);
  }

  serverSaid(message: ServerMessage) {
    switch (message.type) {
      case 'welcome':
        return this.#welcome(message);
      case 'warm':
        return this.#warm(message);
      case 'prepare':
        return this.#prepare(message);
      case 'start':
        return this.#epochs.enqueue(message.epoch, (epoch) => this.#train(epoch, message));
      case 'evaluate':
        return this.#epochs.enqueue(message.epoch, (epoch) => this.#evaluate(epoch, message.step));
      case 'committed':
        return this.#committed(message);
      case 'save':
        return this.#epochs.enqueue(message.epoch, () => this.#save(message));
      case 'meet':
        return this.#meetings.meet(message);
      case 'meetingOver':
        return this.#meetings.over(message);
      case 'abandon':
        if (message.epoch === this.#epochs.current?.number) this.#meetings.abandon();
        return this.#epochs.abandon(message.epoch, message.detail);
      case 'standby':
        return message.state === 'finished' ? this.#finished() : this.#leave(message.state === 'spare');
      case 'answer':
        return this.#answers.asked(message);
      case 'limits':
        this.#neighbours.cap(new Map(message.downloads.map(({ peer, bytesPerSecond }) => [peer, bytesPerSecond])));
        return;
      case 'probe':
        // A measurement that fails is none, and no fault of the epoch.
        probeLink(message, { ...this.#parts, traffic: this.#traffic, meter: this.#meter, epochs: this.#epochs }).catch(
          () => undefined,
        );
        return;
      case 'refused':
      case 'signal':
      case 'snapshot':
        return;
    }
  }

  peerSent(from: PeerId, message: ArrayBuffer): void {
    this.#meter.received(message.byteLength);
    const taker = isOfAnswer(message) ? this.#answers : isOfMeeting(message) ? this.#meetings : this.#inbox;
    taker.accept(from, message);
  }

  linkLost(peer: PeerId): void {
    const epoch = this.#epochs.current;
    if (!epoch || !this.#run) return;
    if (!this.#neighbours.isNeeded(peer) || !this.#epochs.fault(epoch, 'linkLost', 'it closed', peer))
      this.#meetings.linkLost(peer);
  }

  /** What the admission found: from now on the server may plan with this donor. */
  measured(profile: Profile): void {
    if (!this.#run) return; // the connection is gone: the next one measures anew
    this.#profile = profile;
    const { model, facts } = this.#run;
    this.#dutyCycle.admitted = admittedSeconds(model, facts.train, profile);
    this.#parts.page.sendServer({ type: 'measured', profile });
  }

  /** Before each step that the server starts. */
  linksMeasured(measured: MeasuredLinks): void {
    this.#links = measured;
  }

  /** What a heartbeat says of the step in progress; the page is shown what time alone changes. */
  readonly progress = () => this.#meter.beat();

  /** The server is out of reach. Unless what is here is kept for its return, it is dropped. */
  disconnected(isKept: boolean): void {
    if (isKept) return;
    this.#evidence.drop();
    this.#leave();
    this.#run = null;
    this.#profile = null;
  }

  /** Under this name everything here goes on: it was admitted before, and nothing of it is dropped. */
  isStill(peer: PeerId): boolean {
    return this.#run?.peer === peer && this.#profile !== null;
  }

  #welcome(message: Message<'welcome'>) {
    const { peer, run: facts, token } = message;
    this.#token = token;
    if (message.heard !== null) return; // the same conversation, and nothing of it is lost
    if (this.isStill(peer)) return this.#resume(message);
    this.disconnected(false);
    const found = this.#parts.files(() => this.#token);
    const files = meteredFiles(found, this.#meter, this.#traffic);
    this.#run = joinedRun(peer, facts, this.#parts.engine, files, this.#parts.pieces);
  }

  /** Completes a commit that it had not heard of, and says what stands here. */
  #resume({ generation, lastCommit, met }: Message<'welcome'>): void {
    const { sendServer } = this.#parts.page;
    this.#meetings.restart();
    this.#warmUps++;
    if (this.#profile) sendServer({ type: 'measured', profile: this.#profile });
    if (lastCommit && generation === this.#holding.generation) this.#committed({ ...lastCommit, checkpoint: false });
    this.#meetings.stoodAt(met, generation);
    sendServer({ type: 'resumed', generation: this.#holding.generation, ...this.#holding.standing });
  }

  /** The plan's first step or evaluation: nothing of the plan before is needed or exchanged any more. */
  #settle(run: JoinedRun, role: Role): void {
    if (this.#settledEpoch === role.epoch) return;
    this.#settledEpoch = role.epoch;
    this.#holding.settle();
    this.#neighbours.exchange(run.peer, planPartners(run.sizes, role.plan));
  }

  /** Beside what is in progress. What fails of it fails again, and is told, when the plan begins. */
  #warm(message: Message<'warm'>): void {
    if (!this.#run) return;
    const asked = ++this.#warmUps;
    this.#inbox.warm(warmBytes(this.#run.sizes, message.plan, this.#run.peer));
    warmUp(message, this.#run, this.#parts.ways).then(
      () => asked === this.#warmUps && this.#parts.page.sendServer({ type: 'warmed', number: message.number }),
      () => undefined,
    );
  }

  #prepare(message: Message<'prepare'>): void {
    const { source, epoch: number } = message;
    // Who hands over completes the committed step first, if all who did it are there; nothing else of an older epoch goes on.
    const completing = source.from === 'peers' && !source.salvaged ? source.epoch : null;
    if (this.#epochs.current?.number !== completing) this.#commits.forget();
    this.#answers.clear();
    if (!this.#run) return;
    const { sizes, peer, facts, evaluation } = this.#run;
    const rounds = Math.ceil((evaluation?.windows ?? 0) / facts.train.globalBatchSize);
    const ahead = (step: number) => aheadOf(facts.train, step, message.plan.islands);
    const lost = this.#inbox.expect(number, message.step, incoming(sizes, message, peer), rounds, ahead);
    this.#meetings.prepare(this.#run, message);
    this.#epochs.begin(number, completing, (epoch) => this.#getReady(epoch, message));
    const { current } = this.#epochs;
    if (lost && current) this.#epochs.fault(current, 'badFrame', `${lost} sent more than there was room for`, lost);
  }

  async #getReady(epoch: Epoch, message: Message<'prepare'>): Promise<void> {
    const run = this.#run;
    invariant(run, 'a plan came before the welcome');
    const { plan, source, generation, step, met } = message;
    this.#windows.updating();
    this.#check = message.check ? new TensorCheck() : null;
    const { sizes } = run;
    this.#passages = message.audited ? committedBy(committedPassages(sizes.model, plan, sizes), run.peer) : null;
    this.#inbox.advance(epoch.number, step);
    this.#neighbours.exchange(run.peer, arrivalPartners(run.sizes, message));
    this.#meter.prepare(plan, run.peer, epoch.number, step);
    await this.#holding.arrive(
      { ...run, train: run.facts.train, epoch: epoch.number, generation, step, met, plan },
      source,
      {
        connect: () => this.#neighbours.connect(message, epoch.abort.signal),
        read: (checkpoint, block, kind, range) => run.files.state(checkpoint, block, kind, range),
        readBase: async (...asked) => run.base?.read(...asked),
        send: (to, key, values) => this.#sendTensor(epoch.abort.signal, to, key, values),
        receive: (key, sender) => this.#meter.awaited(sender, this.#receive(epoch.abort.signal, key, sender)),
      },
    );
    // What was gathered here and what a step gathers have the same keys.
    this.#inbox.advance(epoch.number, step);
    const { role } = this.#holding;
    // One who only hands over has nothing to say: the server lets it go when everyone else is ready.
    if (!role) return;
    const samples = samplesRead(plan, run.peer, run.tokens);
    expectTokens(run.tokens, run.facts.train, samplesOfStep(plan, run.peer, run.tokens), step, plan.islands);
    if (run.evaluation) expectHeldOut(run.evaluation, run.facts.train, samples, 0);
    epoch.abort.signal.throwIfAborted();
    this.#windows.forget();
    this.#meter.show({ activity: 'waiting', gpuMemoryBytes: roleBytes(role) });
    this.#neighbours.need(planPartners(run.sizes, plan));
    const { hostBytes } = role.shards;
    const inHost = hostBytes > 0 ? { hostBytes } : {};
    this.#parts.page.sendServer({ type: 'ready', epoch: epoch.number, memoryBytes: roleBytes(role), ...inHost });
  }

  #bar(from: PeerId): void {
    this.#parts.ways.bar(from);
    const { current } = this.#epochs;
    if (current) this.#epochs.fault(current, 'badFrame', `${from} sends what nobody asked for`, from);
  }

  async #train(epoch: Epoch, { step, lossScale = 1, counted, copies, turn }: Message<'start'>): Promise<void> {
    const { run, role } = this.#atWork();
    this.#turns.told(step, turn);
    // What an attempt before added does not count. A group's next step may be further than it stands.
    this.#holding.added(Math.min(step, this.#holding.committedStep));
    this.#inbox.advance(epoch.number, step);
    const { train } = run.facts;
    const end = endOfTurn(train, step, role.plan.islands);
    const actions = got(stepSchedule(role.plan, end), run.peer);
    this.#meter.begin(epoch.number, step, actions.filter(({ op }) => op === 'B').length);
    this.#settle(run, role);
    this.#commitments = this.#passages && new Commitments(this.#passages, { epoch: epoch.number, step });
    expectTokens(run.tokens, train, samplesOfStep(role.plan, run.peer, run.tokens), step, role.plan.islands);
    const around = { ...this.#surroundings(epoch, role, step), lossScale, counted, endsTurn: end !== null };
    const stepRun = new StepRun(role, around, step);
    this.#step = stepRun;
    const work = () => stepRun.train(actions, !this.#holding.isFirst(step), copies);
    const timeline = await this.#windows.step(work).finally(() => {
      this.#step = null;
    });
    this.#holding.gathered(step + 1);
    this.#meter.end(timeline);
  }

  async #evaluate(epoch: Epoch, step: number): Promise<void> {
    const { run, role } = this.#atWork();
    const source = run.evaluation;
    invariant(source, 'the run has no held-out text');
    this.#settle(run, role);
    const around = (first: number): Surroundings => this.#surroundings(epoch, role, step, source, first);
    const { train } = run.facts;
    const work = () => this.#windows.step(() => evaluateHeldOut(role, train, source, step, around));
    const losses = await this.#meter.evaluating(step, work);
    // Where it is checked, everyone has something to say.
    if (losses.length > 0 || this.#check) this.#tell({ type: 'evaluated', epoch: epoch.number, step, losses }, role);
  }

  #committed({ epoch, step, checkpoint, excused, evidence = [], ...rates }: Omit<Message<'committed'>, 'type'>): void {
    const { current } = this.#epochs;
    const { role } = this.#holding;
    if (current?.number !== epoch || !role || !this.#run) return;
    const { train } = this.#run.facts;
    if (!this.#turns.isNext(train, this.#holding.committedStep, role.plan.islands, step)) return;
    const scalars = { ...rates, time: this.#turns.of(train, step).time };
    if (current.abort.signal.aborted) {
      // Its run has ended here, but not what it came to: a committed step is completed (CO22).
      if (!this.#holding.hasAdded(step + 1)) return;
      const [taken, { files }] = [this.#takenFrom(role, step), this.#run];
      this.#epochs.enqueueAlways(async () => {
        if (taken) await this.#evidence.take(taken, evidence, files);
        await role.shards.update(scalars);
        await role.islands?.stepDone(step);
      });
    }
    this.#holding.committed(step + 1);
    this.#askedEvidence = evidence;
    this.#commits.arrived(epoch, step, scalars);
    if (checkpoint) this.#epochs.enqueueAlways(() => this.#save({ epoch, step: step + 1, excused }));
  }

  async #save(asked: Omit<Message<'save'>, 'type'>): Promise<void> {
    const { run, role } = this.#atWork();
    if (!this.#holding.isWhole || this.#holding.step !== asked.step) return; // the update failed, or the role is another by now
    await this.#checkpointing.save(role, asked, run.files, this.#parts.page.sendServer);
  }

  #surroundings(epoch: Epoch, role: Role, step: number, source?: TokenSource, first?: number): Surroundings {
    const [{ signal }, { run }] = [epoch.abort, this.#atWork()];
    const from = first ?? this.#turns.firstSample(run.facts.train, step);
    const taken = source ? null : this.#takenFrom(role, step);
    return {
      signal,
      now: this.#parts.now,
      throttle: this.#dutyCycle,
      ...this.#links,
      lossScale: 1,
      send: (...sent) => this.#sendTensor(signal, ...sent),
      receive: (key, sender) => {
        const coming = this.#meter.awaited(sender, this.#receive(signal, key, sender));
        return STOOD_STILL_FOR.has(key.kind) ? this.#windows.during(waitName(key), coming) : coming;
      },
      collect: (key, sender) => this.#receive(signal, key, sender),
      ...this.#meter.ofStep(step),
      awaited: (from, coming) => this.#windows.during(from, this.#meter.awaited(from, coming)),
      tokens: tokensOf(role.plan, source ?? run.tokens, from),
      hasExamples: run.tokens.hasExamples,
      ...(taken && { commitments: () => taken.commitments.digests() }),
      report: (message) => {
        this.#holding.added(step + 1);
        this.#tell(tampering()?.reports(message) ?? message, role);
        this.#meter.reported();
      },
      committed: () => {
        this.#meter.show({ activity: 'waiting' });
        const answer = this.#meter.awaited(null, this.#commits.answer(epoch.number, step, signal));
        return this.#windows.during('commit', answer).then(async (scalars) => {
          if (taken) await this.#evidence.take(taken, this.#askedEvidence, run.files);
          this.#windows.updating();
          this.#meter.show({ activity: 'updating' });
          return scalars;
        });
      },
    };
  }

  /** What evidence of a step is taken from, where it is audited. */
  #takenFrom(role: Role, step: number): Parameters<EvidenceUploads['take']>[0] | null {
    const { run } = this.#atWork();
    const commitments = this.#commitments;
    if (commitments === null) return null;
    const tokens = tokensOf(role.plan, run.tokens, this.#turns.firstSample(run.facts.train, step));
    return { role, step, size: run.sizes, commitments, rows: new StepRows(role.plan, tokens) };
  }

  #tell(message: ReportMessage | EvaluatedMessage, { plan }: Role): void {
    this.#parts.page.sendServer(this.#check?.told(message, plan.stages.length - 1) ?? message);
  }

  async #receive(signal: AbortSignal, key: TensorKey, sender: PeerId): Promise<Float32Array<ArrayBuffer>> {
    const values = await this.#inbox.receive(key, sender, signal);
    this.#check?.look(key, values, sender);
    this.#commitments?.look(key, values, sender, false);
    return values;
  }

  /** Frame by frame as the link has room. */
  #sendTensor(signal: AbortSignal, ...[to, key, values, turn]: Parameters<Surroundings['send']>): Promise<void> {
    this.#check?.look(key, values);
    if (this.#run) this.#commitments?.look(key, values, this.#run.peer, true);
    const leaving = tampering()?.leaves(key, values) ?? values;
    const sending = { traffic: this.#traffic, meter: this.#meter, ways: this.#parts.ways };
    return sendTensor(to, key, leaving, sending, signal, turn);
  }

  #answering(): ReturnType<AnswerHost['role']> {
    const [run, { role, committedStep }] = [this.#run, this.#holding];
    return run && role && { role, engine: run.engine, steps: committedStep };
  }

  #atWork(): { readonly run: JoinedRun; readonly role: Role } {
    const [run, { role }] = [this.#run, this.#holding];
    invariant(run && role, 'work came before a plan');
    return { run, role };
  }

  /** Nothing is left to train: what stands here answers questions, for as long as whoever gives it likes. */
  #finished(): void {
    const { role } = this.#holding;
    if (!role || role.islands) {
      this.#leave();
      return;
    }
    this.#meter.show({ activity: 'idle' });
    void this.#parts.page.mayAnswer().then((may) => {
      if (!may && this.#holding.role === role) this.#leave();
    });
  }

  #leave(isSpare = false): void {
    this.#answers.clear();
    this.#epochs.leave();
    this.#neighbours.exchange(null, new Map());
    this.#meetings.leave(isSpare);
    this.#inbox.clear();
    this.#meter.drop();
    this.#commits.forget();
    this.#meter.show({ activity: 'idle' });
    this.#epochs.afterwards(() => this.#dropRole());
  }

  #dropRole(): void {
    this.#holding.drop();
    this.#meter.show({ activity: 'idle', stages: [], stageCount: 0, gpuMemoryBytes: 0 });
  }
}

/** Of each micro-batch of a step whose samples begin with the first. */
function tokensOf({ microBatches }: Role['plan'], source: TokenSource, first: number): Surroundings['tokens'] {
  const samplesOf = new Map(microBatches.map(({ id, samples }) => [id, samples]));
  return (microBatch) => source.read(first, got(samplesOf, microBatch));
}

/** What this peer can do for a plan before it begins: compile, fetch tokens and what stands, open links. It makes no role and moves no state. */
async function warmUp(
  { plan, epoch, step }: Message<'warm'>,
  { peer, sizes, engine, facts: { train }, tokens, base }: JoinedRun,
  ways: Pick<Ways, 'openAhead'>,
): Promise<void> {
  const links = ways.openAhead([...(planPartners(sizes, plan).get(peer) ?? [])], epoch);
  const next = isRecorded(train) ? null : turnAt(train, laterStep(train, step, plan.islands) ?? step);
  // Read past those that are expected, which belong to the plan in force.
  const samples = next === null ? [] : samplesOfStep(plan, peer, tokens);
  const first = (next?.number ?? 0) * train.globalBatchSize;
  const read = Promise.all(samples.map((sample) => tokens.read(first, [sample, sample + 1])));
  await Promise.all([links, read, base?.warm(plan, peer), warmRole(engine, train, plan, peer)]);
}
