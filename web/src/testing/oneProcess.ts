/**
 * A swarm in one process, for tests of the numerics: real stages on Dawn, real frames, nothing between the peers but a
 * function call. It commits its own steps.
 */
import { at, got, invariant, type PeerId, type Range, totalOf } from '../../../swarm/base.ts';
import { turnAt } from '../../../swarm/islands/rounds.ts';
import { encodeTensor, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { ReportMessage } from '../../../swarm/messages/messages.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { type Plan, peers } from '../../../swarm/plan/plan.ts';
import { FIRST_LOSS_SCALE } from '../../../swarm/precision.ts';
import { learningRate } from '../../../swarm/run/learningRate.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { forwardOnly, stepSchedule, turnEnd } from '../../../swarm/schedule/lower.ts';
import { incoming, sizesOf } from '../../../swarm/ways/partners.ts';
import { FULL_SPEED } from '../executor/dutyCycle.ts';
import type { MicroTokens, UpdateScalars } from '../executor/engine.ts';
import { StepRun } from '../executor/execute.ts';
import { Inbox } from '../executor/inbox.ts';
import { beginLoad, buildRole, closeRole, type Engine, type ReadState, type Role } from '../executor/role.ts';
import type { Surroundings } from '../executor/surroundings.ts';
import { countedTargets } from './solo.ts';

const EPOCH = 1;

export interface DoneStep {
  readonly loss: number;
  readonly gradientNorm: number;
  readonly bytes: number;
}

interface Terms {
  readonly engine: Engine;
  readonly model: Model;
  readonly train: Train;
  readonly plan: Plan;
  readonly read: ReadState;
  /** Tokens of a step's samples `[from, to)`. */
  readonly tokens: (step: number, samples: Range) => MicroTokens;
  /** What is sent in place of a tensor. */
  readonly tampered?: (to: PeerId, key: TensorKey, values: Float32Array<ArrayBuffer>) => Float32Array<ArrayBuffer>;
}

export class OneProcess {
  /** In the plan's order. */
  readonly roles: readonly Role[];
  /** Of the newest step, in the same order. */
  reports: readonly ReportMessage[] = [];
  readonly #terms: Terms;
  readonly #lossScale: number;
  readonly #inboxes: ReadonlyMap<PeerId, Inbox>;

  private constructor(roles: readonly Role[], inboxes: ReadonlyMap<PeerId, Inbox>, terms: Terms) {
    this.roles = roles;
    this.#inboxes = inboxes;
    this.#terms = terms;
    this.#lossScale = terms.engine.asked === 'f16' ? FIRST_LOSS_SCALE.scale : 1;
  }

  static async open(terms: Terms): Promise<OneProcess> {
    const { engine, model, train, plan, read } = terms;
    const roles: Role[] = [];
    for (const peer of peers(plan)) roles.push(await buildRole(engine, model, train, plan, peer, EPOCH));
    for (const role of roles) await beginLoad(role, read)(role);
    const sizes = sizesOf(model, { train, wire: engine.wire, compute: engine.asked });
    const inboxes = new Map(peers(plan).map((peer) => [peer, new Inbox(() => undefined)]));
    for (const [peer, inbox] of inboxes)
      inbox.expect(EPOCH, 0, incoming(sizes, { plan, source: { from: 'checkpoint', step: 0 } }, peer), 1);
    return new OneProcess(roles, inboxes, terms);
  }

  async step(step: number): Promise<DoneStep> {
    const { train } = this.#terms;
    const turn = turnAt(train, step);
    for (const inbox of this.#inboxes.values()) inbox.advance(EPOCH, step);
    const reports = new Map<PeerId, ReportMessage>();
    let commit: (scalars: UpdateScalars) => void = () => {};
    const committed = new Promise<UpdateScalars>((resolve) => {
      commit = resolve;
    });
    const report = (from: PeerId, message: ReportMessage): void => {
      reports.set(from, message);
      if (reports.size < this.roles.length) return;
      this.reports = this.roles.map(({ peer }) => got(reports, peer));
      const clip = Math.min(1, (train.gradientClipNorm ?? Infinity) / (this.#norm() + 1e-6));
      commit({ learningRate: learningRate(train, turn.number), clipScale: clip / this.#lossScale, time: turn.time });
    };
    await Promise.all(
      this.roles.map((role) => {
        const end = turnEnd(train, turn);
        const around = this.#around(role, step, (message) => report(role.peer, message), committed);
        return new StepRun(role, { ...around, endsTurn: end !== null }, step).train(
          got(stepSchedule(role.plan, end), role.peer),
          step > 0,
        );
      }),
    );
    const losses = this.reports.flatMap((one) => one.losses).toSorted((a, b) => a.microBatch - b.microBatch);
    const sum = totalOf(losses, ({ lossSum }) => lossSum ?? Number.NaN);
    return {
      loss: sum / this.#counted(turn.number),
      gradientNorm: this.#norm(),
      bytes: totalOf(this.reports, ({ bytesDirect }) => bytesDirect),
    };
  }

  /** Of the newest reports; each shard's squares are added in the order of the plan's state. */
  #norm(): number {
    const { plan } = at(this.roles, 0);
    const shards = this.reports.flatMap((one) => one.shards);
    let squares = 0;
    // On one adapter a replica has the same bits as its primary (RE12).
    for (const { block, shards: planned } of plan.state)
      for (const { range } of planned)
        squares += Number(shards.find((shard) => shard.block === block && shard.range[0] === range[0])?.sumSquares);
    return Math.sqrt(squares) / this.#lossScale;
  }

  /** The loss of a step's samples, as an evaluation computes it. */
  async evaluate(step: number): Promise<number> {
    const unasked = () => invariant(false, 'an evaluation reports by its answer');
    const sums = await Promise.all(
      this.roles.map((role) => {
        const run = new StepRun(role, this.#around(role, step, unasked, new Promise(() => {})), step, 0);
        return run.evaluate(forwardOnly(role.plan).get(role.peer) ?? [], () => true);
      }),
    );
    const sum = totalOf(sums.flat(), ({ lossSum }) => lossSum ?? Number.NaN);
    return sum / this.#counted(turnAt(this.#terms.train, step).number);
  }

  /** Rows of a step that count. */
  #counted(number: number): number {
    return countedTargets(this.#terms.tokens(number, [0, this.#terms.train.globalBatchSize]));
  }

  #around(
    role: Role,
    step: number,
    report: (message: ReportMessage) => void,
    committed: Promise<UpdateScalars>,
  ): Surroundings {
    const { signal } = new AbortController();
    const own = got(this.#inboxes, role.peer);
    const samplesOf = new Map(role.plan.microBatches.map(({ id, samples }) => [id, samples]));
    const { number } = turnAt(this.#terms.train, step);
    return {
      signal,
      now: () => performance.now() / 1000,
      throttle: FULL_SPEED,
      links: [],
      lossScale: this.#lossScale,
      counted: this.#counted(number),
      hasExamples: this.#terms.tokens(number, [0, 1]).firstRows !== null,
      send: async (to, key, values) => {
        const sent = this.#terms.tampered?.(to, key, values.slice()) ?? values;
        for (const message of encodeTensor(key, sent)) this.#inboxes.get(to)?.accept(role.peer, message);
      },
      // Each wait has a signal of its own: Node warns of an eleventh listener on one, and a peer that gathers waits for more.
      receive: (key, from) => own.receive(key, from, new AbortController().signal),
      tokens: async (microBatch) => this.#terms.tokens(number, samplesOf.get(microBatch) ?? [0, 0]),
      report,
      committed: () => committed,
    };
  }

  close(): void {
    for (const role of this.roles) closeRole(role);
  }
}
