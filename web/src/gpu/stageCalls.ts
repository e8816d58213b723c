/**
 * All that there is to do in a stage: for every micro-batch size that occurs, in every slot, the calls of its kernels,
 * bound to the stage's buffers. Here alone is known what a name of the program means in memory.
 */
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import { invariant } from '../../../swarm/base.ts';
import {
  aheadName,
  type StageSize,
  sharedBuffers,
  WIRE,
  WIRE_KEY,
  WIRE_RESIDUAL,
} from '../../../swarm/memory/memory.ts';
import { type Arena, placeOf } from '../../../swarm/model/layout.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import { isAgain, type Program } from '../../../swarm/model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../../../swarm/precision.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import { type BufferSet, wholeWords } from './buffers.ts';
import { type MicroBatchCalls, microBatchCalls } from './microBatchCalls.ts';
import type { Places } from './operations.ts';
import { encodingsOf, type Packing, packingOf } from './packing.ts';

export interface StagePlan {
  readonly size: StageSize;
  /** Samples of a whole step, B. */
  readonly globalBatch: number;
  /** The micro-batch sizes that occur, in samples. */
  readonly sizes: readonly number[];
  /** The gradients are multiplied with a loss scale; absent: they are not. */
  readonly isScaled?: boolean;
}

/** For one micro-batch size in one slot, and how the stream is packed by encoding. */
export interface SlotCalls extends MicroBatchCalls {
  readonly packing: ReadonlyMap<WireEncoding, Packing>;
}

/** What a stage is made of, as far as its calls name it. */
interface StageParts {
  readonly model: Model;
  readonly plan: StagePlan;
  readonly compute: Compute;
  readonly family: AdapterFamily;
  readonly program: Program;
  readonly buffers: Pick<BufferSet, 'get'>;
  readonly arenas: ReadonlyMap<BlockName, Arena>;
}

export const slotKey = (samples: number, slot: number): string => `${samples}/${slot}`;

/** By `slotKey`. */
export function stageCalls(parts: StageParts): Map<string, SlotCalls> {
  const { program, plan, compute } = parts;
  const { size, sizes, isScaled } = plan;
  const calls = new Map<string, SlotCalls>();
  for (const samples of sizes) {
    for (let slot = 0; slot < size.slots; slot++) {
      const places = placesOf(parts, samples, slot);
      const encodings = encodingsOf(program, size.wires ?? [], compute);
      const packing = encodings.map((wire) => [wire, packingOf(program, places, wire, isScaled)] as const);
      calls.set(slotKey(samples, slot), {
        ...microBatchCalls(program, places, size.recomputesAhead ? aheadPlaces(places) : places),
        packing: new Map(packing),
      });
    }
  }
  return calls;
}

/** Where a layer lies that was computed again, until its backward: what is computed meanwhile has the place of all. */
const aheadPlaces = (places: Places): Places => ({
  ...places,
  buffer: (name) => places.buffer(isAgain(name) ? aheadName(name) : name),
});

function placesOf(
  { model, plan, compute, family, program, buffers, arenas }: StageParts,
  samples: number,
  slot: number,
): Places {
  const { size, globalBatch } = plan;
  const elementBytes = ELEMENT_BYTES[compute];
  const shared = sharedBuffers(program, { ...size, samples }).map(({ name }) => name);
  const names = new Set([...shared, WIRE, WIRE_RESIDUAL, WIRE_KEY]);
  const tensor =
    (kind: 'values' | 'gradients') =>
    (...joined: readonly string[]) => {
      const [first] = joined;
      const block = model.blocks.find(({ tensors }) => tensors.some(({ name }) => name === first));
      const arena = block && arenas.get(block.name);
      invariant(block && arena, `this stage has no ${first}`);
      const { at, elements } = placeOf(arena, joined);
      const bytes = kind === 'values' ? elementBytes : 4;
      return { buffer: buffers.get(`${kind}/${block.name}`), offset: at * bytes, size: wholeWords(elements * bytes) };
    };
  return {
    samples,
    sequence: size.sequence,
    rows: samples * size.sequence,
    width: model.width,
    lossScale: 1 / (globalBatch * size.sequence),
    elementBytes,
    family,
    buffer: (name) => ({ buffer: buffers.get(names.has(name) ? name : `slot${slot}/${name}`) }),
    value: tensor('values'),
    gradient: tensor('gradients'),
  };
}
