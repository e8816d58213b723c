/**
 * What a plan makes of this peer: its stages and shards, built, filled from a checkpoint, taken apart. The engine that
 * builds them is handed in, so the same code runs on a GPU in a worker, in Dawn, and in tests.
 */
import { at, got, type PeerId, type Range } from '../../../swarm/base.ts';
import type { AnswerSize } from '../../../swarm/memory/answerMemory.ts';
import { type ShardWork, type StageSize, shardsOf, stagesOfPeer } from '../../../swarm/memory/memory.ts';
import { type BlockName, type BlockUse, type Model, standingOfStage } from '../../../swarm/model/model.ts';
import { partsOfKind } from '../../../swarm/plan/handover.ts';
import { holders, keepersOf, keptUses, type Plan } from '../../../swarm/plan/plan.ts';
import { type StateKind, savedAs, savedKinds, stateKinds } from '../../../swarm/plan/stateKinds.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { type ComparedShard, comparedShards } from '../../../swarm/ways/compared.ts';
import { writtenAs } from '../../../swarm/ways/tensors.ts';
import type { RunWire } from '../../../swarm/wire.ts';
import type { AnswerStage, Shards, Stage } from './engine.ts';
import { IslandShards } from './islandShards.ts';
import type { LateCopies } from './lateCopies.ts';

/** A stage of a peer, and the micro-batch sizes that occur in it. */
export interface StageSizes {
  readonly size: StageSize;
  readonly sizes: readonly number[];
}

export interface Engine {
  /** How the run's stream goes from peer to peer. */
  readonly wire: RunWire;
  /** The precision that the run asks for. */
  readonly asked: Compute;
  /** How this device keeps activations and the weights that it computes with. */
  readonly compute: Compute;
  /** `sizes` are the micro-batch sizes that occur. */
  stage(size: StageSize, sizes: readonly number[]): Promise<Stage>;
  /** Compiles what these stages and this peer's shards run, all at once, so that both are made quickly; allocates nothing. */
  warm(plan: Plan, peer: PeerId, stages: ReadonlyMap<number, StageSizes>): Promise<void>;
  shards(plan: Plan, peer: PeerId, stages: ReadonlyMap<number, Stage>): Promise<Shards>;
  /** With the weights of a stage that has all of its blocks. */
  answers(stage: Stage, size: AnswerSize): Promise<AnswerStage>;
}

/**
 * Whether what the codes of a step missed of this peer's gradient sums counts for the next one. It does where one step
 * follows the other under the same plan, island and loss scale; all else begins without (WI34).
 */
class LeftOver {
  #lossScale: number | null = null;

  /** A step begins, with what the one before left over or without; what it leaves itself does not count yet. */
  take(lossScale: number): boolean {
    const counts = this.#lossScale === lossScale;
    this.#lossScale = null;
    return counts;
  }

  /** A step was done to its end. */
  keep(lossScale: number): void {
    this.#lossScale = lossScale;
  }

  /** What is computed with was made anew. */
  drop(): void {
    this.#lossScale = null;
  }
}

/** What a plan means to this peer: made once an epoch. */
export interface Role {
  readonly model: Model;
  readonly plan: Plan;
  readonly peer: PeerId;
  readonly epoch: number;
  /** T: positions of a sample. */
  readonly sequence: number;
  /** How the stream goes from peer to peer. */
  readonly written: ReturnType<typeof writtenAs>;
  readonly stages: ReadonlyMap<number, Stage>;
  readonly shards: Shards;
  /** The same, in a run with islands. */
  readonly islands: IslandShards | null;
  /** Of the state: what keepers have, what they save of it, and what they have each kind of a checkpoint as. */
  readonly kinds: readonly StateKind[];
  readonly saved: readonly StateKind[];
  readonly loaded: ReadonlyMap<StateKind, readonly StateKind[]>;
  readonly uses: ReadonlyMap<number, readonly BlockUse[]>;
  readonly kept: readonly ShardWork[];
  /** Who computes with each block. */
  readonly holders: ReturnType<typeof holders>;
  readonly leftOver: LeftOver;
  readonly compared: readonly ComparedShard[];
  /** Made beside the steps; null: all copies were there before the first one. */
  readonly late: LateCopies | null;
}

export type ReadState = (block: BlockName, kind: StateKind, range: Range) => Promise<Float32Array>;

export async function buildRole(
  engine: Engine,
  model: Model,
  train: Train,
  plan: Plan,
  peer: PeerId,
  epoch: number,
): Promise<Role> {
  const sequence = train.sequenceLength;
  const { wire } = engine;
  await warmRole(engine, train, plan, peer);
  const stages = new Map<number, Stage>();
  let onGpu: Shards | null = null;
  try {
    for (const [index, { size, sizes }] of stagesHere(engine, train, plan, peer))
      stages.set(index, await engine.stage(size, sizes));
    onGpu = await engine.shards(plan, peer, stages);
    const uses = usesOf(model, plan);
    const under = keptUnder(engine, model, plan, peer);
    const { kept } = under;
    const { islands: settings } = train;
    const { islands: own, owned } = plan;
    const islands = settings
      ? new IslandShards(onGpu, { model, train, islands: settings, own, owned, kept, stages, uses })
      : null;
    const shards = islands ?? onGpu;
    const state = { ...kindsOf(settings, plan), late: null };
    const written = writtenAs(model, plan, { sequence, wire });
    return { model, plan, peer, epoch, sequence, written, stages, shards, islands, ...state, uses, ...under };
  } catch (cause) {
    for (const stage of stages.values()) stage.close();
    onGpu?.close();
    throw cause;
  }
}

function kindsOf(
  islands: Train['islands'],
  { islands: own, owned }: Pick<Plan, 'islands' | 'owned'>,
): Pick<Role, 'kinds' | 'saved' | 'loaded'> {
  const kinds = stateKinds(islands, own, owned);
  const places = (all: readonly StateKind[]): Map<StateKind, StateKind[]> => {
    const found = new Map<StateKind, StateKind[]>();
    for (const kind of all) {
      const name = savedAs(kind, islands, own);
      if (name !== null) found.set(name, [...(found.get(name) ?? []), kind]);
    }
    return found;
  };
  // What lies with owners is sent to who saves it.
  const saved = places(stateKinds(islands, own));
  return { kinds, loaded: places(kinds), saved: savedKinds(islands, own).map((name) => at(got(saved, name), 0)) };
}

/** What it keeps, and with whom else; nothing is left over of an older plan. */
export const keptUnder = ({ compute }: Engine, model: Model, plan: Plan, peer: PeerId) => ({
  kept: shardsOf(model, plan, peer, undefined, compute),
  holders: holders(model, plan),
  leftOver: new LeftOver(),
  compared: comparedShards(model, plan),
});

/** Others may keep other copies: its stages and shards are the same. */
export function isSameWork(one: Plan, other: Plan, peer: PeerId): boolean {
  const own = ({ state, ...work }: Plan): string =>
    JSON.stringify([
      work,
      state.map(({ block, shards }) => [
        block,
        shards.flatMap((shard) =>
          keepersOf(shard).includes(peer) ? [shard.range, shard.peer === peer, shard.in] : [],
        ),
      ]),
    ]);
  return own(one) === own(other);
}

/** The first part of `buildRole`, and ahead of it: what takes long, and needs no memory. */
export const warmRole = (engine: Engine, train: Train, plan: Plan, peer: PeerId): Promise<void> =>
  engine.warm(plan, peer, stagesHere(engine, train, plan, peer));

function stagesHere({ wire, compute }: Engine, train: Train, plan: Plan, peer: PeerId): Map<number, StageSizes> {
  const stages = stagesOfPeer(plan, peer, train.sequenceLength, wire, compute);
  return new Map(Array.from(stages, ([index, size]) => [index, { size, sizes: sizesOf(plan, peer, index) }]));
}

export function closeRole(role: Role): void {
  for (const stage of role.stages.values()) stage.close();
  role.shards.close();
}

export const roleBytes = ({ stages, shards }: Pick<Role, 'stages' | 'shards'>): number =>
  [...stages.values()].reduce((sum, { bytes }) => sum + bytes, shards.bytes);

/** A range to be read of the state, and where it belongs. */
interface Load {
  readonly of: Parameters<ReadState>;
  write(role: Role, values: Float32Array): void;
}

/** What decides it is known before the role is made. */
type Needs = Pick<Role, 'model' | 'uses' | 'loaded' | 'kept'> & { readonly stages: ReadonlyMap<number, unknown> };

export const needsOf = (engine: Engine, model: Model, train: Train, plan: Plan, peer: PeerId): Needs => ({
  model,
  stages: stagesHere(engine, train, plan, peer),
  uses: usesOf(model, plan),
  loaded: kindsOf(train.islands, plan).loaded,
  kept: shardsOf(model, plan, peer, undefined, engine.compute),
});

const usesOf = (model: Model, plan: Plan): Role['uses'] =>
  new Map(Array.from(plan.stages.keys(), (stage) => [stage, keptUses(model, plan, stage)]));

/** Every value that a peer computes with and the state that it keeps. */
function loadsOf({ model, stages, uses, loaded, kept }: Needs): Load[] {
  const loads: Load[] = [];
  for (const index of stages.keys())
    for (const { block, ranges } of got(uses, index))
      for (const range of ranges)
        loads.push({
          of: [block, 'value', range],
          write: (role, values) => got(role.stages, index).writeValues(block, range, values),
        });
  for (const { block, range, master } of kept) {
    for (const [kind, all] of loaded) {
      const places = master === 'own' ? all : all.filter((place) => place !== 'value');
      if (places.length === 0) continue;
      for (const part of partsOfKind(model, block, kind, range)) {
        loads.push({
          of: [block, kind, part],
          write: ({ shards }, values) => {
            for (const place of places) shards.writeState(block, part, place, values);
          },
        });
      }
    }
  }
  return loads;
}

/** Begins to read what a role is filled with, so that it comes while the role is made; what it returns fills the role. */
export function beginLoad(needs: Needs, read: ReadState): (role: Role) => Promise<void> {
  const coming = loadsOf(needs).map(({ of, write }) => [read(...of), write] as const);
  for (const [values] of coming) values.catch(() => undefined); // awaited below, unless there is no role
  // Values are let go of one by one, as they are written.
  return async (role) => {
    await Promise.all(coming.splice(0).map(async ([values, write]) => write(role, await values)));
  };
}

export type ReadBase = (
  block: BlockName,
  range: Range,
  take: (part: Range, values: Float32Array<ArrayBuffer>) => void,
) => Promise<void>;

/** Loads the weights that stand into the stages that compute with them. */
export async function loadBase({ model, plan, stages }: Role, read: ReadBase): Promise<void> {
  for (const [index, stage] of stages)
    for (const { block, ranges } of standingOfStage(model, at(plan.stages, index).layers))
      for (const range of ranges) await read(block, range, (part, values) => stage.writeStanding(block, part, values));
}

function sizesOf(plan: Plan, peer: PeerId, stage: number): number[] {
  const carried = plan.stages[stage]?.members.find((member) => member.peer === peer)?.microBatches ?? [];
  const sizes = plan.microBatches
    .filter(({ id }) => carried.includes(id))
    .map(({ samples }) => samples[1] - samples[0]);
  return [...new Set(sizes)];
}
