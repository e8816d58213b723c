/**
 * One step of one peer: walks its list of actions, the same list that the simulator reads. Compute goes into the GPU's
 * queue in list order; receives are awaited; sends run beside it and never hold it up. Everything a step waits for ends
 * with its AbortSignal.
 */
import { assertNever, invariant, type PeerId } from '../../../swarm/base.ts';
import { type TensorKey, tensorBytes } from '../../../swarm/frame.ts';
import { slices } from '../../../swarm/layout.ts';
import type { ShardWork } from '../../../swarm/memory.ts';
import {
  type LinkReport,
  MOST_SPANS,
  type PeerMessage,
  type ReportMessage,
  type Route,
} from '../../../swarm/messages.ts';
import type { BlockUse, Model } from '../../../swarm/model.ts';
import { owner, type Plan } from '../../../swarm/plan.ts';
import { type Action, formatAction, type MicroAction } from '../../../swarm/schedule/action.ts';
import { againAhead, againInBackward } from '../../../swarm/schedule/recompute.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import type { Pace } from './dutyCycle.ts';
import type { MicroTokens, Reading, ShardNorm, Shards, Stage, Stream, UpdateScalars } from './engine.ts';
import type { StageWork } from './forecast.ts';
import { blockIndex, gatherValues, sendValues, valueParts } from './values.ts';

/** What a plan means to this peer: made once an epoch. */
export interface Role {
  readonly model: Model;
  readonly plan: Plan;
  readonly peer: PeerId;
  readonly epoch: number;
  /** T: positions of a sample. */
  readonly sequence: number;
  /** How the stream goes from peer to peer. */
  readonly wire: WireEncoding;
  readonly stages: ReadonlyMap<number, Stage>;
  readonly shards: Shards;
  readonly uses: ReadonlyMap<number, readonly BlockUse[]>;
  readonly kept: readonly ShardWork[];
}

/** The outside world, as a step sees it. */
export interface Surroundings {
  readonly signal: AbortSignal;
  now(): number;
  /** Every piece of GPU work goes through it. */
  readonly pace: Pace;
  /** The ways to the others while this step lasts. */
  readonly links: readonly LinkReport[];
  /** What this step's gradients are multiplied with: 1 where the run does not ask for f16. */
  readonly lossScale: number;
  /** Resolves when the link has taken the whole tensor. */
  send(to: PeerId, key: TensorKey, values: Float32Array): Promise<void>;
  receive(key: TensorKey, from: PeerId): Promise<Float32Array<ArrayBuffer>>;
  /** Tokens of the samples of a micro-batch. */
  tokens(microBatch: number): Promise<MicroTokens>;
  report(message: PeerMessage): void;
  /** This piece of work is computed. */
  computed?(span: Span): void;
  /** The server's answer to this step. */
  committed(): Promise<UpdateScalars>;
}

type Span = ReportMessage['spans'][number];

export class StepRun {
  readonly #role: Role;
  readonly #around: Surroundings;
  readonly #step: number;
  readonly #pending: Promise<unknown>[] = [];
  readonly #losses: Promise<{ microBatch: number; lossSum: number | null }>[] = [];
  readonly #handoffs = new Map<string, Promise<Stream>>();
  readonly #spans: Span[] = [];
  readonly #bytesSent: Record<Route, number> = { direct: 0, relayed: 0 };
  #counted: (microBatch: number, row: number) => boolean = () => true;
  #updated = false;

  /** Of an evaluation; null: a training step. */
  readonly #round: number | null;

  constructor(role: Role, around: Surroundings, step: number, round: number | null = null) {
    this.#role = role;
    this.#around = around;
    this.#step = step;
    this.#round = round;
  }

  /** Runs a training step to the last gather. */
  async train(actions: readonly Action[]): Promise<void> {
    for (const stage of this.#role.stages.values()) stage.begin(this.#around.lossScale);
    this.#role.shards.begin();
    await this.#runAll(actions);
    await this.#update();
    await Promise.all(this.#pending);
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

  async #runAll(actions: readonly Action[]): Promise<void> {
    for (const action of actions) {
      this.#around.signal.throwIfAborted();
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
        return this.#dispatch('activation', action.stage, action.stage + 1, action.microBatch);
      case 'SEND_B':
        return this.#dispatch('gradient', action.stage, action.stage - 1, action.microBatch);
      case 'REDUCE':
        return this.#reduce(action.stage);
      case 'UPDATE':
        return this.#update();
      case 'GATHER':
        return this.#gather(action.stage);
      case 'R':
        return this.#recompute(action);
      default:
        return assertNever(action);
    }
  }

  async #forward(index: number, microBatch: number): Promise<void> {
    const stage = this.#stage(index);
    const last = index === this.#role.plan.stages.length - 1;
    const tokens = index === 0 || last ? await this.#around.tokens(microBatch) : null;
    const input = index === 0 ? null : await this.#input('F', index, microBatch);
    const samples = this.#samples(microBatch);
    const leaves = last ? undefined : this.#encodingTo(index + 1, microBatch);
    await this.#compute({ op: 'F', stage: index, microBatch }, stage, () =>
      stage.forward({ microBatch, samples, input, tokens, evaluation: this.#round !== null, leaves }),
    );
    if (last) {
      const reading = await stage.readLoss(microBatch);
      const sum = reading.take((rows) => {
        let total = 0;
        for (let row = 0; row < rows.length; row++) if (this.#counted(microBatch, row)) total += rows[row];
        return { microBatch, lossSum: Number.isFinite(total) ? total : null };
      });
      sum.catch(() => undefined); // awaited with the report
      this.#losses.push(sum);
    } else if (this.#owner(index + 1, microBatch) === this.#role.peer) {
      this.#handOver('F', index + 1, microBatch, await stage.readOutput(microBatch));
    }
  }

  async #recompute(action: MicroAction): Promise<void> {
    const stage = this.#stage(action.stage);
    await this.#compute(action, stage, () => stage.recompute(action.microBatch));
  }

  async #backward(index: number, microBatch: number): Promise<void> {
    const stage = this.#stage(index);
    const last = index === this.#role.plan.stages.length - 1;
    const gradient = last ? null : await this.#input('B', index, microBatch);
    const leaves = index === 0 ? undefined : this.#encodingTo(index - 1, microBatch);
    const work = { op: 'B', stage: index, microBatch } as const;
    await this.#compute(work, stage, () => stage.backward(microBatch, gradient, leaves));
    if (index > 0 && this.#owner(index - 1, microBatch) === this.#role.peer) {
      this.#handOver('B', index - 1, microBatch, await stage.readInputGradient(microBatch));
    }
  }

  /** How a micro-batch's stream goes to a neighbouring stage. */
  #encodingTo(stage: number, microBatch: number): WireEncoding {
    return this.#owner(stage, microBatch) === this.#role.peer ? 'f32' : this.#role.wire;
  }

  /** Begins to wait for what a neighbour sends; the action that needs it takes it from the same place as a hand-over. */
  async #expect(op: 'F' | 'B', stage: number, microBatch: number, sender: number): Promise<void> {
    const key = this.#boundaryKey(op === 'F' ? 'activation' : 'gradient', stage, microBatch);
    const words = await this.#around.receive(key, this.#owner(sender, microBatch));
    this.#handoffs.set(`${op}${stage}/${microBatch}`, Promise.resolve({ encoding: this.#role.wire, words }));
  }

  #handOver(op: 'F' | 'B', stage: number, microBatch: number, reading: Reading): void {
    this.#handoffs.set(
      `${op}${stage}/${microBatch}`,
      reading.take((values) => ({ encoding: 'f32', words: values.slice() })),
    );
  }

  async #input(op: 'F' | 'B', stage: number, microBatch: number): Promise<Stream> {
    const values = this.#handoffs.get(`${op}${stage}/${microBatch}`);
    invariant(values, `nothing was received for ${stage}${op}${microBatch}`);
    this.#handoffs.delete(`${op}${stage}/${microBatch}`);
    return values;
  }

  async #dispatch(kind: 'activation' | 'gradient', from: number, to: number, microBatch: number): Promise<void> {
    const stage = this.#stage(from);
    const reading = await (kind === 'activation' ? stage.readOutput(microBatch) : stage.readInputGradient(microBatch));
    this.#sendBeside(this.#owner(to, microBatch), this.#boundaryKey(kind, to, microBatch), reading);
  }

  /** Sends this peer's gradient sums of the stage's blocks to the primaries elsewhere. */
  async #reduce(index: number): Promise<void> {
    const { model, plan, peer, uses } = this.#role;
    const stage = this.#stage(index);
    for (const use of uses.get(index) ?? []) {
      for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
        if (shard.peer === peer) continue;
        for (const range of slices(use, shard.range)) {
          const key = this.#blockKey('slice', index, blockIndex(model, use.block), range);
          this.#sendBeside(shard.peer, key, await stage.readGradient(use.block, range));
        }
      }
    }
  }

  /** Waits for every holder's slices, adds them in the plan's order, reports; once a step for all shards of this peer. */
  async #reduceAndReport(): Promise<void> {
    const { model, peer, kept, shards, stages, uses, epoch } = this.#role;
    // What the commit will let out belongs to this step too.
    for (const { holder, part } of valueParts(this.#role))
      if (holder.peer !== peer) this.#count(holder.peer, { range: part });
    for (const { block, range, holders } of kept) {
      for (const holder of holders) {
        const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
        if (own) {
          shards.addOwn(block, range, own);
          continue;
        }
        const use = uses.get(holder.stage)?.find((candidate) => candidate.block === block);
        invariant(use, `stage ${holder.stage} does not use ${block}`);
        const pieces = await Promise.all(
          slices(use, range).map(async (part) => ({
            range: part,
            values: await this.#around.receive(
              this.#blockKey('slice', holder.stage, blockIndex(model, block), part),
              holder.peer,
            ),
          })),
        );
        shards.addReceived(block, range, pieces);
      }
    }
    const norms = await this.#norms();
    const losses = await Promise.all(this.#losses);
    await this.#settled();
    this.#around.report({
      type: 'report',
      epoch,
      step: this.#step,
      losses,
      shards: norms.map(({ block, range, sumSquares }) => ({
        block,
        range,
        sumSquares: Number.isNaN(sumSquares) ? 'NaN' : Number.isFinite(sumSquares) ? sumSquares : 'Infinity',
        digest: null,
      })),
      bytesDirect: this.#bytesSent.direct,
      bytesRelayed: this.#bytesSent.relayed,
      spans: this.#spans.slice(0, MOST_SPANS),
      links: [...this.#around.links],
    });
  }

  async #norms(): Promise<readonly ShardNorm[]> {
    let norms: Promise<readonly ShardNorm[]> = Promise.resolve([]);
    const submit = (): void => {
      norms = this.#role.shards.sumSquares();
    };
    await this.#around.pace.run({ op: 'norms' }, submit, async () => void (await norms));
    return norms;
  }

  async #update(): Promise<void> {
    if (this.#updated) return;
    this.#updated = true;
    await this.#reduceAndReport();
    const scalars = await this.#around.committed();
    // From here on nothing may interrupt: a committed step is completed, whoever dies.
    await this.#around.pace.run(
      { op: 'update' },
      () => this.#role.shards.update(scalars),
      () => this.#settled(),
    );
    await sendValues(this.#role, this.#step, (to, key, reading) => this.#sendBeside(to, key, reading));
  }

  async #gather(index: number): Promise<void> {
    // A holder that keeps no shard has no UPDATE: it too reports first, and gathers only what is committed.
    await this.#update();
    await gatherValues(this.#role, index, this.#step, this.#around.receive);
  }

  #sendBeside(to: PeerId, key: TensorKey, reading: Reading): void {
    const sent = reading.take((values) => this.#around.send(to, key, values));
    sent.catch(() => undefined); // awaited at the end of the step
    this.#pending.push(sent);
    if (key.kind !== 'values') this.#count(to, key); // values were counted with the report
  }

  #count(to: PeerId, tensor: Pick<TensorKey, 'range' | 'encoding'>): void {
    const route = this.#around.links.find(({ peer }) => peer === to)?.route ?? 'direct';
    this.#bytesSent[route] += tensorBytes(tensor);
  }

  /** Work of one action, in its place on the donor's schedule. */
  async #compute(action: MicroAction, stage: Stage, work: () => void): Promise<void> {
    const { now, pace } = this.#around;
    const stageWork = this.#stageWork(action);
    await pace.run(
      stageWork,
      () => {
        const start = now();
        work();
        void stage
          .settled()
          .then(() => {
            const aloneSeconds = pace.alone(stageWork);
            const span = { action: formatAction(action), start, end: now(), ...(aloneSeconds && { aloneSeconds }) };
            this.#spans.push(span);
            this.#around.computed?.(span);
          })
          .catch(() => undefined); // a lost device ends the step elsewhere
      },
      () => stage.settled(),
    );
    this.#around.signal.throwIfAborted();
  }

  #stageWork({ op, stage, microBatch }: MicroAction): StageWork {
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
    const { model, epoch, sequence, wire: encoding } = this.#role;
    const elements = this.#samples(microBatch) * sequence * model.width;
    const range = [0, elements] as const;
    if (this.#round === null) return { kind, epoch, step: this.#step, stage, index: microBatch, range, encoding };
    const index = this.#round * 65_536 + microBatch;
    return { kind: 'heldOut', epoch, step: this.#step, stage, index, range, encoding };
  }

  #blockKey(kind: 'slice' | 'values', stage: number, index: number, range: readonly [number, number]): TensorKey {
    return { kind, epoch: this.#role.epoch, step: this.#step, stage, index, range };
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
