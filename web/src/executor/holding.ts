/**
 * What this peer holds under the plan in force: its role, and how many updates it has had. There are three ways to a new
 * role, the three sources of a `prepare`: from a checkpoint, the same plan with the state kept, or taken over from the
 * members of the plan before.
 */
import type { PeerId, Range } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import type { ResumedMessage, StateSource } from '../../../swarm/messages/messages.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import { transfers } from '../../../swarm/plan/handover.ts';
import { lateTransfers, withoutLate } from '../../../swarm/plan/lateCopies.ts';
import { keepersOf, type Plan, peers } from '../../../swarm/plan/plan.ts';
import { type StateKind, stateKinds } from '../../../swarm/plan/stateKinds.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { lateCopiesOf } from '../../../swarm/ways/partners.ts';
import type { Reading } from './engine.ts';
import { ValuesMissing } from './epochs.ts';
import { LateCopies } from './lateCopies.ts';
import { type HeldState, heldState, move } from './moving.ts';
import {
  beginLoad,
  buildRole,
  closeRole,
  type Engine,
  isSameWork,
  keptUnder,
  loadBase,
  needsOf,
  type ReadBase,
  type Role,
} from './role.ts';
import { gatherAsReplica, gatherValues, sendToReplicas, sendValues } from './values.ts';

/** What a new role is made for. */
interface Target {
  readonly model: Model;
  readonly train: Train;
  readonly engine: Engine;
  readonly peer: PeerId;
  readonly plan: Plan;
  readonly epoch: number;
  readonly generation: number;
  /** Committed steps. */
  readonly step: number;
  /** With several groups: those that stood at their last meeting. */
  readonly met?: number | undefined;
}

/** The ways in and out while a role is made. */
interface Ways {
  /** Resolves when there is a way to everyone with whom something is exchanged until the first step, or in it. */
  connect(): Promise<void>;
  read(checkpoint: number, block: BlockName, kind: StateKind, range: Range): Promise<Float32Array>;
  readBase: ReadBase;
  send(to: PeerId, key: TensorKey, values: Float32Array): Promise<void>;
  receive(key: TensorKey, from: PeerId): Promise<Float32Array<ArrayBuffer>>;
}

const NOT_WHOLE = 'the state here is not whole';

/** Owns the role's stages and shards; `drop()` frees them. */
export class Holding {
  #role: Role | null = null;
  /** Steps whose gradients are added up here, that are committed, and whose values the stages have gathered. */
  #addedStep = 0;
  #firstStep = 0;
  #committedStep = 0;
  /** Of one of several groups: the last meeting that is in its state. */
  #met: number | undefined;
  #generation = 0;
  /** The role was given all of its state. */
  #isFilled = false;
  #gatheredStep = 0;
  /** What this peer had under the plan before, until the first step of the new one. */
  #heldBefore: HeldState | null = null;

  get role(): Role | null {
    return this.#role;
  }

  /**
   * Updates that the shards have had: once a step is added up here and committed, nothing keeps this peer from it (CO22).
   * A replica may be told of a commit before it has the slices.
   */
  get step(): number {
    return Math.min(this.#addedStep, this.#committedStep);
  }

  /** All of the state is here, and nothing that a commit asked for has failed half-way. */
  get isWhole(): boolean {
    return this.#isFilled && this.#role?.islands?.isTorn !== true;
  }

  get generation(): number {
    return this.#generation;
  }

  /** Under which epochs' plans this peer has its part of the state, and after how many steps. */
  get standing(): Pick<ResumedMessage, 'role' | 'handedOver'> {
    const before = this.#heldBefore;
    const withMet = (met: number | undefined) => (met === undefined ? {} : { met });
    return {
      role: this.#role && this.isWhole ? { epoch: this.#role.epoch, step: this.step, ...withMet(this.#met) } : null,
      handedOver: before && { epoch: before.epoch, step: before.step, ...withMet(before.met) },
    };
  }

  /** Replicas here have, or are sent, the values of the step before: in an epoch's first step they have all values. */
  isFirst(step: number): boolean {
    return step === this.#firstStep;
  }

  get committedStep(): number {
    return this.#committedStep;
  }

  /** The gradients of so many steps are added up. */
  added(step: number): void {
    this.#addedStep = step;
  }

  /** Who keeps nothing has nothing to add up. */
  hasAdded(step: number): boolean {
    return this.#addedStep === step || this.#role?.kept.length === 0;
  }

  committed(step: number): void {
    this.#committedStep = step;
    if (this.hasAdded(step)) this.#addedStep = step;
  }

  /** Of one of several groups: the round is over for all at this count, and the next one begins. */
  roundEnded(step: number): void {
    this.#addedStep = step;
    this.#committedStep = step;
  }

  /** A meeting that is of no step is over here: it ends the round at this count. */
  met(step: number): void {
    this.roundEnded(step);
    this.#met = step;
  }

  hasMet(step: number): boolean {
    return this.#met === step;
  }

  gathered(step: number): void {
    this.#gatheredStep = step;
  }

  /** The plan is in force: what there was before is not needed any more. */
  settle(): void {
    this.#heldBefore = null;
  }

  drop(): void {
    if (this.#role) closeRole(this.#role);
    this.#role = null;
  }

  async arrive(target: Target, source: StateSource, ways: Ways): Promise<void> {
    this.#generation = target.generation;
    switch (source.from) {
      case 'checkpoint':
        await this.#load(target, source.step, ways);
        break;
      case 'kept':
        await this.#keep(target, ways);
        break;
      case 'peers':
        await this.#takeOver(target, source, ways);
        break;
    }
    this.#firstStep = target.step;
    this.#addedStep = target.step;
    this.#committedStep = target.step;
    this.#gatheredStep = target.step;
    this.#met = target.met;
    this.#isFilled = true;
  }

  /** Everything from a checkpoint, over HTTP. */
  async #load({ engine, model, train, plan, peer, epoch }: Target, checkpoint: number, ways: Ways): Promise<void> {
    const links = ways.connect();
    this.settle();
    this.#isFilled = false;
    this.drop();
    const fill = beginLoad(needsOf(engine, model, train, plan, peer), (...of) => ways.read(checkpoint, ...of));
    const role = await buildRole(engine, model, train, plan, peer, epoch);
    this.#role = role;
    await Promise.all([fill(role), loadBase(role, ways.readBase), links]);
  }

  /** After an abandoned step holders and replicas may lack the last update's values: primaries send them once more. */
  async #keep({ plan, epoch, step }: Target, ways: Ways): Promise<void> {
    // A replica that missed the step is asked for nothing from now on: the server knows that it has not said so.
    if (!this.#role || !this.isWhole) throw new Error(NOT_WHOLE);
    if (this.step !== step && this.#role.kept.some(({ isPrimary }) => isPrimary))
      throw new Error(`the state here stands after ${this.step} steps, not ${step}`);
    const role: Role = { ...this.#role, plan, epoch };
    this.#role = role;
    role.leftOver.drop();
    await ways.connect();
    const sends: Promise<void>[] = [];
    const send = (to: PeerId, key: TensorKey, reading: Reading): void => {
      const sent = reading.take((values) => ways.send(to, key, values));
      sent.catch(() => undefined); // awaited below, unless what is gathered fails first
      sends.push(sent);
    };
    await sendValues(role, step, send, true);
    await sendToReplicas(role, step, send);
    for (const stage of plan.stages.keys()) await gatherValues(role, stage, step, ways.receive, true);
    await gatherAsReplica(role, step, ways.receive);
    await Promise.all(sends);
  }

  /** What this peer had is copied aside, then given, kept, and completed by what others give. */
  async #takeOver(
    { engine, model, train, plan, peer: me, epoch, step }: Target,
    source: Extract<StateSource, { from: 'peers' }>,
    ways: Ways,
  ): Promise<void> {
    const { plan: before, epoch: origin, salvaged } = source;
    if (this.#heldBefore?.epoch !== origin) this.#heldBefore = null;
    const keptOnly = salvaged === true || engine.asked === 'f16' || before.stateWire !== undefined;
    const late = lateCopiesOf(plan, source);
    const after = withoutLate(plan, late);
    const kinds = stateKinds(train.islands, plan.islands, plan.owned);
    const copies = late.length > 0 ? new LateCopies(lateTransfers(kinds, late), me) : null;
    const gives = !salvaged || before.state.some(({ shards }) => shards.some((shard) => keepersOf(shard).includes(me)));
    const had = this.#role;
    if (had && !salvaged && !this.#heldBefore && isSameWork(had.plan, plan, me)) {
      const moved = transfers(model, kinds, before, after, keptOnly);
      const isInPlace = this.isWhole && this.step === step && this.#gatheredStep === step;
      if (isInPlace && moved.every(({ from, to }) => from === to || (from !== me && to !== me))) {
        this.#role = { ...had, ...keptUnder(engine, model, plan, me), plan, epoch, late: copies };
        return ways.connect();
      }
    }
    if (peers(before).includes(me) && gives && !this.#heldBefore) {
      // Values of those who are gone may be missing here: what this peer keeps has had every update.
      const stands = salvaged ? this.step : Math.min(this.step, this.#gatheredStep);
      if (!this.#role || !this.isWhole) throw new Error(NOT_WHOLE);
      if (stands !== step) {
        const sentence = `the state here stands after ${stands} steps, not ${step}`;
        throw this.step === step ? new ValuesMissing(sentence) : new Error(sentence);
      }
      this.#heldBefore = { ...(await heldState(this.#role, step, keptOnly)), epoch: origin, met: this.#met };
    }
    const links = ways.connect();
    this.#isFilled = false;
    this.drop();
    if (peers(plan).includes(me)) {
      const role = await buildRole(engine, model, train, plan, me, epoch);
      this.#role = { ...role, late: copies };
    }
    const base = this.#role && loadBase(this.#role, ways.readBase);
    await Promise.all([links, base]);
    const { send, receive } = ways;
    await move({
      model,
      kinds,
      keptOnly,
      me,
      before,
      after,
      epoch,
      step,
      had: this.#heldBefore,
      role: this.#role,
      send,
      receive,
    });
  }
}
