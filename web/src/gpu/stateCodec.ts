/**
 * Gradient sums and values as codes, on the GPU (swarm/plan/codedState.ts): a piece at a time is copied out of its arena
 * without gaps, coded, and what is left of it copied back. Pieces follow one another in the queue; whoever reads the codes
 * does so before the next one.
 */

import type { Kernel } from '../../../shaders/kernel/kernel.ts';
import { closeLaunch, createLaunch, type Launch, resized } from '../../../shaders/kernel/launch.ts';
import type { Variant } from '../../../shaders/kernel/text.ts';
import { addInt8 } from '../../../shaders/wire/addInt8.ts';
import { packInt8Difference, packInt8Rest } from '../../../shaders/wire/packInt8.ts';
import { invariant, type Range } from '../../../swarm/base.ts';
import { CODEC_CODES, CODEC_FLOATS, CODEC_HELD } from '../../../swarm/memory/memory.ts';
import { type Arena, type Segment, segmentsIn } from '../../../swarm/model/layout.ts';
import { packedWords } from '../../../swarm/wire.ts';
import { type BufferSet, created, type Run } from './buffers.ts';
import type { Gpu } from './device.ts';
import type { KernelCall } from './kernelCall.ts';
import type { Passes } from './passes.ts';

/** A buffer, and how a block's tensors lie in it. */
export interface Placed {
  readonly buffer: GPUBuffer;
  readonly arena: Arena;
}

const LENGTHS = [{ n: 4 }, { n: 1 }];
const codesBy = (kernels: readonly Kernel[]): KernelCall[] =>
  kernels.flatMap((kernel) => LENGTHS.map((dims) => ({ kernel, dims, buffers: {}, label: kernel.name })));
/** What a stage's codec compiles, and a primary's. */
export const SUM_CODES = codesBy([packInt8Rest, addInt8]);
export const VALUE_CODES = codesBy([packInt8Difference]);

/** One kernel on one place, for pieces of any length: by fours, or one by one. */
class Coder {
  readonly #gpu: Gpu;
  readonly #launches: readonly Launch[];

  private constructor(gpu: Gpu, launches: readonly Launch[]) {
    this.#gpu = gpu;
    this.#launches = launches;
  }

  static async create(gpu: Gpu, kernel: Kernel, buffers: Readonly<Record<string, GPUBuffer>>): Promise<Coder> {
    const { device, family, pipelines } = gpu;
    const bound = Object.fromEntries(Object.entries(buffers).map(([name, buffer]) => [name, { buffer }]));
    const launches: Launch[] = [];
    for (const dims of LENGTHS) {
      const variant: Variant = { family, inBoxes: false };
      const pipeline = await pipelines.get(kernel, dims, variant);
      const request = { device, pipeline, kernel, variant, buffers: bound, dims, label: kernel.name };
      launches.push(await created(device, kernel.name, () => createLaunch(request)));
    }
    return new Coder(gpu, launches);
  }

  /** To be submitted before the next one is asked for. */
  of(n: number): Launch {
    const launch = this.#launches[n % 4 === 0 ? 0 : 1];
    invariant(launch, 'a coder has two launches');
    return resized(this.#gpu.device, launch, { n });
  }

  close(): void {
    this.#launches.forEach(closeLaunch);
  }
}

const lengthOf = ([from, to]: Range): number => to - from;

/** Copies a piece out of its place to the beginning of a buffer, or back. */
function copyPiece({ device }: Gpu, { buffer, arena }: Placed, range: Range, plain: GPUBuffer, way: 'out' | 'back') {
  const encoder = device.createCommandEncoder({ label: `a piece ${way}` });
  for (const { at, from, length } of segmentsIn(arena, range)) {
    const [there, here] = [at * 4, (from - range[0]) * 4];
    if (way === 'out') encoder.copyBufferToBuffer(buffer, there, plain, here, length * 4);
    else encoder.copyBufferToBuffer(plain, here, buffer, there, length * 4);
  }
  device.queue.submit([encoder.finish()]);
}

type StageCoders = Readonly<Record<'pack' | 'add', Coder>>;

/** A stage's: its gradient sums become codes, and codes are added to its values. */
export class StageCodec {
  readonly #gpu: Gpu;
  readonly #floats: GPUBuffer;
  readonly #codes: GPUBuffer;
  readonly #coders: StageCoders;
  readonly #passes: Passes;
  /** By gradient buffer, where something may be left over. */
  readonly #left = new Map<GPUBuffer, Segment[]>();

  private constructor(gpu: Gpu, buffers: BufferSet, coders: StageCoders, passes: Passes) {
    this.#gpu = gpu;
    this.#floats = buffers.get(CODEC_FLOATS);
    this.#codes = buffers.get(CODEC_CODES);
    this.#coders = coders;
    this.#passes = passes;
  }

  static async create(gpu: Gpu, buffers: BufferSet, passes: Passes): Promise<StageCodec> {
    const packed = buffers.get(CODEC_CODES);
    const floats = buffers.get(CODEC_FLOATS);
    const coders = {
      pack: await Coder.create(gpu, packInt8Rest, { x: floats, packed }),
      add: await Coder.create(gpu, addInt8, { packed, acc: floats }),
    };
    return new StageCodec(gpu, buffers, coders, passes);
  }

  /** Where the codes of a piece of gradient sums are; what they miss is what is left of it. */
  pack(place: Placed, range: Range): Run {
    copyPiece(this.#gpu, place, range, this.#floats, 'out');
    this.#passes.submit('pack gradients', [this.#coders.pack.of(lengthOf(range))]);
    copyPiece(this.#gpu, place, range, this.#floats, 'back');
    const known = this.#left.get(place.buffer) ?? [];
    known.push(...segmentsIn(place.arena, range));
    this.#left.set(place.buffer, known);
    return { source: this.#codes, at: 0, length: packedWords('int8', lengthOf(range)) };
  }

  add(place: Placed, range: Range, codes: Float32Array): void {
    this.#gpu.device.queue.writeBuffer(this.#codes, 0, codes as Float32Array<ArrayBuffer>);
    copyPiece(this.#gpu, place, range, this.#floats, 'out');
    this.#passes.submit('add values', [this.#coders.add.of(lengthOf(range))]);
    copyPiece(this.#gpu, place, range, this.#floats, 'back');
  }

  /** Clears a gradient buffer, but for what is left over of the step before. */
  clear(encoder: GPUCommandEncoder, buffer: GPUBuffer): void {
    let reached = 0;
    for (const { at, length } of (this.#left.get(buffer) ?? []).toSorted((a, b) => a.at - b.at)) {
      if (at * 4 > reached) encoder.clearBuffer(buffer, reached, at * 4 - reached);
      reached = (at + length) * 4;
    }
    if (buffer.size > reached) encoder.clearBuffer(buffer, reached);
    this.#left.delete(buffer);
  }

  /** Nothing is left over that counts. */
  forget(): void {
    this.#left.clear();
  }

  close(): void {
    for (const coder of Object.values(this.#coders)) coder.close();
  }
}

/** For a step that begins. Null: nothing is ever left over. */
export function clearSums(encoder: GPUCommandEncoder, gradients: GPUBuffer, codec: StageCodec | null): void {
  if (codec) codec.clear(encoder, gradients);
  else encoder.clearBuffer(gradients);
}

/** A primary's: what holders lack of its values becomes codes, and is what they have afterwards. */
export class ValueCodec {
  readonly #gpu: Gpu;
  readonly #buffers: BufferSet;
  readonly #pack: Coder;
  readonly #passes: Passes;

  private constructor(gpu: Gpu, buffers: BufferSet, pack: Coder, passes: Passes) {
    this.#gpu = gpu;
    this.#buffers = buffers;
    this.#pack = pack;
    this.#passes = passes;
  }

  static async create(gpu: Gpu, buffers: BufferSet, passes: Passes): Promise<ValueCodec> {
    const [x, held, packed] = [CODEC_FLOATS, CODEC_HELD, CODEC_CODES].map((name) => buffers.get(name));
    invariant(x && held && packed, 'a codec has three buffers');
    return new ValueCodec(gpu, buffers, await Coder.create(gpu, packInt8Difference, { x, packed, held }), passes);
  }

  pack(values: Placed, held: Placed, range: Range): Run {
    const [x, had] = [this.#buffers.get(CODEC_FLOATS), this.#buffers.get(CODEC_HELD)];
    copyPiece(this.#gpu, values, range, x, 'out');
    copyPiece(this.#gpu, held, range, had, 'out');
    this.#passes.submit('pack values', [this.#pack.of(lengthOf(range))]);
    copyPiece(this.#gpu, held, range, had, 'back');
    return { source: this.#buffers.get(CODEC_CODES), at: 0, length: packedWords('int8', lengthOf(range)) };
  }

  close(): void {
    this.#pack.close();
  }
}
