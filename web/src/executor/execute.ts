/**
 * One step of one peer: walks its list of actions, the same list that the simulator reads. Compute goes into the GPU's
 * queue in list order; receives are awaited; sends run beside it and never hold it up. Everything a step waits for ends
 * with its AbortSignal.
 */
import { assertNever, at, got, invariant, type PeerId } from '../../../swarm/base.ts';
import { type TensorKey, tensorBytes } from '../../../swarm/messages/frame.ts';
import { MOST_SPANS, MOST_SPANS_BEHIND, type ReportMessage } from '../../../swarm/messages/messages.ts';
import type { Route } from '../../../swarm/messages/profile.ts';
import { owner } from '../../../swarm/plan/plan.ts';
import type { Action, ComputeAction, MicroAction, TurnEnd } from '../../../swarm/schedule/action.ts';
import { ownOrder, policyOf } from '../../../swarm/schedule/ownOrder.ts';
import type { Policy } from '../../../swarm/schedule/policy.ts';
import { freedBy } from '../../../swarm/schedule/slots.ts';
import { awaitsBeginning } from '../../../swarm/schedule/varuna.ts';
import { type MeasuredSpan, reported } from '../../../swarm/timeline/measured.ts';
import type { Timeline } from '../../../swarm/timeline/timeline.ts';
import { beginningTensor, streamTensor } from '../../../swarm/ways/tensors.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import { samplesOf } from './aloneSeconds.ts';
import { BesideLog, besideReported } from './besideLog.ts';
import { afterMicroBatches, runByMessages } from './byMessages.ts';
import { compute, PassList } from './compute.ts';
import type { ForwardWork, Neighbour, Reading, ShardNorm, Stage, Stream, UpdateScalars } from './engine.ts';
import { Gathering } from './gathering.ts';
import type { CopyTurn } from './lateCopies.ts';
import { type OwnTurn, OwnTurns } from './ownTurns.ts';
import type { Role } from './role.ts';
import { addSlices, StepRows, type StepSlices, said, sendSlices, sentAlone } from './slices.ts';
import type { Surroundings } from './surroundings.ts';
import { tampering, tamperWithSums } from './tampering.ts';
import { gatherAsReplica, gatherValues, holderParts, replicaParts, sendToReplicas, sendValues } from './values.ts';

/** A committed step is completed, whoever dies: these do not ask whether the step is still wanted. */
const AFTER_COMMIT: ReadonlySet<Action['op']> = new Set(['UPDATE', 'SWITCH', 'MEET', 'SEND_V']);

/** Values were counted with the report; a word is no tensor. */
const UNCOUNTED: readonly TensorKey['kind'][] = ['values', 'beginning', 'want', 'turn'];
/** Of a frame that says all by its name. */
const A_WORD: Reading = { take: async (use) => use(new Float32Array(1)) };

type Shards = ReportMessage['shards'];

interface Done extends Pick<ReportMessage, 'losses' | 'sent' | 'committed'> {
  readonly step: number;
  /** Of what this peer keeps, in its order. */
  readonly norms: readonly ShardNorm[];
  readonly digests: readonly (Shards[number]['digests'] | undefined)[];
  readonly timeline: readonly MeasuredSpan[];
  readonly beside: BesideLog;
  readonly bytesSent: Readonly<Record<Route, number>>;
}

/** What a peer tells the server of a step, once the sums of what it keeps stand. */
function stepReport(
  { kept, epoch }: Role,
  around: Surroundings,
  { step, losses, norms, digests, sent = [], committed, timeline, beside, bytesSent }: Done,
): ReportMessage {
  const spans = timeline.slice(0, MOST_SPANS).map(reported);
  const { links, uploadBytesPerSecond, turnErrors = [] } = around;
  const behind = around.behind?.() ?? null;
  return {
    type: 'report',
    epoch,
    step,
    losses,
    shards: kept.map(({ block, range }, place) => ({
      block,
      range,
      sumSquares: said(norms[place]?.sumSquares ?? Number.NaN),
      digests: digests[place] ?? null,
    })),
    ...(sent.length > 0 ? { sent } : {}),
    ...(committed && { committed }),
    bytesDirect: bytesSent.direct,
    bytesRelayed: bytesSent.relayed,
    spans: [...spans, ...beside.take(MOST_SPANS - spans.length).map(besideReported)],
    ...(behind && { behind }),
    links: [...links],
    ...(uploadBytesPerSecond !== undefined && { uploadBytesPerSecond }),
    ...(turnErrors.length > 0 && { turnErrors: [...turnErrors] }),
  };
}

/** The loss of a micro-batch, of the rows that count; null: it is not finite. */
function lossSum(
  microBatch: number,
  rows: Float32Array,
  isCounted: (microBatch: number, row: number) => boolean,
): { microBatch: number; lossSum: number | null } {
  let total = 0;
  for (const [row, loss] of rows.entries()) if (isCounted(microBatch, row)) total += loss;
  return { microBatch, lossSum: Number.isFinite(total) ? total : null };
}

export class StepRun {
  readonly #role: Role;
  readonly #around: Surroundings;
  readonly #step: number;
  readonly #pending: Promise<unknown>[] = [];
  readonly #losses: Promise<{ microBatch: number; lossSum: number | null }>[] = [];
  readonly #slices: StepSlices;
  readonly #gathering: Gathering;
  readonly #passes: PassList;
  readonly #turns: OwnTurns | null; // an evaluation's stream takes none
  readonly #received = new Map<string, Stream>();
  /** In seconds of the clock of `now`. */
  readonly #timeline: MeasuredSpan[] = [];
  readonly #beside: BesideLog;
  readonly #bytesSent: Record<Route, number> = { direct: 0, relayed: 0 };
  #counted: (microBatch: number, row: number) => boolean = () => true;
  #freed: ReturnType<typeof freedBy> = () => [];
  #scalars: UpdateScalars | null = null;
  #copied: Promise<unknown> = Promise.resolve();
  #taken: Promise<void> | undefined;

  readonly #round: number | null; // of an evaluation

  constructor(role: Role, around: Surroundings, step: number, round: number | null = null) {
    this.#role = role;
    this.#around = around;
    this.#step = step;
    this.#round = round;
    this.#slices = { step, sent: new Map(), rows: new StepRows(role.plan, (microBatch) => around.tokens(microBatch)) };
    this.#passes = new PassList(role, round !== null);
    this.#beside = new BesideLog(role.peer, around.now);
    const say = (to: PeerId, key: TensorKey) => this.#sendBeside([to], key, A_WORD, () => undefined);
    this.#turns = round === null ? new OwnTurns(role, step, { receive: around.receive, say }) : null;
    this.#gathering = new Gathering(role, step, round, {
      now: around.now,
      receive: (key, from) => around.receive(key, from),
      send: (to, key, values) => this.#send(to, key, { take: async (use) => use(values) }),
      awaited: (action, coming) => this.#beside.until(action, coming),
    });
  }

  /**
   * Runs a training step to the last gather; what this peer's GPU did. `copies`: replicas lack the values of the step before,
   * which they are sent beside this one's work. `turn`: what they get of their shards beside it, who do not have all.
   */
  async train(actions: readonly Action[], copies = false, turn: CopyTurn = [0, 0]): Promise<Timeline> {
    const { lossScale, counted, endsTurn } = this.#around;
    const withLeftOver = this.#role.leftOver.take(lossScale);
    for (const stage of this.#role.stages.values()) stage.begin(this.#step, lossScale, withLeftOver, counted);
    this.#role.shards.begin();
    this.#gathering.begin();
    this.#copied = Promise.all([copies ? this.#copy() : null, this.#give(turn)]);
    this.#copied.catch(() => undefined); // awaited with the report
    this.#taken = this.#role.late?.take(this.#role, this.#step, turn, this.#around.receive);
    this.#taken?.catch(() => undefined); // awaited with the update, and below
    if (this.#taken) this.#pending.push(this.#taken);
    this.#freed = freedBy(actions);
    const policy = policyOf(this.#role.plan);
    await (policy ? this.#runByMessages(actions, policy) : this.#runAll(actions));
    await Promise.all(this.#pending);
    // The GPU may still be at its update: at full speed nobody waits for that.
    this.#beside.tell(MOST_SPANS_BEHIND, (span) => this.#around.didBehind?.(span));
    if (!endsTurn) this.#role.leftOver.keep(lossScale);
    return this.#timeline;
  }

  /** A piece of answers that the GPU does meanwhile. */
  answering(stage: number, done: Promise<unknown>): void {
    this.#beside.until({ op: 'ANSWER', stage }, done);
  }

  /** Runs a round of an evaluation; the sums of cross-entropy of the rows that `counted` admits, by micro-batch. */
  async evaluate(
    actions: readonly Action[],
    counted: (microBatch: number, row: number) => boolean,
  ): Promise<{ microBatch: number; lossSum: number | null }[]> {
    this.#counted = counted;
    this.#gathering.begin();
    await this.#runAll(actions);
    await Promise.all(this.#pending);
    return Promise.all(this.#losses);
  }

  async #copy(): Promise<void> {
    const sent = sendToReplicas(this.#role, this.#step, (...sent) => this.#send(...sent));
    sent.catch(() => undefined); // awaited below, unless what is gathered fails first
    await gatherAsReplica(this.#role, this.#step, this.#around.receive);
    await sent;
  }

  #give(turn: CopyTurn): Promise<void> | undefined {
    return this.#role.late?.give(this.#role, this.#step, turn, (...sent) => this.#around.send(...sent));
  }

  async #runByMessages(actions: readonly Action[], policy: Policy): Promise<void> {
    const { signal, awaited, collect = this.#around.receive } = this.#around;
    const { plan, peer } = this.#role;
    await runByMessages(actions, ownOrder(plan, policy, peer), {
      run: async (action) => {
        signal.throwIfAborted();
        await this.#run(action);
      },
      begin: ({ stage, microBatch }) => {
        const to = awaitsBeginning(plan, stage, microBatch);
        if (to !== null) this.#send(to, this.#beginningKey(stage - 1, microBatch), A_WORD);
      },
      beginning: (stage, microBatch) =>
        awaitsBeginning(plan, stage + 1, microBatch) === peer
          ? collect(this.#beginningKey(stage, microBatch), this.#owner(stage + 1, microBatch)).then(() => undefined)
          : null,
      collect: (receive) => this.#expect(receive, collect),
      awaited: (receive, coming) => awaited?.(this.#senderOf(receive), coming) ?? coming,
      settled: (stage) => this.#stage(stage).settled(),
    });
    await this.#runAll(afterMicroBatches(actions));
  }

  async #runAll(actions: readonly Action[]): Promise<void> {
    for (const action of actions) {
      if (!AFTER_COMMIT.has(action.op)) this.#around.signal.throwIfAborted();
      await this.#run(action);
    }
  }

  async #run(action: Action): Promise<void> {
    switch (action.op) {
      case 'F':
      case 'B': {
        const pass = this.#passes.with({ ...action, op: action.op });
        if (pass) await (action.op === 'F' ? this.#forward(pass) : this.#backward(pass));
        return;
      }
      case 'RECV_F':
      case 'RECV_B':
        return this.#expect(action);
      case 'SEND_F':
      case 'SEND_B':
        return this.#sendStream(action);
      case 'REDUCE':
        await tamperWithSums(this.#role, action.stage, this.#step);
        return sendSlices(this.#role, action.stage, this.#slices, (...sent) => this.#sendBeside(...sent));
      case 'REPORT':
        return this.#report();
      case 'COMMIT':
        this.#scalars = await this.#around.committed();
        return;
      case 'UPDATE':
        return this.#update();
      case 'SWITCH':
      case 'MEET':
        return endTurn(this.#committed, action.op);
      case 'SEND_V':
        return passOn(this.#committed, (...sent) => this.#send(...sent));
      case 'GATHER':
        return takeNew(this.#committed, action.stage);
      case 'R':
        return this.#recompute({ ...action, op: 'R' });
      default:
        return assertNever(action);
    }
  }

  async #forward(actions: readonly ComputeAction[]): Promise<void> {
    const index = at(actions, 0).stage;
    const stage = this.#stage(index);
    const works = new Map<number, ForwardWork>();
    for (const { microBatch } of actions) works.set(microBatch, await this.#forwardWork(index, microBatch));
    await this.#compute(actions, stage, (microBatch, unit) => stage.forward(got(works, microBatch), unit));
    if (index < this.#role.plan.stages.length - 1) return;
    for (const { microBatch } of actions) {
      const sum = (await stage.readLoss(microBatch)).take((rows) => lossSum(microBatch, rows, this.#counted));
      sum.catch(() => undefined); // awaited with the report
      this.#losses.push(sum);
    }
  }

  async #forwardWork(index: number, microBatch: number): Promise<ForwardWork> {
    const last = index === this.#role.plan.stages.length - 1;
    const isRead = index === 0 || last || this.#around.hasExamples === true;
    const tokens = isRead ? await this.#around.tokens(microBatch) : null;
    const input = index === 0 ? null : this.#input('F', index, microBatch);
    const encoding = last ? undefined : this.#encodingTo(index + 1, microBatch);
    const evaluation = this.#round !== null;
    return { microBatch, samples: this.#samples(microBatch), input, tokens, evaluation, encoding };
  }

  async #recompute(action: ComputeAction): Promise<void> {
    const stage = this.#stage(action.stage);
    if (stage.units) return; // what is gathered is computed again when it is there for its backward
    await this.#compute([action], stage, (microBatch) => stage.recompute(microBatch));
  }

  async #backward(actions: readonly ComputeAction[]): Promise<void> {
    const index = at(actions, 0).stage;
    const stage = this.#stage(index);
    const last = index === this.#role.plan.stages.length - 1;
    /** The first unit has it. */
    const given = new Map(last ? [] : actions.map(({ microBatch: id }) => [id, this.#input('B', index, id)] as const));
    await this.#compute(actions, stage, (microBatch, unit) => {
      const encoding = index === 0 ? undefined : this.#encodingTo(index - 1, microBatch);
      stage.backward(microBatch, given.get(microBatch) ?? null, encoding, unit);
      given.delete(microBatch);
    });
    for (const action of actions) for (const own of this.#freed(action)) this.#stage(own).free(action.microBatch);
  }

  /** How a micro-batch's stream goes to a neighbouring stage; undefined: it stays on this GPU. */
  #encodingTo(stage: number, microBatch: number): WireEncoding | undefined {
    const { peer, written } = this.#role;
    const to = this.#owner(stage, microBatch);
    return to === peer ? undefined : written(peer, to).encoding;
  }

  /** Waits for what a neighbour sends. */
  async #expect(receive: MicroAction, take = this.#around.receive): Promise<void> {
    const { op, stage, microBatch } = receive;
    const isForward = op === 'RECV_F';
    const from = this.#senderOf(receive);
    const key = this.#boundaryKey(isForward ? 'activation' : 'gradient', stage, microBatch, [from, this.#role.peer]);
    const words = await take(key, from);
    const { encoding = 'f32' } = key;
    this.#received.set(`${isForward ? 'F' : 'B'}${stage}/${microBatch}`, { encoding, words });
  }

  #senderOf({ op, stage, microBatch }: MicroAction): PeerId {
    return this.#owner(op === 'RECV_F' ? stage - 1 : stage + 1, microBatch);
  }

  #input(op: 'F' | 'B', stage: number, microBatch: number): Stream | Neighbour {
    const before = op === 'F' ? stage - 1 : stage + 1;
    if (this.#owner(before, microBatch) === this.#role.peer) return { stage: this.#stage(before) };
    const values = this.#received.get(`${op}${stage}/${microBatch}`);
    invariant(values, `nothing was received for ${stage}${op}${microBatch}`);
    this.#received.delete(`${op}${stage}/${microBatch}`);
    return values;
  }

  async #sendStream(action: MicroAction): Promise<void> {
    const { op, stage: from, microBatch } = action;
    const [kind, to] = op === 'SEND_F' ? (['activation', from + 1] as const) : (['gradient', from - 1] as const);
    const stage = this.#stage(from);
    const reading = await (op === 'SEND_F' ? stage.readOutput(microBatch) : stage.readInputGradient(microBatch));
    const receiver = this.#owner(to, microBatch);
    const key = this.#boundaryKey(kind, to, microBatch, [this.#role.peer, receiver]);
    this.#send(receiver, key, reading, this.#turns?.next(action));
  }

  /** Adds the sums of all who compute with this peer's shards, and tells the server of them and of its losses. */
  async #report(): Promise<void> {
    const { peer } = this.#role;
    // The new values are of this step too, but they are sent after its report.
    for (const { to, tensor } of [...holderParts(this.#role, this.#around.endsTurn), ...replicaParts(this.#role)])
      if (to !== peer) this.#count(to, tensor);
    await this.#gathering.added();
    const added = await addSlices(this.#role, this.#slices, this.#around.receive);
    const norms = await this.#norms();
    const digests = await Promise.all(added);
    const sent = await sentAlone(this.#role, this.#step, this.#slices.sent);
    const losses = await Promise.all(this.#losses);
    await this.#settled();
    await this.#copied;
    const committed = await this.#around.commitments?.();
    const done = { step: this.#step, losses, norms, digests, sent, committed, bytesSent: this.#bytesSent };
    const told = { ...done, timeline: this.#timeline, beside: this.#beside };
    this.#around.report(stepReport(this.#role, this.#around, told));
  }

  /** Of replicas too: with the sums comes the proof that the GPU drops no work. */
  async #norms(): Promise<readonly ShardNorm[]> {
    let norms: Promise<readonly ShardNorm[]> = Promise.resolve([]);
    const submit = (): void => {
      norms = this.#role.shards.sumSquares();
    };
    await this.#around.throttle.run({ op: 'norms' }, submit, async () => void (await norms));
    return norms;
  }

  async #update(): Promise<void> {
    // Where a part of a copy does not come its shard is stale, and all others have their update.
    await this.#taken?.catch(() => undefined);
    await update(this.#committed, this.#scalars, () => this.#settled());
  }

  get #committed() {
    return { role: this.#role, around: this.#around, step: this.#step, beside: this.#beside };
  }

  #send(to: PeerId, key: TensorKey, reading: Reading, turn?: OwnTurn | null): void {
    void this.#sendBeside([to], key, reading, () => undefined, turn);
  }

  /** Resolves with what `look` makes of the values while they are lent. */
  #sendBeside<T>(
    to: readonly PeerId[],
    key: TensorKey,
    reading: Reading,
    look: (values: Float32Array<ArrayBuffer>) => T | Promise<T>,
    turn?: OwnTurn | null,
  ): Promise<T> {
    const taken = reading.take((values) => {
      if (key.kind === 'activation' || key.kind === 'gradient') tampering()?.made(key, values);
      return {
        sent: Promise.all(to.map((one) => this.#around.send(one, key, values, turn?.come))),
        seen: look(values),
      };
    });
    this.#around.readingBack?.(taken);
    const sent = taken.then((made) => made.sent);
    sent.catch(() => undefined); // awaited at the end of the step
    this.#pending.push(turn?.over(sent) ?? sent);
    this.#beside.sent(key, sent, turn?.come);
    if (!UNCOUNTED.includes(key.kind)) for (const one of to) this.#count(one, key);
    const looked = taken.then(({ seen }) => seen);
    looked.catch(() => undefined); // awaited with the report, which a step that is left never comes to
    return looked;
  }

  #count(to: PeerId, tensor: Pick<TensorKey, 'range' | 'encoding'>): void {
    const route = this.#around.links.find(({ peer }) => peer === to)?.route ?? 'direct';
    this.#bytesSent[route] += tensorBytes(tensor);
  }

  async #compute(
    actions: readonly ComputeAction[],
    stage: Stage,
    work: (microBatch: number, unit?: number) => void,
  ): Promise<void> {
    const computing = { role: this.#role, around: this.#around, timeline: this.#timeline, gathering: this.#gathering };
    await compute({ ...computing, isEvaluation: this.#round !== null }, actions, stage, work);
    this.#around.signal.throwIfAborted();
  }

  async #settled(): Promise<void> {
    await Promise.all([...this.#role.stages.values()].map((stage) => stage.settled()));
  }

  #beginningKey(stage: number, microBatch: number): TensorKey {
    return { ...beginningTensor(stage, microBatch), epoch: this.#role.epoch, step: this.#step };
  }

  #boundaryKey(
    kind: 'activation' | 'gradient',
    stage: number,
    microBatch: number,
    [from, to]: readonly [PeerId, PeerId],
  ): TensorKey {
    const named = { id: microBatch, samples: this.#samples(microBatch), round: this.#round ?? 0 };
    const name = streamTensor(this.#round === null ? kind : 'heldOut', stage, named, this.#role.written(from, to));
    return { ...name, epoch: this.#role.epoch, step: this.#step };
  }

  #samples(microBatch: number): number {
    return samplesOf(this.#role.plan, microBatch);
  }

  #owner(stage: number, microBatch: number): PeerId {
    return owner(this.#role.plan, stage, microBatch);
  }

  #stage(index: number): Stage {
    const stage = this.#role.stages.get(index);
    invariant(stage, `this peer has no stage ${index}`);
    return stage;
  }
}

/** What the work after a commit needs: the update, the end of an island's turn, the new values out and in. */
interface Committed {
  readonly role: Role;
  readonly around: Surroundings;
  readonly step: number;
  readonly beside: BesideLog;
}

/** What lies in main memory is updated while the GPU updates its own, and goes on beside what comes next: a span each. */
async function update(
  { role: { shards, kept }, around, beside }: Committed,
  scalars: UpdateScalars | null,
  settled: () => Promise<void>,
): Promise<void> {
  invariant(scalars, 'a step is committed before its update');
  const submit = (): void => {
    const updated = Promise.resolve(shards.update(scalars));
    updated.catch(() => undefined); // whoever waits for a shard hears of it
    if (kept.some((work) => work.in === 'host')) beside.until({ op: 'UPDATE_HOST' }, updated);
    if (kept.some((work) => work.in !== 'host')) beside.until({ op: 'UPDATE' }, settled());
  };
  await around.throttle.run({ op: 'update' }, submit, settled);
}

async function endTurn({ role, step, beside }: Committed, op: TurnEnd): Promise<void> {
  const done = role.islands?.stepDone(step) ?? Promise.resolve();
  beside.until({ op }, done);
  await done;
}

type Send = (to: PeerId, key: TensorKey, reading: Reading) => void;

/** Until all of them stand in the queue of what is sent. */
async function passOn({ role, around, step, beside }: Committed, send: Send): Promise<void> {
  const passed = sendValues(role, step, send, around.endsTurn);
  beside.until({ op: 'SEND_V' }, passed);
  await passed;
}

async function takeNew({ role, around, step, beside }: Committed, stage: number): Promise<void> {
  const taken = gatherValues(role, stage, step, around.receive, around.endsTurn);
  beside.until({ op: 'GATHER', stage }, taken);
  await taken;
}
