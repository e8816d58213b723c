/**
 * A step, or a round of an evaluation, of a peer whose stages gather their blocks (ZeRO's third stage): it asks the other members for what it computes with
 * next, answers them, sends the gradients of each pass to their keepers, and adds those of its own shards, by micro-batch,
 * whoever is first. A pass is of one micro-batch, or of all that a member carries (layered accumulation). Everything that comes waits in main memory until it is its turn.
 */
import { at, got, type PeerId, type Range } from '../../../swarm/base.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import { keyText, type TensorKey } from '../../../swarm/messages/frame.ts';
import type { BlockName, BlockUse } from '../../../swarm/model/model.ts';
import { passesOf } from '../../../swarm/plan/layered.ts';
import { keepersOf, type Member, type PlanStage } from '../../../swarm/plan/plan.ts';
import type { BesideAction } from '../../../swarm/timeline/beside.ts';
import {
  evaluatedNumber,
  evaluatedOccasions,
  gatheredParts,
  makesGradient,
  needsValues,
  type Occasion,
  occasionsOf,
  wantTensor,
} from '../../../swarm/ways/gathers.ts';
import type { TensorName } from '../../../swarm/ways/passage.ts';
import type { Stage } from './engine.ts';
import { IdleMeter } from './idleMeter.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

interface GatherWays {
  readonly receive: Receive;
  /** Seconds. */
  now(): number;
  /** Beside the step's work. */
  send(to: PeerId, key: TensorKey, values: Float32Array<ArrayBuffer>): void;
  /** What the members of its stage were asked for, until all of it is here. */
  awaited(action: BesideAction, coming: Promise<unknown>): void;
}

/** Of one unit, as they came. */
type Pieces = readonly { readonly block: BlockName; readonly range: Range; readonly values: Float32Array }[];

const A_WORD = new Float32Array(1);

export class Gathering {
  readonly #role: Role;
  readonly #step: number;
  /** Of an evaluation; null: a training step. */
  readonly #round: number | null;
  readonly #ways: GatherWays;
  /** What this peer keeps, read once a step: until its update no value changes. */
  readonly #values = new Map<string, Promise<Float32Array<ArrayBuffer>>>();
  /** Its own gradients on their way to its shards. */
  readonly #own = new Map<string, Handed>();
  #added: Promise<unknown> = Promise.resolve();
  /** Of passes so far, while others' parts, or values that are still being written, came. */
  readonly idle: IdleMeter;

  constructor(role: Role, step: number, round: number | null, ways: GatherWays) {
    this.#role = role;
    this.#step = step;
    this.#round = round;
    this.#ways = ways;
    this.idle = new IdleMeter(() => ways.now());
  }

  /** Answers and adds from now on, until the step ends; in an evaluation until everyone has what it asks for. */
  begin(): void {
    const { plan, peer } = this.#role;
    for (const [stage, planned] of plan.stages.entries()) {
      const { members, gathered } = planned;
      if (!gathered || !members.some((member) => member.peer === peer)) continue;
      const units = this.#units(stage);
      for (const member of members)
        for (const microBatch of this.#namesOf(planned, member))
          for (const occasion of this.#occasions(units, stage, microBatch))
            if (member.peer !== peer && needsValues(units, occasion))
              this.#answer(member.peer, at(units, occasion.unit), occasion);
    }
    if (this.#round !== null) return;
    const adding = this.#role.kept.filter(({ isGathered }) => isGathered).map((work) => this.#add(work));
    this.#added = Promise.all(adding);
    this.#added.catch(() => undefined); // awaited with the report
  }

  /** Resolves when the gradients of all micro-batches are added to the shards here. */
  async added(): Promise<void> {
    await this.#added;
  }

  /** How often each micro-batch of a pass is worked on. */
  unitsIn(index: number, pass: 'F' | 'B'): number {
    return this.#passOccasions(index, 0, pass).length;
  }

  /** Runs one pass of these micro-batches, ascending, unit by unit; with two places the next one comes while one is computed with. */
  async pass(
    index: number,
    microBatches: readonly number[],
    pass: 'F' | 'B',
    run: (unit: number, microBatch: number) => void,
  ): Promise<void> {
    const { plan, stages } = this.#role;
    const stage = got(stages, index);
    const units = this.#units(index);
    const occasions = this.#passOccasions(index, at(microBatches, 0), pass);
    const isAhead = at(plan.stages, index).gathered === 2;
    let next = this.#fetch(units, occasions[0]);
    let settled = this.idle.doneAt(stage.settled());
    for (const [place, occasion] of occasions.entries()) {
      for (const { block, range, values } of await this.idle.until(next, settled))
        stage.writeUnit?.(occasion.unit, block, range, values);
      const following = occasions[place + 1];
      if (isAhead) next = this.#fetch(units, following);
      const makes = makesGradient(units, occasion);
      if (makes) stage.clearUnit?.(occasion.unit);
      for (const microBatch of microBatches) run(occasion.unit, microBatch);
      settled = this.idle.doneAt(stage.settled());
      if (makes) await this.#sendGradients(stage, at(units, occasion.unit), occasion);
      if (!isAhead) {
        if (following) await settled;
        next = this.#fetch(units, following);
      }
    }
  }

  #passOccasions(index: number, microBatch: number, pass: 'F' | 'B'): Occasion[] {
    const all = this.#occasions(this.#units(index), index, microBatch);
    return all.filter((one) => one.pass === pass || this.#round !== null);
  }

  /** Micro-batches by which a member's passes are named; in an evaluation each has one of its own. */
  #namesOf(stage: PlanStage, member: Member): readonly number[] {
    return this.#round === null ? passesOf(stage, member).map((pass) => at(pass, 0)) : member.microBatches;
  }

  #occasions(units: readonly (readonly BlockUse[])[], stage: number, microBatch: number): Occasion[] {
    if (this.#round === null) return occasionsOf(units, stage, microBatch);
    return evaluatedOccasions(units, stage, evaluatedNumber(this.#role.plan, microBatch, this.#round));
  }

  #units(stage: number): readonly (readonly BlockUse[])[] {
    return got(this.#role.stages, stage).units ?? [];
  }

  #key(tensor: TensorName): TensorKey {
    return { ...tensor, epoch: this.#role.epoch, step: this.#step };
  }

  /** What is here is read, what is elsewhere is asked for. */
  #fetch(units: readonly (readonly BlockUse[])[], occasion: Occasion | undefined): Promise<Pieces> {
    if (occasion === undefined || !needsValues(units, occasion)) return Promise.resolve([]);
    const { plan, peer } = this.#role;
    const parts = gatheredParts(plan, at(units, occasion.unit), 'gathered', occasion);
    const keepers = new Set(parts.map(({ shard }) => shard.peer).filter((keeper) => keeper !== peer));
    for (const keeper of keepers) this.#ways.send(keeper, this.#key(wantTensor(occasion)), A_WORD);
    const pieces = Promise.all(
      parts.map(async ({ use: { block }, shard, tensor }) => {
        const { range } = tensor;
        const isHere = shard.peer === peer;
        const values = await (isHere ? this.#kept(block, range) : this.#ways.receive(this.#key(tensor), shard.peer));
        return { block, range, values };
      }),
    );
    const { stage, microBatch, pass } = occasion;
    if (keepers.size > 0 && pass !== 'evaluation')
      this.#ways.awaited({ op: `GATHER_${pass}`, stage, microBatch }, pieces);
    pieces.catch(() => undefined); // awaited when the unit's turn comes, unless the step ends before
    return pieces;
  }

  #kept(block: BlockName, range: Range): Promise<Float32Array<ArrayBuffer>> {
    const key = `${block} ${range.join()}`;
    const known = this.#values.get(key);
    if (known) return known;
    const read = this.#role.shards.readValues(block, range).then((reading) => reading.take((values) => values.slice()));
    this.#values.set(key, read);
    return read;
  }

  /** Sends a member what this peer has of a unit, when it asks. */
  #answer(to: PeerId, uses: readonly BlockUse[], occasion: Occasion): void {
    const { plan, peer } = this.#role;
    const own = gatheredParts(plan, uses, 'gathered', occasion).filter(({ shard }) => shard.peer === peer);
    if (own.length === 0) return;
    const answered = this.#ways.receive(this.#key(wantTensor(occasion)), to).then(async () => {
      for (const { use, tensor } of own)
        this.#ways.send(to, this.#key(tensor), await this.#kept(use.block, tensor.range));
    });
    answered.catch(() => undefined); // the step ended: nobody asks any more
  }

  /** To all keepers, also this peer itself. Resolves when their copies stand in the GPU's queue. */
  async #sendGradients(stage: Stage, uses: readonly BlockUse[], occasion: Occasion): Promise<void> {
    const { plan, peer } = this.#role;
    for (const { use, shard, tensor } of gatheredParts(plan, uses, 'share', occasion)) {
      const key = this.#key(tensor);
      const reading = await stage.readGradient(use.block, [tensor.range], occasion.unit);
      const keepers = keepersOf(shard);
      const taken = reading.take((values) => {
        for (const keeper of keepers) if (keeper !== peer) this.#ways.send(keeper, key, values);
        return keepers.includes(peer) ? values.slice() : null;
      });
      taken.catch(() => undefined); // a lost device ends the step elsewhere
      if (keepers.includes(peer)) this.#handed(key).give(taken.then((values) => values ?? new Float32Array()));
    }
  }

  /** Adds a shard's gradients in the order of micro-batches; of a tied table the head's before the embedding's. */
  async #add({ block, range }: ShardWork): Promise<void> {
    const { peer, shards } = this.#role;
    for (const { holder, tensors } of this.#sharesOf(block, range)) {
      const pieces = await Promise.all(
        tensors.map(async (tensor) => {
          const key = this.#key(tensor);
          const values = await (holder === peer ? this.#handed(key).values : this.#ways.receive(key, holder));
          return { range: tensor.range, values };
        }),
      );
      this.#own.delete(keyText(this.#key(at(tensors, 0))));
      await shards.addReceived(block, range, pieces);
    }
  }

  #sharesOf(block: BlockName, range: Range): { readonly holder: PeerId; readonly tensors: readonly TensorName[] }[] {
    const { plan } = this.#role;
    return plan.stages.flatMap((planned, stage) => {
      if (!planned.gathered) return [];
      const carried = planned.members.flatMap((member) =>
        this.#namesOf(planned, member).map((microBatch) => ({ holder: member.peer, microBatch })),
      );
      const units = this.#role.stages.get(stage)?.units ?? [];
      return carried
        .toSorted((a, b) => a.microBatch - b.microBatch)
        .flatMap(({ holder, microBatch }) =>
          occasionsOf(units, stage, microBatch).flatMap((occasion) => {
            if (!makesGradient(units, occasion)) return [];
            const uses = at(units, occasion.unit);
            const tensors = gatheredParts(plan, uses, 'share', occasion).flatMap(({ use, shard, tensor }) =>
              use.block === block && shard.range[0] === range[0] ? tensor : [],
            );
            return tensors.length > 0 ? { holder, tensors } : [];
          }),
        );
    });
  }

  #handed(key: TensorKey): Handed {
    const text = keyText(key);
    const known = this.#own.get(text) ?? handed();
    this.#own.set(text, known);
    return known;
  }
}

/** Values that one part of this peer gives another. */
interface Handed {
  readonly values: Promise<Float32Array<ArrayBuffer>>;
  give(values: Promise<Float32Array<ArrayBuffer>>): void;
}

function handed(): Handed {
  let give: Handed['give'] = () => undefined;
  const values = new Promise<Float32Array<ArrayBuffer>>((resolve) => {
    give = resolve;
  });
  return { values, give: (made) => give(made) };
}
