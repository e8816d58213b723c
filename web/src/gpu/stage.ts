/**
 * One pipeline stage on a GPU: buffers, bind groups and pipelines are made once for a plan; a micro-batch is one compute
 * pass and one submit, and nothing is allocated in a step. Activations lie in slots, one for each micro-batch in flight.
 */
import { countPass } from '../../../shaders/countPass.ts';
import type { AdapterFamily } from '../../../shaders/kernel.ts';
import { createLaunch, encodeLaunch, type Launch, type PipelineCache } from '../../../shaders/launch.ts';
import { rotaryTable } from '../../../shaders/rotary.ts';
import { sortTokens } from '../../../shaders/sortTokens.ts';
import { chooseLaunch, submitsOf } from '../../../shaders/watchdog.ts';
import { invariant, type Range } from '../../../swarm/base.ts';
import { type Arena, arenaOfUse, placeOf, segmentsIn } from '../../../swarm/layout.ts';
import {
  PASSES,
  ROTARY,
  rotaryOf,
  type StageSize,
  sharedBuffers,
  stageBuffers,
  WIRE,
  WIRE_RESIDUAL,
} from '../../../swarm/memory.ts';
import { type BlockName, blocksOfStage, type Model } from '../../../swarm/model.ts';
import { INPUT, type Program, program, STREAM } from '../../../swarm/program.ts';
import { packedWords, type WireEncoding } from '../../../swarm/wire.ts';
import type { ForwardWork, Reading, Stage, Stream } from '../executor/engine.ts';
import { BufferSet, created, type Proof, ReadbackPool, type Run } from './buffers.ts';
import type { Dispatch, Places } from './operations.ts';
import { type Packing, packingOf } from './packing.ts';
import { type Work, workOf } from './work.ts';

export interface Gpu {
  readonly device: GPUDevice;
  readonly family: AdapterFamily;
  readonly pipelines: PipelineCache;
}

export interface StagePlan {
  readonly size: StageSize;
  /** Samples of a whole step, B. */
  readonly globalBatch: number;
  readonly slotOf: ReadonlyMap<number, number>;
  /** The micro-batch sizes that occur, in samples. */
  readonly sizes: readonly number[];
}

/** What runs for one micro-batch size in one slot. */
type AllWork = Work & Packing;
type Launches = { readonly [Part in keyof AllWork]: readonly Launch[] };

export async function createStage(gpu: Gpu, model: Model, plan: StagePlan): Promise<GpuStage> {
  const stage = await created(gpu.device, `layers ${plan.size.layers.join('-')}`, () => new GpuStage(gpu, model, plan));
  try {
    await stage.compile();
    return stage;
  } catch (cause) {
    stage.close();
    throw cause;
  }
}

export class GpuStage implements Stage {
  readonly bytes: number;
  readonly #gpu: Gpu;
  readonly #model: Model;
  readonly #plan: StagePlan;
  readonly #program: Program;
  readonly #buffers: BufferSet;
  readonly #arenas: ReadonlyMap<BlockName, Arena>;
  readonly #readbacks: ReadbackPool;
  readonly #lossReadbacks: ReadbackPool;
  readonly #launches = new Map<string, Launches>();
  /** Passes submitted, and the launch that ends each of them. */
  #passes = 0;
  #count: Launch | null = null;
  readonly #proof: Proof;
  /** Samples of each micro-batch in flight. */
  readonly #samples = new Map<number, number>();

  constructor(gpu: Gpu, model: Model, plan: StagePlan) {
    const { layers } = plan.size;
    this.#gpu = gpu;
    this.#model = model;
    this.#plan = plan;
    this.#program = program(model, layers, plan.size);
    this.#arenas = new Map(blocksOfStage(model, layers).map((use) => [use.block, arenaOfUse(model, use)]));
    this.#buffers = new BufferSet(gpu.device, `layers ${layers.join('-')}`, stageBuffers(model, plan.size));
    this.bytes = this.#buffers.bytes;
    this.#writeRotary();
    this.#proof = { source: this.#buffers.get(PASSES), expected: () => this.#passes };
    this.#readbacks = new ReadbackPool(gpu.device, this.#buffers.startingWith('readback/'));
    this.#lossReadbacks = new ReadbackPool(gpu.device, this.#buffers.startingWith('lossReadback/'));
  }

  /** Compiles every pipeline in parallel, then makes all bind groups. */
  async compile(): Promise<void> {
    const { device, family, pipelines } = this.#gpu;
    const works = new Map<string, AllWork>();
    for (const samples of this.#plan.sizes) {
      for (let slot = 0; slot < this.#plan.size.slots; slot++) {
        const places = this.#places(samples, slot);
        const packing = packingOf(this.#program, places, this.#plan.size.wire ?? 'f32');
        works.set(`${samples}/${slot}`, { ...workOf(this.#program, places), ...packing });
      }
    }
    const passes = { buffer: this.#buffers.get(PASSES) };
    const count: Dispatch = { kernel: countPass, buffers: { passes }, dims: {}, label: 'pass' };
    const all = new Set([count]);
    for (const work of works.values())
      for (const dispatch of Object.values<readonly Dispatch[]>({ ...work }).flat()) all.add(dispatch);
    const compiled = await Promise.all(
      Array.from(all, async (dispatch) => {
        const choice = chooseLaunch(device, family, dispatch.kernel, dispatch.dims);
        return { dispatch, choice, pipeline: await pipelines.get(dispatch.kernel, choice.variant) };
      }),
    );
    const made = await created(device, 'bind groups', () => {
      const launch = ({ dispatch, choice, pipeline }: (typeof compiled)[number]): [Dispatch, Launch] => [
        dispatch,
        createLaunch({ device, pipeline, ...choice, ...dispatch }),
      ];
      return new Map(compiled.map(launch));
    });
    const launched = (dispatches: readonly Dispatch[]): Launch[] =>
      dispatches.map((dispatch) => {
        const launch = made.get(dispatch);
        invariant(launch, `${dispatch.label} was not compiled`);
        return launch;
      });
    [this.#count = null] = launched([count]);
    for (const [key, work] of works) {
      this.#launches.set(key, {
        forward: launched(work.forward),
        evaluation: launched(work.evaluation),
        backward: launched(work.backward),
        packOutput: launched(work.packOutput),
        unpackInput: launched(work.unpackInput),
        packGradient: launched(work.packGradient),
        unpackGradient: launched(work.unpackGradient),
      });
    }
  }

  begin(): void {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'clear gradients' });
    for (const block of this.#arenas.keys()) encoder.clearBuffer(this.#buffers.get(`gradients/${block}`));
    for (const residual of this.#buffers.startingWith(WIRE_RESIDUAL)) encoder.clearBuffer(residual);
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  forward({ microBatch, samples, input, tokens, evaluation }: ForwardWork): void {
    const { queue } = this.#gpu.device;
    const slot = this.#slot(microBatch);
    this.#samples.set(microBatch, samples);
    const launches = this.#launched(microBatch);
    let run = evaluation ? launches.evaluation : launches.forward;
    const write = (name: string, values: Float32Array | Uint32Array) =>
      queue.writeBuffer(this.#buffers.get(`${slot}/${name}`), 0, values as Float32Array<ArrayBuffer>);
    if (this.#program.first) {
      invariant(tokens, 'the first stage needs tokens');
      write('ids', tokens.ids);
      if (!evaluation) {
        const { order, segments } = sortTokens(tokens.ids);
        write('order', order);
        write('segments', segments);
      }
    } else {
      invariant(input, 'a later stage needs the stream');
      if (input.encoding === 'f32') write(INPUT, input.words);
      else run = [...this.#arrived(input, launches.unpackInput), ...run];
    }
    if (this.#program.last) {
      invariant(tokens, 'the last stage needs targets');
      write('targets', tokens.targets);
    }
    this.#submit(`F${microBatch}`, run);
  }

  backward(microBatch: number, gradient: Stream | null): void {
    const launches = this.#launched(microBatch);
    let run = launches.backward;
    if (gradient?.encoding === 'f32') {
      const stream = this.#buffers.get(`${this.#slot(microBatch)}/${STREAM}`);
      this.#gpu.device.queue.writeBuffer(stream, 0, gradient.words);
    } else if (gradient) run = [...this.#arrived(gradient, launches.unpackGradient), ...run];
    this.#submit(`B${microBatch}`, run);
  }

  readOutput(microBatch: number, encoding: WireEncoding): Promise<Reading> {
    if (encoding === 'f32')
      return this.#readbacks.read([this.#streamOf(microBatch, this.#program.output)], this.#proof);
    return this.#readbacks.read([this.#packed(microBatch)], this.#proof, this.#launched(microBatch).packOutput);
  }

  readInputGradient(microBatch: number, encoding: WireEncoding): Promise<Reading> {
    if (encoding === 'f32') return this.#readbacks.read([this.#streamOf(microBatch, STREAM)], this.#proof);
    return this.#readbacks.read([this.#packed(microBatch)], this.#proof, this.#launched(microBatch).packGradient);
  }

  readLoss(microBatch: number): Promise<Reading> {
    const rows = this.#rows(microBatch);
    const source = this.#buffers.get(`${this.#slot(microBatch)}/loss`);
    return this.#lossReadbacks.read([{ source, at: 0, length: rows }], this.#proof);
  }

  readGradient(block: BlockName, range: Range): Promise<Reading> {
    return this.#readbacks.read(this.gradientRuns(block, range));
  }

  readValues(block: BlockName, range: Range): Promise<Reading> {
    return this.#readbacks.read(this.#runs('values', block, range));
  }

  writeValues(block: BlockName, range: Range, values: Float32Array): void {
    writeRange(this.#gpu.device, this.#arena(block), this.valuesBuffer(block), range, values);
  }

  settled(): Promise<void> {
    return this.#gpu.device.queue.onSubmittedWorkDone();
  }

  /** For the shards of the same device, which update and add in place. */
  valuesBuffer(block: BlockName): GPUBuffer {
    return this.#buffers.get(`values/${block}`);
  }
  gradientsBuffer(block: BlockName): GPUBuffer {
    return this.#buffers.get(`gradients/${block}`);
  }
  arena(block: BlockName): Arena {
    return this.#arena(block);
  }
  gradientRuns(block: BlockName, range: Range): Run[] {
    return this.#runs('gradients', block, range);
  }
  valueRuns(block: BlockName, range: Range): Run[] {
    return this.#runs('values', block, range);
  }

  /** Names, pass by pass, of what a forward and a backward of this micro-batch dispatch. */
  launchesOf(microBatch: number): { readonly forward: readonly Launch[]; readonly backward: readonly Launch[] } {
    return this.#launched(microBatch);
  }

  close(): void {
    for (const launches of this.#launches.values()) {
      for (const launch of Object.values<readonly Launch[]>({ ...launches }).flat()) launch.dimsBuffer.destroy();
    }
    this.#count?.dimsBuffer.destroy();
    this.#launches.clear();
    this.#buffers.close();
  }

  /** One submit, or as few as a watchdog allows. */
  #submit(label: string, launches: readonly Launch[]): void {
    invariant(this.#count, 'a stage is compiled before it works');
    this.#passes++;
    for (const part of submitsOf([...launches, this.#count])) {
      const encoder = this.#gpu.device.createCommandEncoder({ label });
      const pass = encoder.beginComputePass({ label });
      for (const launch of part) encodeLaunch(pass, launch);
      pass.end();
      this.#gpu.device.queue.submit([encoder.finish()]);
    }
  }

  /** The table of the rotary positions never changes. */
  #writeRotary(): void {
    const rotary = rotaryOf(this.#program);
    if (!rotary) return;
    const table = rotaryTable(this.#plan.size.sequence, rotary.headWidth, rotary.theta);
    this.#gpu.device.queue.writeBuffer(this.#buffers.get(ROTARY), 0, table);
  }

  #places(samples: number, slot: number): Places {
    const { size, globalBatch } = this.#plan;
    const shared = sharedBuffers(this.#program, samples, size.sequence).map(({ name }) => name);
    const names = new Set([...shared, WIRE, WIRE_RESIDUAL]);
    const tensor =
      (kind: 'values' | 'gradients') =>
      (...joined: readonly string[]) => {
        const [first] = joined;
        const block = this.#model.blocks.find(({ tensors }) => tensors.some(({ name }) => name === first));
        invariant(block, `no block has ${first}`);
        const { at, elements } = placeOf(this.#arena(block.name), joined);
        return { buffer: this.#buffers.get(`${kind}/${block.name}`), offset: at * 4, size: elements * 4 };
      };
    return {
      samples,
      sequence: size.sequence,
      rows: samples * size.sequence,
      width: this.#model.width,
      lossScale: 1 / (globalBatch * size.sequence),
      buffer: (name) => ({ buffer: this.#buffers.get(names.has(name) ? name : `slot${slot}/${name}`) }),
      value: tensor('values'),
      gradient: tensor('gradients'),
    };
  }

  #runs(kind: 'values' | 'gradients', block: BlockName, range: Range): Run[] {
    const source = this.#buffers.get(`${kind}/${block}`);
    return segmentsIn(this.#arena(block), range).map(({ at, length }) => ({ source, at, length }));
  }

  #streamOf(microBatch: number, name: string): Run {
    const source = this.#buffers.get(`${this.#slot(microBatch)}/${name}`);
    return { source, at: 0, length: this.#rows(microBatch) * this.#model.width };
  }

  /** Where a stream is packed, and how far. */
  #packed(microBatch: number): Run {
    const elements = this.#rows(microBatch) * this.#model.width;
    return { source: this.#buffers.get(WIRE), at: 0, length: packedWords(this.#plan.size.wire ?? 'f32', elements) };
  }

  /** Puts what another peer packed where `unpack` reads it, in this order of the queue. */
  #arrived({ encoding, words }: Stream, unpack: readonly Launch[]): readonly Launch[] {
    invariant(encoding === this.#plan.size.wire, `this stage is not made for ${encoding}`);
    this.#gpu.device.queue.writeBuffer(this.#buffers.get(WIRE), 0, words);
    return unpack;
  }

  #rows(microBatch: number): number {
    return (this.#samples.get(microBatch) ?? 0) * this.#plan.size.sequence;
  }

  #slot(microBatch: number): string {
    const slot = this.#plan.slotOf.get(microBatch);
    invariant(slot !== undefined, `micro-batch ${microBatch} has no slot`);
    return `slot${slot}`;
  }

  #launched(microBatch: number): Launches {
    const found = this.#launches.get(`${this.#samples.get(microBatch)}/${this.#plan.slotOf.get(microBatch)}`);
    invariant(found, `micro-batch ${microBatch} has a size that was not planned`);
    return found;
  }

  #arena(block: BlockName): Arena {
    const found = this.#arenas.get(block);
    invariant(found, `this stage does not use ${block}`);
    return found;
  }
}

/** Writes a range of a block, which comes without gaps, into a buffer that is laid out as an arena. */
export function writeRange(
  device: GPUDevice,
  arena: Arena,
  buffer: GPUBuffer,
  range: Range,
  values: Float32Array,
): void {
  for (const { from, at, length } of segmentsIn(arena, range)) {
    const part = values.subarray(from - range[0], from - range[0] + length) as Float32Array<ArrayBuffer>;
    device.queue.writeBuffer(buffer, at * 4, part);
  }
}
