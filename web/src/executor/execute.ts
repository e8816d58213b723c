/**
 * One step of one peer: walks its list of actions, the same list that the simulator reads. Compute goes into the GPU's
 * queue in list order; receives are awaited; sends run beside it and never hold it up. Everything a step waits for ends
 * with its AbortSignal.
 */
import { assertNever, invariant, type PeerId } from '../../../swarm/base.ts';
import { type TensorKey, tensorBytes } from '../../../swarm/messages/frame.ts';
import { MOST_SPANS } from '../../../swarm/messages/messages.ts';
import type { Route } from '../../../swarm/messages/profile.ts';
import { owner } from '../../../swarm/plan/plan.ts';
import type { Action, ComputeAction } from '../../../swarm/schedule/action.ts';
import { againAhead, againInBackward } from '../../../swarm/schedule/recompute.ts';
import { begun, type MeasuredSpan, reported } from '../../../swarm/timeline/measured.ts';
import type { Timeline } from '../../../swarm/timeline/timeline.ts';
import { streamTensor } from '../../../swarm/ways/tensors.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import type { ComputeKind } from './aloneSeconds.ts';
import type { Reading, ShardNorm, Stage, Stream, UpdateScalars } from './engine.ts';
import type { CopyTurn } from './lateCopies.ts';
import type { Role } from './role.ts';
import { addSlices, type SentDigests, sendSlices, sentAlone } from './slices.ts';
import type { Surroundings } from './surroundings.ts';
import { gatherAsReplica, gatherValues, holderParts, replicaParts, sendToReplicas, sendValues } from './values.ts';

/** A committed step is completed, whoever dies: these do not ask whether the step is still wanted. */
const AFTER_COMMIT: ReadonlySet<Action['op']> = new Set(['UPDATE', 'SWITCH', 'MEET', 'SEND_V']);

/** JSON has no number for what is not finite. */
const said = (sum: number): number | 'NaN' | 'Infinity' =>
  Number.isNaN(sum) ? 'NaN' : Number.isFinite(sum) ? sum : 'Infinity';

export class StepRun {
  readonly #role: Role;
  readonly #around: Surroundings;
  readonly #step: number;
  readonly #pending: Promise<unknown>[] = [];
  readonly #losses: Promise<{ microBatch: number; lossSum: number | null }>[] = [];
  readonly #sentDigests: SentDigests = new Map();
  readonly #handoffs = new Map<string, Promise<Stream>>();
  /** In seconds of the clock of `now`. */
  readonly #timeline: MeasuredSpan[] = [];
  readonly #bytesSent: Record<Route, number> = { direct: 0, relayed: 0 };
  #counted: (microBatch: number, row: number) => boolean = () => true;
  #scalars: UpdateScalars | null = null;
  #copied: Promise<unknown> = Promise.resolve();
  #taken: Promise<void> | undefined;

  /** Of an evaluation; null: a training step. */
  readonly #round: number | null;

  constructor(role: Role, around: Surroundings, step: number, round: number | null = null) {
    this.#role = role;
    this.#around = around;
    this.#step = step;
    this.#round = round;
  }

  /**
   * Runs a training step to the last gather; what this peer's GPU did. `copies`: replicas lack the values of the step before,
   * which they are sent beside this one's work. `turn`: what they get of their shards beside it, who do not have all.
   */
  async train(actions: readonly Action[], copies = false, turn: CopyTurn = [0, 0]): Promise<Timeline> {
    for (const stage of this.#role.stages.values()) stage.begin(this.#step, this.#around.lossScale);
    this.#role.shards.begin();
    this.#copied = Promise.all([copies ? this.#copy() : null, this.#give(turn)]);
    this.#copied.catch(() => undefined); // awaited with the report
    this.#taken = this.#role.late?.take(this.#role, this.#step, turn, this.#around.receive);
    this.#taken?.catch(() => undefined); // awaited with the update, and below
    if (this.#taken) this.#pending.push(this.#taken);
    await this.#runAll(actions);
    await Promise.all(this.#pending);
    return this.#timeline;
  }

  /** Runs a round of an evaluation; the sums of cross-entropy of the rows that `counted` admits, by micro-batch. */
  async evaluate(
    actions: readonly Action[],
    counted: (microBatch: number, row: number) => boolean,
  ): Promise<{ microBatch: number; lossSum: number | null }[]> {
    this.#counted = counted;
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

  async #runAll(actions: readonly Action[]): Promise<void> {
    for (const action of actions) {
      if (!AFTER_COMMIT.has(action.op)) this.#around.signal.throwIfAborted();
      await this.#run(action);
    }
  }

  async #run(action: Action): Promise<void> {
    switch (action.op) {
      case 'F':
        return this.#forward(action.stage, action.microBatch);
      case 'B':
        return this.#backward(action.stage, action.microBatch);
      case 'RECV_F':
        return this.#expect('F', action.stage, action.microBatch, action.stage - 1);
      case 'RECV_B':
        return this.#expect('B', action.stage, action.microBatch, action.stage + 1);
      case 'SEND_F':
        return this.#sendStream('activation', action.stage, action.stage + 1, action.microBatch);
      case 'SEND_B':
        return this.#sendStream('gradient', action.stage, action.stage - 1, action.microBatch);
      case 'REDUCE':
        return sendSlices(this.#role, action.stage, this.#step, this.#sentDigests, (...sent) =>
          this.#sendBeside(...sent),
        );
      case 'REPORT':
        return this.#report();
      case 'COMMIT':
        this.#scalars = await this.#around.committed();
        return;
      case 'UPDATE':
        return this.#update();
      case 'SWITCH':
      case 'MEET':
        return this.#endTurn(action);
      case 'SEND_V':
        return sendValues(this.#role, this.#step, (...sent) => this.#send(...sent));
      case 'GATHER':
        return gatherValues(this.#role, action.stage, this.#step, this.#around.receive);
      case 'R':
        return this.#recompute(action.stage, action.microBatch);
      default:
        return assertNever(action);
    }
  }

  async #endTurn(action: Action): Promise<void> {
    const { now, turnEnded } = this.#around;
    const startSeconds = now();
    await this.#role.islands?.stepDone(this.#step);
    turnEnded?.({ peer: this.#role.peer, action, startSeconds, endSeconds: now() });
  }

  async #forward(index: number, microBatch: number): Promise<void> {
    const stage = this.#stage(index);
    const last = index === this.#role.plan.stages.length - 1;
    const tokens = index === 0 || last ? await this.#around.tokens(microBatch) : null;
    const input = index === 0 ? null : await this.#input('F', index, microBatch);
    const samples = this.#samples(microBatch);
    const encoding = last ? undefined : this.#encodingTo(index + 1, microBatch);
    await this.#compute({ op: 'F', stage: index, microBatch }, stage, () =>
      stage.forward({ microBatch, samples, input, tokens, evaluation: this.#round !== null, encoding }),
    );
    if (last) {
      const reading = await stage.readLoss(microBatch);
      const sum = reading.take((rows) => {
        let total = 0;
        for (const [row, loss] of rows.entries()) if (this.#counted(microBatch, row)) total += loss;
        return { microBatch, lossSum: Number.isFinite(total) ? total : null };
      });
      sum.catch(() => undefined); // awaited with the report
      this.#losses.push(sum);
    } else if (this.#owner(index + 1, microBatch) === this.#role.peer) {
      this.#handOver('F', index + 1, microBatch, await stage.readOutput(microBatch));
    }
  }

  async #recompute(index: number, microBatch: number): Promise<void> {
    const stage = this.#stage(index);
    await this.#compute({ op: 'R', stage: index, microBatch }, stage, () => stage.recompute(microBatch));
  }

  async #backward(index: number, microBatch: number): Promise<void> {
    const stage = this.#stage(index);
    const last = index === this.#role.plan.stages.length - 1;
    const gradient = last ? null : await this.#input('B', index, microBatch);
    const encoding = index === 0 ? undefined : this.#encodingTo(index - 1, microBatch);
    const work = { op: 'B', stage: index, microBatch } as const;
    await this.#compute(work, stage, () => stage.backward(microBatch, gradient, encoding));
    if (index > 0 && this.#owner(index - 1, microBatch) === this.#role.peer) {
      this.#handOver('B', index - 1, microBatch, await stage.readInputGradient(microBatch));
    }
  }

  /** How a micro-batch's stream goes to a neighbouring stage. */
  #encodingTo(stage: number, microBatch: number): WireEncoding {
    return this.#owner(stage, microBatch) === this.#role.peer ? 'f32' : this.#role.wire;
  }

  /** Waits for what a neighbour sends; the action that needs it takes it from the same place as a hand-over. */
  async #expect(op: 'F' | 'B', stage: number, microBatch: number, sender: number): Promise<void> {
    const key = this.#boundaryKey(op === 'F' ? 'activation' : 'gradient', stage, microBatch);
    const words = await this.#around.receive(key, this.#owner(sender, microBatch));
    this.#handoffs.set(`${op}${stage}/${microBatch}`, Promise.resolve({ encoding: this.#role.wire, words }));
  }

  #handOver(op: 'F' | 'B', stage: number, microBatch: number, reading: Reading): void {
    const values = reading.take((read) => ({ encoding: 'f32' as const, words: read.slice() }));
    values.catch(() => undefined); // awaited by the next stage, which a step that is left never comes to
    this.#handoffs.set(`${op}${stage}/${microBatch}`, values);
  }

  async #input(op: 'F' | 'B', stage: number, microBatch: number): Promise<Stream> {
    const values = this.#handoffs.get(`${op}${stage}/${microBatch}`);
    invariant(values, `nothing was received for ${stage}${op}${microBatch}`);
    this.#handoffs.delete(`${op}${stage}/${microBatch}`);
    return values;
  }

  async #sendStream(kind: 'activation' | 'gradient', from: number, to: number, microBatch: number): Promise<void> {
    const stage = this.#stage(from);
    const reading = await (kind === 'activation' ? stage.readOutput(microBatch) : stage.readInputGradient(microBatch));
    this.#send(this.#owner(to, microBatch), this.#boundaryKey(kind, to, microBatch), reading);
  }

  /** Adds the sums of all who compute with this peer's shards, and tells the server of them and of its losses. */
  async #report(): Promise<void> {
    const { peer, epoch } = this.#role;
    const { links, uploadBytesPerSecond } = this.#around;
    // The new values are of this step too, but they are sent after its report.
    for (const { to, part } of [...holderParts(this.#role), ...replicaParts(this.#role)])
      if (to !== peer) this.#count(to, { range: part });
    const added = await addSlices(this.#role, this.#step, this.#sentDigests, this.#around.receive);
    const norms = await this.#norms();
    const digests = await Promise.all(added);
    const sent = await sentAlone(this.#role, this.#step, this.#sentDigests);
    const losses = await Promise.all(this.#losses);
    await this.#settled();
    await this.#copied;
    this.#around.report({
      type: 'report',
      epoch,
      step: this.#step,
      losses,
      shards: this.#role.kept.map(({ block, range, isPrimary }, place) => ({
        block,
        range,
        sumSquares: isPrimary ? said(norms[place]?.sumSquares ?? Number.NaN) : null,
        digests: digests[place] ?? null,
      })),
      ...(sent.length > 0 ? { sent } : {}),
      bytesDirect: this.#bytesSent.direct,
      bytesRelayed: this.#bytesSent.relayed,
      spans: this.#timeline.slice(0, MOST_SPANS).map(reported),
      ...(this.#around.turnEnd && { turnEnd: this.#around.turnEnd }),
      links: [...links],
      ...(uploadBytesPerSecond !== undefined && { uploadBytesPerSecond }),
    });
  }

  /** Of replicas too: with the sums comes the proof that the GPU drops no work (ST5). */
  async #norms(): Promise<readonly ShardNorm[]> {
    let norms: Promise<readonly ShardNorm[]> = Promise.resolve([]);
    const submit = (): void => {
      norms = this.#role.shards.sumSquares();
    };
    await this.#around.throttle.run({ op: 'norms' }, submit, async () => void (await norms));
    return norms;
  }

  async #update(): Promise<void> {
    const scalars = this.#scalars;
    invariant(scalars, 'a step is committed before its update');
    // Where a part of a copy does not come its shard is stale, and all others have their update.
    await this.#taken?.catch(() => undefined);
    await this.#around.throttle.run(
      { op: 'update' },
      () => this.#role.shards.update(scalars),
      () => this.#settled(),
    );
  }

  #send(to: PeerId, key: TensorKey, reading: Reading): void {
    void this.#sendBeside([to], key, reading, () => undefined);
  }

  /** Resolves with what `look` makes of the values while they are lent. */
  #sendBeside<T>(
    to: readonly PeerId[],
    key: TensorKey,
    reading: Reading,
    look: (values: Float32Array<ArrayBuffer>) => T | Promise<T>,
  ): Promise<T> {
    const taken = reading.take((values) => ({
      sent: Promise.all(to.map((one) => this.#around.send(one, key, values))),
      seen: look(values),
    }));
    const sent = taken.then((made) => made.sent);
    sent.catch(() => undefined); // awaited at the end of the step
    this.#pending.push(sent);
    if (key.kind !== 'values') for (const one of to) this.#count(one, key); // values were counted with the report
    const looked = taken.then(({ seen }) => seen);
    looked.catch(() => undefined); // awaited with the report, which a step that is left never comes to
    return looked;
  }

  #count(to: PeerId, tensor: Pick<TensorKey, 'range' | 'encoding'>): void {
    const route = this.#around.links.find(({ peer }) => peer === to)?.route ?? 'direct';
    this.#bytesSent[route] += tensorBytes(tensor);
  }

  /** What one action computes, in its place among what the donor's share of its GPU allows. */
  async #compute(action: ComputeAction, stage: Stage, work: () => void): Promise<void> {
    const { now, throttle } = this.#around;
    const kind = this.#kindOf(action);
    await throttle.run(
      kind,
      () => {
        const submittedSeconds = now();
        work();
        void stage
          .settled()
          .then(() => {
            const times = { submittedSeconds, endSeconds: now(), aloneSeconds: throttle.alone(kind) || undefined };
            this.#timeline.push(begun({ peer: this.#role.peer, action, ...times }, this.#timeline.at(-1)));
            this.#around.computed?.(action);
          })
          .catch(() => undefined); // a lost device ends the step elsewhere
      },
      () => stage.settled(),
    );
    this.#around.signal.throwIfAborted();
  }

  #kindOf({ op, stage, microBatch }: ComputeAction): ComputeKind {
    const planned = this.#role.plan.stages[stage];
    invariant(planned, `the plan has no stage ${stage}`);
    const own = planned.members.find(({ peer }) => peer === this.#role.peer);
    const { recompute = [] } = own ?? {};
    const work = { layers: planned.layers, samples: this.#samples(microBatch) };
    if (this.#round !== null) return { ...work, op: 'evaluation', recomputed: 0 };
    if (op === 'R') return { ...work, op, recomputed: againAhead(recompute) };
    return op === 'B' ? { ...work, op, recomputed: againInBackward(recompute) } : { ...work, op: 'F', recomputed: 0 };
  }

  async #settled(): Promise<void> {
    await Promise.all([...this.#role.stages.values()].map((stage) => stage.settled()));
  }

  #boundaryKey(kind: 'activation' | 'gradient', stage: number, microBatch: number): TensorKey {
    const { model, epoch, sequence, wire } = this.#role;
    const named = { id: microBatch, samples: this.#samples(microBatch), round: this.#round ?? 0 };
    const size = { sequence, wire, width: model.width };
    const name = streamTensor(this.#round === null ? kind : 'heldOut', stage, named, size);
    return { ...name, epoch, step: this.#step };
  }

  #samples(microBatch: number): number {
    const found = this.#role.plan.microBatches.find(({ id }) => id === microBatch);
    invariant(found, `no micro-batch ${microBatch}`);
    return found.samples[1] - found.samples[0];
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
