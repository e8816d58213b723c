/**
 * One pipeline stage on a GPU: buffers, bind groups and pipelines are made once for a plan; a micro-batch is one compute
 * pass and one submit, and nothing is allocated in a step. Activations lie in slots, one for each micro-batch in flight.
 */
import { firstKeys } from '../../../shaders/attention/firstKeys.ts';
import { rotaryTable } from '../../../shaders/attention/rotary.ts';
import { sortTokens } from '../../../shaders/embedding/sortTokens.ts';
import { type Launch, updateDims } from '../../../shaders/kernel/launch.ts';
import { queueDone } from '../../../shaders/kernel/queueWait.ts';
import { int4Key } from '../../../shaders/wire/packInt4.ts';
import { at, got, invariant, type Range } from '../../../swarm/base.ts';
import { PAIRS } from '../../../swarm/memory/adapterMemory.ts';
import { PASSES } from '../../../swarm/memory/bufferSpec.ts';
import {
  addsPositions,
  BY_POSITION,
  BY_TOKEN,
  firstKeysName,
  firstKeyWindows,
  rotaryTables,
  stageBuffers,
  WIRE,
  WIRE_KEY,
  WIRE_RESIDUAL,
} from '../../../swarm/memory/memory.ts';
import { type Arena, type StandingPart, segmentsIn } from '../../../swarm/model/layout.ts';
import { type BlockName, type Model, paddingOf } from '../../../swarm/model/model.ts';
import { INPUT, type Program, program, STREAM } from '../../../swarm/model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../../../swarm/precision.ts';
import { packedWords, type WireEncoding } from '../../../swarm/wire.ts';
import type { ForwardWork, MicroTokens, Neighbour, Reading, Stage, Stream } from '../executor/engine.ts';
import { BufferSet, created, type Proof, ReadbackPool, type Run, wholeWords } from './buffers.ts';
import { type Compiled, closeCompiled, compileCalls, type Launches } from './compile.ts';
import type { Gpu } from './device.ts';
import { HalfWriter, readHalves } from './halves.ts';
import { PackedWriter } from './packedBase.ts';
import type { Packing } from './packing.ts';
import { Passes } from './passes.ts';
import {
  arenasOf,
  type StagePlan,
  slotKey,
  stageCalls,
  standingPartsOf,
  type TensorHome,
  targetsOf,
} from './stageCalls.ts';
import { StageUnits } from './stageUnits.ts';
import { clearSums, StageCodec } from './stateCodec.ts';
import { writeRange } from './writeRange.ts';

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

const valuesName = (block: BlockName): string => `values/${block}`;

export class GpuStage implements Stage {
  readonly bytes: number;
  readonly blocks: readonly BlockName[];
  readonly #gpu: Gpu;
  readonly #model: Model;
  readonly #plan: StagePlan;
  readonly #program: Program;
  readonly #buffers: BufferSet;
  readonly #arenas: ReadonlyMap<BlockName, Arena>;
  /** Of the blocks that stand. */
  readonly #standing: ReadonlyMap<BlockName, readonly StandingPart[]>;
  readonly #readbacks: ReadbackPool;
  readonly #lossReadbacks: ReadbackPool;
  #compiled: Compiled | null = null;
  #passes: Passes | null = null;
  /** Null: gradient sums and values come and go as floats. */
  #codec: StageCodec | null = null;
  readonly #compute: Compute;
  /** Where values come in as floats and are kept otherwise, by the names of their buffers. */
  readonly #writers = new Map<string, HalfWriter | PackedWriter>();
  /** Null: it has all of its blocks. */
  readonly #units: StageUnits | null;
  #step = 0;
  /** What the loss of each target, or pair, counts in the gradients. */
  #targetScale: number;
  /** What the newest work made for others to read. */
  #made: { readonly what: 'output' | 'gradient'; readonly microBatch: number; readonly encoding: WireEncoding } | null =
    null;
  /** The micro-batch of which a layer lies computed again. */
  #again: number | null = null;
  /** The slot of each micro-batch, also when it is free again; and by slot whose it is while it is not free. */
  readonly #slotOf = new Map<number, number>();
  readonly #taken = new Map<number, number>();
  /** Samples of each micro-batch in flight. */
  readonly #samples = new Map<number, number>();

  constructor(gpu: Gpu, model: Model, plan: StagePlan) {
    const { layers, compute = 'f32' } = plan.size;
    this.#compute = compute;
    this.#gpu = gpu;
    this.#model = model;
    this.#plan = plan;
    this.#targetScale = 1 / targetsOf(plan);
    this.#program = program(model, layers, plan.size);
    this.#arenas = arenasOf(model, plan);
    this.#standing = standingPartsOf(model, plan);
    this.#buffers = new BufferSet(gpu.device, `layers ${layers.join('-')}`, stageBuffers(model, plan.size));
    this.bytes = this.#buffers.bytes;
    this.#units = plan.size.gathered ? new StageUnits(gpu, model, plan, this.#buffers) : null;
    const { body, head } = this.#program;
    this.blocks = this.#units ? [] : [...new Set([...body, ...head].map(({ scope }) => scope))];
    this.#writeTables();
    this.#readbacks = new ReadbackPool(gpu.device, this.#buffers.startingWith('readback/'));
    this.#lossReadbacks = new ReadbackPool(gpu.device, this.#buffers.startingWith('lossReadback/'));
  }

  /** Compiles every pipeline in parallel, then makes all bind groups. */
  async compile(): Promise<void> {
    const slots = stageCalls({
      ...{ gpu: this.#gpu, model: this.#model, plan: this.#plan, compute: this.#compute },
      ...{ program: this.#program, buffers: this.#buffers, arenas: this.#arenas, standing: this.#standing },
    });
    [this.#passes, this.#compiled] = await Promise.all([
      Passes.create(this.#gpu, this.#buffers.get(PASSES)),
      compileCalls(this.#gpu, this.#compute, slots),
    ]);
    if (this.#plan.size.stateWire) this.#codec = await StageCodec.create(this.#gpu, this.#buffers, this.#passes);
    const standing = [...this.#standing.values()].flat();
    for (const { name, packed } of standing)
      if (packed) this.#writers.set(name, new PackedWriter(this.#gpu.device, this.#buffers.get(name), packed));
    if (this.#compute === 'f32') return;
    await this.#units?.writeHalves();
    const halved = [...Array.from(this.#arenas.keys(), valuesName), ...standing.map(({ name }) => name)];
    for (const name of halved) {
      const writer = await HalfWriter.create(this.#gpu, this.#buffers.get(WIRE), this.#buffers.get(name));
      this.#writers.set(name, writer);
    }
  }

  begin(step = 0, lossScale = 1, withLeftOver = false, counted = targetsOf(this.#plan)): void {
    this.#step = step;
    this.#taken.clear();
    const scale = lossScale / counted;
    if (scale !== this.#targetScale) {
      this.#targetScale = scale;
      for (const { launch, dims } of this.#compiled?.losses ?? [])
        updateDims(this.#gpu.device, launch, { ...dims, scale });
    }
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'clear gradients' });
    if (!withLeftOver) this.#codec?.forget();
    for (const block of this.#arenas.keys()) clearSums(encoder, this.gradientsBuffer(block), this.#codec);
    for (const residual of this.#buffers.startingWith(WIRE_RESIDUAL)) encoder.clearBuffer(residual);
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  get units(): Stage['units'] {
    return this.#units?.uses;
  }

  forward(work: ForwardWork, unit?: number): void {
    const { microBatch, evaluation, encoding } = work;
    const entered = unit === undefined || unit === 0 ? this.#enter(work) : [];
    const launches = this.#launched(microBatch, this.#units ? unit : undefined);
    const whole = evaluation ? launches.evaluation : launches.forward;
    const own = unit === undefined || this.#units ? whole : at(launches.blocks, unit);
    const isLast = unit === undefined || unit === (this.units ?? this.blocks).length - 1;
    this.#made = encoding && isLast ? { what: 'output', microBatch, encoding } : null;
    if (!this.#plan.size.recomputesAhead) this.#again = null; // a recomputed layer's forward has the same place
    const packed = isLast ? this.#packingOf(this.#launched(microBatch), encoding, 'packOutput') : [];
    this.#submit(`F${microBatch}`, [...entered, ...own, ...packed]);
  }

  /** A micro-batch comes in: what is launched first. */
  #enter({ microBatch, samples, input, tokens, evaluation }: ForwardWork): readonly Launch[] {
    const { queue } = this.#gpu.device;
    this.#takeSlot(microBatch, evaluation);
    const slot = this.#slot(microBatch);
    this.#samples.set(microBatch, samples);
    const write = (name: string, values: Float32Array | Uint32Array) =>
      queue.writeBuffer(this.#buffers.get(`${slot}/${name}`), 0, values as Float32Array<ArrayBuffer>);
    const { sequence } = this.#plan.size;
    for (const window of firstKeyWindows(this.#program))
      write(firstKeysName(window), firstKeys(samples * sequence, sequence, tokens?.firstRows ?? null, window));
    if (this.#program.last) {
      invariant(tokens, 'the last stage needs targets');
      write('targets', tokens.targets);
    }
    if (!this.#program.first) {
      invariant(input, 'a later stage needs the stream');
      return this.#take(input, microBatch, 'input', this.#launched(microBatch));
    }
    invariant(tokens, 'the first stage needs tokens');
    write('ids', tokens.ids);
    if (!evaluation) this.#writeSorted(tokens, write);
    return [];
  }

  /** In which order the gradients of the tables are summed. */
  #writeSorted({ ids, firstRows }: MicroTokens, write: (name: string, words: Uint32Array) => void): void {
    const writeAs = (names: typeof BY_TOKEN | typeof BY_POSITION, rows: Uint32Array, padding: number | null) => {
      const { order, segments } = sortTokens(rows, padding);
      write(names.order, order);
      write(names.segments, segments);
    };
    writeAs(BY_TOKEN, ids, paddingOf(this.#model));
    if (!addsPositions(this.#program)) return;
    const { sequence } = this.#plan.size;
    const positions = ids.map((_, row) => (row % sequence) - (firstRows ? at(firstRows, row) : 0));
    writeAs(BY_POSITION, positions, null);
  }

  recompute(microBatch: number): void {
    this.#submit(`R${microBatch}`, this.#launched(microBatch).recompute);
    this.#again = microBatch;
  }

  backward(microBatch: number, gradient: Stream | Neighbour | null, encoding?: WireEncoding, unit?: number): void {
    const launches = this.#launched(microBatch, unit);
    const isRecomputed = unit !== undefined || launches.recompute.length === 0 || this.#again === microBatch;
    invariant(isRecomputed, `micro-batch ${microBatch} is computed again before its backward`);
    this.#again = null;
    const whole = this.#launched(microBatch);
    const first = gradient ? this.#take(gradient, microBatch, 'gradient', whole) : [];
    // What is gathered is computed again when it is there for the backward.
    const again = unit === undefined ? [] : launches.recompute;
    const isLast = unit === undefined || unit === 0;
    this.#made = encoding && isLast ? { what: 'gradient', microBatch, encoding } : null;
    if (encoding === 'int4' && isLast) this.#writeKey(microBatch);
    const packed = isLast ? this.#packingOf(whole, encoding, 'packGradient') : [];
    this.#submit(`B${microBatch}`, [...first, ...again, ...launches.backward, ...packed]);
  }

  clearUnit(unit: number): void {
    this.#units?.clear(unit);
  }

  writeUnit(unit: number, block: BlockName, range: Range, values: Float32Array): void {
    this.#units?.write(unit, block, range, values);
  }

  readOutput(microBatch: number): Promise<Reading> {
    return this.#readMade('output', microBatch, this.#program.output);
  }

  readInputGradient(microBatch: number): Promise<Reading> {
    return this.#readMade('gradient', microBatch, STREAM);
  }

  readLoss(microBatch: number): Promise<Reading> {
    const rows = this.#rows(microBatch);
    const source = this.#buffers.get(`${this.#slot(microBatch)}/loss`);
    return this.#lossReadbacks.read([{ source, at: 0, length: rows }], this.proof);
  }

  readGradient(block: BlockName, ranges: readonly Range[], unit?: number): Promise<Reading> {
    const runs = ranges.flatMap((range) =>
      unit === undefined
        ? this.#runs('gradients', block, range)
        : (this.#units?.gradientRuns(unit, block, range) ?? []),
    );
    return this.#readbacks.read(runs, this.proof);
  }

  writeGradient(block: BlockName, range: Range, sums: Float32Array): void {
    writeRange(this.#gpu.device, this.#arena(block), this.gradientsBuffer(block), range, sums);
  }

  packGradient(block: BlockName, range: Range): Promise<Reading> {
    const place = { buffer: this.gradientsBuffer(block), arena: this.#arena(block) };
    return this.#readbacks.read([this.#coded.pack(place, range)], this.proof);
  }

  addValues(block: BlockName, range: Range, codes: Float32Array): void {
    this.#coded.add({ buffer: this.valuesBuffer(block), arena: this.#arena(block) }, range, codes);
  }

  get #coded(): StageCodec {
    invariant(this.#codec, 'this stage is not made for codes');
    return this.#codec;
  }

  readValues(block: BlockName, range: Range): Promise<Reading> {
    if (this.#compute === 'f16') {
      const segments = segmentsIn(this.#arena(block), range);
      return readHalves(this.#readbacks, this.valuesBuffer(block), segments, range);
    }
    return this.#readbacks.read(this.#runs('values', block, range));
  }

  writeValues(block: BlockName, range: Range, values: Float32Array): void {
    this.#write(valuesName(block), this.#arena(block), range, values);
  }

  writeStanding(block: BlockName, range: Range, values: Float32Array): void {
    for (const { name, arena } of got(this.#standing, block)) this.#write(name, arena, range, values);
  }

  #write(name: string, arena: Arena, range: Range, values: Float32Array): void {
    const writer = this.#writers.get(name);
    if (writer) writer.write(segmentsIn(arena, range), range[0], values);
    else writeRange(this.#gpu.device, arena, this.#buffers.get(name), range, values);
  }

  free(microBatch: number): void {
    this.#taken.delete(this.#slotOf.get(microBatch) ?? -1);
  }

  settled(): Promise<void> {
    return queueDone(this.#gpu.device);
  }

  /** That all of its work was done. */
  get proof(): Proof {
    invariant(this.#passes, 'a stage is compiled before it works');
    return this.#passes.proof;
  }

  /** For the shards of the same device, which update and add in place. */
  valuesBuffer(block: BlockName): GPUBuffer {
    return this.#buffers.get(valuesName(block));
  }
  weightsOf(block: BlockName, stands: boolean): TensorHome[] {
    if (!stands) return [{ arena: this.#arena(block), buffer: this.valuesBuffer(block) }];
    return got(this.#standing, block).map((part) => ({ ...part, buffer: this.#buffers.get(part.name) }));
  }
  gradientsBuffer(block: BlockName): GPUBuffer {
    return this.#buffers.get(`gradients/${block}`);
  }
  arena(block: BlockName): Arena {
    return this.#arena(block);
  }

  /** What this micro-batch launches, pass by pass. */
  launchesOf(microBatch: number): Pick<Launches, 'forward' | 'recompute' | 'backward'> {
    return this.#launched(microBatch);
  }

  close(): void {
    if (this.#compiled) closeCompiled(this.#compiled);
    this.#compiled = null;
    this.#passes?.close();
    this.#codec?.close();
    for (const writer of this.#writers.values()) if (writer instanceof HalfWriter) writer.close();
    this.#units?.close();
    this.#buffers.close();
  }

  /** Floats of a stage that keeps floats are read where they are. */
  #packingOf({ packing }: Launches, encoding: WireEncoding | undefined, part: keyof Packing): readonly Launch[] {
    return (encoding && packing.get(encoding)?.[part]) ?? [];
  }

  #readMade(what: 'output' | 'gradient', microBatch: number, name: string): Promise<Reading> {
    const made = this.#made;
    invariant(made?.what === what && made.microBatch === microBatch, `the newest work made no ${what} to be read`);
    const isPacked = this.#launched(microBatch).packing.has(made.encoding);
    invariant(isPacked || made.encoding === 'f32', `this stage is not made for ${made.encoding}`);
    const source = isPacked ? this.#buffers.get(WIRE) : this.#bufferOf(microBatch, name);
    const elements = this.#rows(microBatch) * this.#model.width;
    const length = isPacked ? packedWords(made.encoding, elements) : elements;
    return this.#readbacks.read([{ source, at: 0, length }], this.proof);
  }

  /** By which the gradient that is packed next is drawn. */
  #writeKey(microBatch: number): void {
    this.#gpu.device.queue.writeBuffer(this.#buffers.get(WIRE_KEY), 0, Uint32Array.of(int4Key(this.#step, microBatch)));
  }

  #submit(label: string, launches: readonly Launch[]): void {
    invariant(this.#passes, 'a stage is compiled before it works');
    this.#passes.submit(label, launches);
  }

  /** What never changes: the tables of the rotary positions, and which rows of pairs have the adapter. */
  #writeTables(): void {
    const { samples, sequence } = this.#plan.size;
    const adapted = (row: number): number => (row % sequence < sequence / 2 ? 1 : 0);
    if (this.#model.beta !== undefined) {
      const rows = Float32Array.from({ length: samples * sequence }, (_, row) => adapted(row));
      this.#gpu.device.queue.writeBuffer(this.#buffers.get(PAIRS.adapted), 0, rows);
    }
    for (const { turns } of rotaryTables(this.#program)) {
      const table = rotaryTable(sequence, turns.frequencies);
      this.#gpu.device.queue.writeBuffer(this.#buffers.get(turns.name), 0, table);
    }
  }

  #runs(kind: 'values' | 'gradients', block: BlockName, range: Range): Run[] {
    const source = this.#buffers.get(`${kind}/${block}`);
    return segmentsIn(this.#arena(block), range).map(({ at, length }) => ({ source, at, length }));
  }

  /** Puts the stream where this stage reads it, in this order of the queue; what is launched for that. */
  #take(given: Stream | Neighbour, microBatch: number, what: 'input' | 'gradient', { packing }: Launches) {
    const target = this.#bufferOf(microBatch, what === 'input' ? INPUT : STREAM);
    if ('stage' in given) {
      invariant(given.stage instanceof GpuStage, 'a stage of this device');
      given.stage.#copyTo(target, microBatch, what);
      return [];
    }
    const known = packing.get(given.encoding);
    if (known) return this.#arrived(given, what === 'input' ? known.unpackInput : known.unpackGradient);
    this.#gpu.device.queue.writeBuffer(target, 0, this.#floats(given));
    return [];
  }

  /** What it has of a micro-batch, for the stage after or before it. */
  #copyTo(target: GPUBuffer, microBatch: number, what: 'input' | 'gradient'): void {
    invariant(!this.#program.scratch.has(STREAM), 'a stage beside others of its peer keeps what it made');
    const source = this.#bufferOf(microBatch, what === 'input' ? this.#program.output : STREAM);
    const bytes = wholeWords(this.#rows(microBatch) * this.#model.width * ELEMENT_BYTES[this.#compute]);
    const encoder = this.#gpu.device.createCommandEncoder({ label: `hand over ${what} ${microBatch}` });
    encoder.copyBufferToBuffer(source, 0, target, 0, bytes);
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  /** Puts what another peer packed where `unpack` reads it, in this order of the queue. */
  #arrived({ words }: Stream, unpack: readonly Launch[]): readonly Launch[] {
    this.#gpu.device.queue.writeBuffer(this.#buffers.get(WIRE), 0, words);
    return unpack;
  }

  #floats({ encoding, words }: Stream): Float32Array<ArrayBuffer> {
    invariant(encoding === 'f32', `this stage is not made for ${encoding}`);
    return words;
  }

  #rows(microBatch: number): number {
    return got(this.#samples, microBatch) * this.#plan.size.sequence;
  }

  /** Of an evaluation nothing is kept: one slot does for all. */
  #takeSlot(microBatch: number, evaluation: boolean): void {
    let slot = 0;
    while (!evaluation && (this.#taken.get(slot) ?? microBatch) !== microBatch) slot++;
    invariant(slot < this.#plan.size.slots, `no slot is free for micro-batch ${microBatch}`);
    if (!evaluation) this.#taken.set(slot, microBatch);
    this.#slotOf.set(microBatch, slot);
  }

  #slot(microBatch: number): string {
    const slot = this.#slotOf.get(microBatch);
    invariant(slot !== undefined, `micro-batch ${microBatch} has no slot`);
    return `slot${slot}`;
  }

  #bufferOf(microBatch: number, name: string): GPUBuffer {
    const { scratch, places } = this.#program;
    return this.#buffers.get(scratch.has(name) ? (places.get(name) ?? name) : `${this.#slot(microBatch)}/${name}`);
  }

  #launched(microBatch: number, unit?: number): Launches {
    const [samples, slot] = [this.#samples.get(microBatch), this.#slotOf.get(microBatch)];
    const isKnown = samples !== undefined && slot !== undefined;
    const found = isKnown ? this.#compiled?.launches.get(slotKey(samples, slot, unit)) : undefined;
    invariant(found, `micro-batch ${microBatch} has a size that was not planned`);
    return found;
  }

  #arena(block: BlockName): Arena {
    const found = this.#arenas.get(block);
    invariant(found, `this stage does not use ${block}`);
    return found;
  }
}
