/**
 * All that there is to do in a stage: for every micro-batch size that occurs, in every slot, the calls of its kernels,
 * bound to the stage's buffers. Here alone is known what a name of the program means in memory.
 */
import { at, given, invariant } from '../../../swarm/base.ts';
import { PAIRS } from '../../../swarm/memory/adapterMemory.ts';
import {
  aheadName,
  placeName,
  type StageSize,
  sharedBuffers,
  unitArenas,
  unitsOf,
  WIRE,
  WIRE_KEY,
  WIRE_RESIDUAL,
  wholeUses,
} from '../../../swarm/memory/memory.ts';
import {
  type Arena,
  arenaOfUse,
  packedFloats,
  placeOf,
  type StandingPart,
  standingParts,
} from '../../../swarm/model/layout.ts';
import {
  type Block,
  type BlockName,
  type BlockUse,
  blocksOfStage,
  type Model,
  type PackedBase,
  standingOfStage,
} from '../../../swarm/model/model.ts';
import { isAgain, type Program, type Step } from '../../../swarm/model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../../../swarm/precision.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import { type BufferSet, wholeWords } from './buffers.ts';
import type { Gpu } from './device.ts';
import type { KernelCall } from './kernelCall.ts';
import { bodyCalls, type MicroBatchCalls, microBatchCalls } from './microBatchCalls.ts';
import { encodingsOf, type Packing, packingOf } from './packing.ts';
import type { Places } from './places.ts';

export interface StagePlan {
  readonly size: StageSize;
  /** Samples of a whole step, B. */
  readonly globalBatch: number;
  /** The micro-batch sizes that occur, in samples. */
  readonly sizes: readonly number[];
  /** The gradients are multiplied with a loss scale; absent: they are not. */
  readonly isScaled?: boolean;
  /** Whether losses on held-out text are asked for; absent: they are. */
  readonly evaluates?: boolean;
}

/** Of a whole step where every row counts: B·T. */
export const targetsOf = ({ size, globalBatch }: StagePlan): number => globalBatch * size.sequence;

/** For one micro-batch size in one slot, and how the stream is packed by encoding. */
export interface SlotCalls extends MicroBatchCalls {
  /** The forward, a list for each block, in order; none of what is gathered. */
  readonly blocks: readonly (readonly KernelCall[])[];
  readonly packing: ReadonlyMap<WireEncoding, Packing>;
}

/** What a stage is made of, as far as its calls name it. */
interface StageParts {
  readonly model: Model;
  readonly plan: StagePlan;
  readonly compute: Compute;
  readonly gpu: Pick<Gpu, 'family' | 'gpuClass' | 'bindingBytes'>;
  readonly program: Program;
  readonly buffers: Pick<BufferSet, 'get'>;
  readonly arenas: ReadonlyMap<BlockName, Arena>;
  readonly standing: ReadonlyMap<BlockName, readonly StandingPart[]>;
}

/** `unit`: of a stage that gathers. */
export const slotKey = (samples: number, slot: number, unit?: number): string =>
  unit === undefined ? `${samples}/${slot}` : `${samples}/${slot}/${unit}`;

/** Of the blocks that it has whole. */
export const arenasOf = (
  model: Model,
  { size: { layers, gathered, compute = 'f32' } }: StagePlan,
): Map<BlockName, Arena> =>
  new Map(
    (gathered ? wholeUses(model, layers) : blocksOfStage(model, layers)).map((use) => [
      use.block,
      arenaOfUse(model, use, compute),
    ]),
  );

/** By `slotKey`. */
export function stageCalls(parts: StageParts): Map<string, SlotCalls> {
  const { program, plan, compute } = parts;
  const { size, sizes, isScaled, evaluates = true } = plan;
  const calls = new Map<string, SlotCalls>();
  for (const samples of sizes) {
    for (let slot = 0; slot < size.slots; slot++) {
      const places = placesOf(parts, samples, slot);
      const encodings = encodingsOf(program, size.wires ?? [], compute);
      const packing = encodings.map((wire) => [wire, packingOf(program, places, wire, isScaled)] as const);
      const own = size.gathered ? partOf(program, null) : program;
      const body = bodyCalls(own, places);
      const passes = microBatchCalls(own, places, size.recomputesAhead ? aheadPlaces(program, places) : places, body);
      const rest = passes.forward.slice(body.flat().length);
      calls.set(slotKey(samples, slot), {
        ...passes,
        evaluation: evaluates ? passes.evaluation : [],
        blocks: program.last ? [...body, rest] : body,
        packing: new Map(packing),
      });
      for (const [unit, [first]] of unitsIn(parts).entries()) {
        invariant(first, 'a unit has a block');
        const [homes, whole] = [unitHomes(parts, unit), wholeTensor(parts)];
        const there = { ...places, ...tensorsOf(parts, (block) => homes.get(block) ?? whole(block)) };
        const own = microBatchCalls(partOf(program, first.block), there);
        const evaluation = evaluates ? own.evaluation : [];
        calls.set(slotKey(samples, slot, unit), { ...own, evaluation, blocks: [], packing: new Map() });
      }
    }
  }
  return calls;
}

/** Where a layer lies that was computed again, until its backward: what is computed meanwhile has the place of all. */
const aheadPlaces = ({ inRuns }: Program, places: Places): Places => ({
  ...places,
  buffer: (name) => places.buffer(isAgain(name) && !inRuns.has(name) ? aheadName(name) : name),
});

/** The rows of one block, null: none. Its buffers are those of the whole. */
function partOf(program: Program, scope: BlockName | null): Program {
  const isIts = (step: Step): boolean => step.scope === scope;
  return {
    ...program,
    body: program.body.filter(isIts),
    head: program.head.filter(isIts),
    loss: program.loss.filter(isIts),
    backward: program.backward.filter(({ rows }) => rows.every(isIts)),
  };
}

/** None where the stage has all of its blocks. */
export const unitsIn = ({ model, plan: { size } }: Pick<StageParts, 'model' | 'plan'>): BlockUse[][] =>
  size.gathered ? unitsOf(model, size.layers, size.layers[0] === 0) : [];

/** Where a block's tensors are. */
export interface Home {
  readonly name: string;
  readonly arena: Arena;
}
type HomeOf = (block: BlockName) => Home | undefined;

const wholeTensor =
  ({ arenas }: StageParts): HomeOf =>
  (block) => {
    const arena = arenas.get(block);
    return arena && { name: block, arena };
  };

/** Where the blocks of a unit are while it is there. */
export function unitHomes(
  { model, plan }: Pick<StageParts, 'model' | 'plan'>,
  unit: number,
): ReadonlyMap<BlockName, Home> {
  const { gathered = 1, compute = 'f32' } = plan.size;
  const uses = at(unitsIn({ model, plan }), unit);
  const name = placeName(unit, gathered);
  return new Map(
    unitArenas(model, uses, compute).map((arena, part) => [at(uses, part).block, { name, arena }] as const),
  );
}

/** Of the blocks that stand in it. */
export const standingPartsOf = (
  model: Model,
  { size: { layers, compute = 'f32' } }: StagePlan,
): Map<BlockName, StandingPart[]> =>
  new Map(standingOfStage(model, layers).map((use) => [use.block, standingParts(model, use, compute)]));

/** A buffer that holds tensors of a block. */
export interface TensorHome {
  readonly arena: Arena;
  readonly buffer: GPUBuffer;
  readonly packed?: PackedBase | null;
}

/** Where tensors lie in the buffers of their blocks, trained ones or those that stand: one, or several that are joined. */
export const tensorIn =
  (
    model: Model,
    elementBytes: number,
    homesOf: (block: BlockName, stands: boolean) => readonly TensorHome[],
  ): Places['value'] =>
  (...joined) => {
    const [first] = joined;
    const hasIt = ({ tensors }: Block): boolean => tensors.some(({ name }) => name === first);
    const standing = model.standing?.find(hasIt);
    const block = standing ?? model.blocks.find(hasIt);
    const homes = block ? homesOf(block.name, standing !== undefined) : [];
    const home = homes.find(({ arena: { segments } }) => segments.some(({ tensor }) => tensor.name === first));
    invariant(home, `this stage has no ${first}`);
    const { at, elements } = placeOf(home.arena, joined);
    const { buffer, packed } = home;
    const bytes = (count: number): number => (packed ? 4 * packedFloats(count, packed) : count * elementBytes);
    return { buffer, offset: bytes(at), size: wholeWords(bytes(elements)), ...(packed && { packed }) };
  };

function tensorsOf(
  { model, compute, buffers, standing }: StageParts,
  homeOf: HomeOf,
): Pick<Places, 'value' | 'gradient'> {
  const tensor = (kind: 'values' | 'gradients') =>
    tensorIn(model, kind === 'values' ? ELEMENT_BYTES[compute] : 4, (block, stands) => {
      if (stands) return (standing.get(block) ?? []).map((part) => ({ ...part, buffer: buffers.get(part.name) }));
      const home = homeOf(block);
      return home ? [{ arena: home.arena, buffer: buffers.get(`${kind}/${home.name}`) }] : [];
    });
  return { value: tensor('values'), gradient: tensor('gradients') };
}

function placesOf(parts: StageParts, samples: number, slot: number): Places {
  const { model, compute, program, buffers } = parts;
  const { family, gpuClass, bindingBytes } = parts.gpu;
  const { size } = parts.plan;
  const elementBytes = ELEMENT_BYTES[compute];
  const shared = sharedBuffers(program, { ...size, samples }).map(({ name }) => name);
  const names = new Set([...shared, ...Object.values(PAIRS), WIRE, WIRE_RESIDUAL, WIRE_KEY]);
  return {
    samples,
    sequence: size.sequence,
    rows: samples * size.sequence,
    width: model.width,
    lossScale: 1 / targetsOf(parts.plan),
    elementBytes,
    vocabulary: model.vocabulary,
    bindingBytes,
    family,
    gpuClass,
    stands: model.standing !== undefined,
    ...given({ beta: model.beta }),
    buffer: (name) => {
      const place = program.places.get(name) ?? name;
      return { buffer: buffers.get(names.has(place) ? place : `slot${slot}/${name}`) };
    },
    ...tensorsOf(parts, wholeTensor(parts)),
  };
}
