/** A stage on whole numbers: what is submitted is computed at once, and takes its time in a simulated queue. */
import { arrayOf, at, got, invariant, type Range } from '../../../../swarm/base.ts';
import { type StageSize, unitsOf, wholeUses } from '../../../../swarm/memory/memory.ts';
import {
  type BlockName,
  type BlockUse,
  block as blockOf,
  blocksOfStage,
  layerBlock,
  type Model,
} from '../../../../swarm/model/model.ts';
import type { StageShape } from '../../../../swarm/planner/clusterCosts.ts';
import { againInBackward } from '../../../../swarm/schedule/recompute.ts';
import type { ForwardWork, Neighbour, Reading, Stage, Stream } from '../../executor/engine.ts';
import type { Device } from './device.ts';
import {
  added,
  embedded,
  embeddedBack,
  gradientAt,
  gradientOfUse,
  headBack,
  headRows,
  layer,
  layerBack,
  lossOf,
  noCodes,
  type Sums,
  type Values,
} from './integers.ts';
import type { WorkPace } from './pace.ts';

/** What a stage has of a micro-batch between its forward and its backward. */
interface InFlight {
  readonly microBatch: number;
  readonly samples: number;
  readonly ids: Uint32Array;
  readonly targets: Uint32Array;
  readonly inputs: Values[];
  z_N: readonly number[];
  /** What goes from one part of the stage to the next, there and back. */
  x: Values;
  d: Values;
  /** Where the head's backward ran with its forward, the gradient of what it was given. */
  headGradient: Values | null;
}

/** A unit that is gathered, while it is there. */
interface Gathered {
  readonly unit: number;
  readonly values: ReadonlyMap<BlockName, Values>;
}

const NO_TOKENS = new Uint32Array();
const NO_LAYERS: StageShape = { first: false, last: false, layers: 0 };

export class ExactStage implements Stage {
  readonly bytes = 1;
  readonly packGradient = noCodes;
  readonly addValues = noCodes;
  /** Of blocks that are not gathered. */
  readonly values: ReadonlyMap<BlockName, Values>;
  readonly units: readonly (readonly BlockUse[])[] | undefined;
  readonly blocks: readonly BlockName[];
  readonly #device: Device;
  readonly #model: Model;
  readonly #size: StageSize;
  readonly #pace: WorkPace;
  readonly #slotOf = new Map<number, number>();
  readonly #taken = new Set<number>();
  readonly #slots = new Map<number, InFlight>();
  #forwarded: InFlight | null = null;
  /** The micro-batch that was computed again. */
  #again: number | null = null;
  readonly #sums = new Map<string, Sums>();
  /** By place: a unit that comes makes the one go that was there. */
  readonly #there = new Map<number, Gathered>();
  /** What lies in each slot for the stage after and the one before, until another micro-batch takes it. */
  readonly #left = new Map<number, { readonly microBatch: number; readonly words: Values }>();
  #output: Values = new Float32Array();
  #inputGradient: Values = new Float32Array();

  constructor(device: Device, model: Model, size: StageSize, pace: WorkPace) {
    this.#device = device;
    this.#pace = pace;
    this.#model = model;
    this.#size = size;
    const { layers, gathered } = size;
    this.units = gathered ? unitsOf(model, layers, layers[0] === 0) : undefined;
    const uses = gathered ? wholeUses(model, layers) : blocksOfStage(model, layers);
    this.blocks = this.units ? [] : this.#partsOf(undefined);
    this.values = new Map(uses.map(({ block }) => [block, this.#unknown(block)]));
  }

  begin(): void {
    this.#sums.clear();
    this.#slots.clear();
    this.#taken.clear();
  }

  writeUnit(unit: number, name: BlockName, [from]: Range, values: Float32Array): void {
    const place = unit % (this.#size.gathered ?? 1);
    const known = this.#there.get(place);
    const there = known?.unit === unit ? known : { unit, values: this.#unknownUnit(unit) };
    this.#there.set(place, there);
    got(there.values, name).set(values, from);
  }

  clearUnit(unit: number): void {
    for (const { block: name } of at(this.units ?? [], unit)) this.#sums.delete(this.#sumName(name, unit));
  }

  forward({ microBatch, samples, input, tokens, evaluation }: ForwardWork, unit?: number): void {
    const { layers, sequence } = this.#size;
    if (unit === undefined || unit === 0) {
      this.#takeSlot(microBatch, evaluation);
      if (!this.#size.recomputesAhead) this.#again = null;
      const { ids = NO_TOKENS, targets = NO_TOKENS } = tokens ?? {};
      const nothing: Values = new Float32Array();
      const flying = { inputs: [], z_N: [], x: nothing, d: nothing, headGradient: null };
      this.#forwarded = { microBatch, samples, ids, targets, ...flying };
      const slot = got(this.#slotOf, microBatch);
      invariant(evaluation || !this.#slots.has(slot), `slot ${slot} is taken`);
      if (!evaluation) this.#slots.set(slot, this.#forwarded);
      if (layers[0] > 0) this.#forwarded.x = this.#wordsOf(input, microBatch).slice();
    }
    const own = this.#entered(microBatch);
    for (const name of this.#partsOf(unit)) {
      if (name === 'embedding') own.x = embedded(this.#model, this.#values(name, unit), own.ids, sequence);
      else if (name === 'head') this.#headForward(own, unit, evaluation);
      else {
        invariant(own.x.length === samples * sequence * this.#model.width, 'an input has a row for each position');
        own.inputs.push(own.x);
        own.x = layer(this.#values(name, unit), own.x);
      }
    }
    this.#output = own.x;
    this.#leave(microBatch, own.x);
    this.#device.submit(this.#pace.forwardMs(this.#shapeOf(unit), samples));
  }

  /** The newest, or one that waits for its backward. */
  #entered(microBatch: number): InFlight {
    const newest = this.#forwarded;
    const own = newest?.microBatch === microBatch ? newest : this.#slots.get(got(this.#slotOf, microBatch));
    invariant(own?.microBatch === microBatch, `micro-batch ${microBatch} has entered`);
    return own;
  }

  #headForward(own: InFlight, unit: number | undefined, evaluation: boolean): void {
    own.z_N = headRows(this.#model, this.#values('embedding', unit), this.#values('head', unit), own.x, own.targets);
    // What is gathered goes again: its gradient is made while it is there.
    if (this.units && !evaluation) own.headGradient = this.#headBackward(own);
  }

  #headBackward({ z_N, targets }: InFlight): Values {
    return headBack(this.#model, z_N, targets, this.#sumsOf('table'), this.#sumsOf('head'));
  }

  recompute(microBatch: number): void {
    this.#again = microBatch;
    const { samples } = got(this.#slots, got(this.#slotOf, microBatch));
    this.#device.submit(this.#pace.recomputeMs(this.#size, samples));
  }

  backward(microBatch: number, gradient: Stream | Neighbour | null, _?: unknown, unit?: number): void {
    const { layers, recompute = [] } = this.#size;
    const slot = got(this.#slotOf, microBatch);
    const kept = got(this.#slots, slot);
    invariant(kept.microBatch === microBatch, `slot ${slot} is of micro-batch ${kept.microBatch}`);
    const isRecomputed = unit !== undefined || recompute.length === 0 || this.#again === microBatch;
    invariant(isRecomputed, `micro-batch ${microBatch} is computed again before its backward`);
    this.#again = null;
    // Only a pass's first unit is given something.
    if (gradient) kept.d = this.#wordsOf(gradient, microBatch).slice();
    const parts = this.#partsOf(unit);
    for (const name of parts.toReversed()) {
      if (name === 'head') kept.d = this.#headBackward(kept);
      else if (name === 'embedding') embeddedBack(kept.ids, kept.d, this.#model.width, this.#sumsOf(name));
      else {
        const index = Number(name.slice('layer.'.length));
        if (index === layers[1] - 1 && kept.headGradient) kept.d = kept.headGradient;
        const x = at(kept.inputs, index - layers[0]);
        kept.d = layerBack(this.#values(name, unit), x, kept.d, this.#sumsOf(name));
      }
    }
    if (unit === undefined || unit === 0) {
      this.#slots.delete(slot);
      this.#inputGradient = kept.d;
      this.#leave(microBatch, kept.d);
    }
    const again =
      unit === undefined
        ? againInBackward(recompute)
        : recompute.filter((index) => parts.includes(layerBlock(index))).length;
    this.#device.submit(this.#pace.backwardMs(this.#shapeOf(unit), kept.samples, again));
  }

  async readOutput(): Promise<Reading> {
    return this.#device.read(this.#output);
  }

  async readInputGradient(): Promise<Reading> {
    return this.#device.read(this.#inputGradient);
  }

  async readLoss(microBatch: number): Promise<Reading> {
    return this.#device.read(Float32Array.from(this.#entered(microBatch).z_N, lossOf));
  }

  async readGradient(name: BlockName, ranges: readonly Range[], unit?: number): Promise<Reading> {
    const parts = ranges.map((range) => this.gradient(name, range, unit));
    return this.#device.read(Float32Array.from(parts.flatMap((part) => [...part])));
  }

  /** Nobody lies here. */
  writeGradient(): never {
    throw new Error('sums are made, never written');
  }

  gradient(name: BlockName, [from, to]: Range, unit?: number): Values {
    const { width, vocabulary } = this.#model;
    const values = this.#values(name, unit);
    const own = unit === undefined ? this.#sums.get(name) : this.#sums.get(this.#sumName(name, unit));
    // Where it is gathered again for the head its sums are the head's.
    const use = own === this.#sums.get('table') ? 'head' : name;
    const table = name === 'embedding' && unit === undefined ? this.#sums.get('table') : undefined;
    return Float32Array.from({ length: to - from }, (_, offset) => {
      const index = from + offset;
      const value = at(values, index);
      const first = own ? gradientOfUse(this.#model, use, own, index, value) : 0;
      return table && index < vocabulary * width ? added(first, gradientAt(table, index, value)) : first;
    });
  }

  writeValues(name: BlockName, range: Range, values: Float32Array): void {
    got(this.values, name).set(values, range[0]);
  }

  writeStanding(): void {
    throw new Error('no weights of whole numbers stand');
  }

  async readValues(name: BlockName, range: Range): Promise<Reading> {
    return this.#device.read(got(this.values, name).slice(...range));
  }

  free(microBatch: number): void {
    invariant(this.#taken.delete(got(this.#slotOf, microBatch)), `the slot of ${microBatch} is free already`);
  }

  settled(): Promise<void> {
    return this.#device.settled();
  }

  close(): void {}

  #takeSlot(microBatch: number, evaluation: boolean): void {
    let slot = 0;
    while (!evaluation && this.#taken.has(slot)) slot++;
    invariant(slot < this.#size.slots, `no slot is free for micro-batch ${microBatch}`);
    if (!evaluation) this.#taken.add(slot);
    this.#slotOf.set(microBatch, slot);
  }

  #leave(microBatch: number, words: Values): void {
    this.#left.set(got(this.#slotOf, microBatch), { microBatch, words });
  }

  #wordsOf(given: Stream | Neighbour | null, microBatch: number): Values {
    if (given === null) return new Float32Array();
    if (!('stage' in given)) return given.words;
    invariant(given.stage instanceof ExactStage, 'a stage of this engine');
    const left = given.stage.#left.get(got(given.stage.#slotOf, microBatch));
    invariant(left?.microBatch === microBatch, `what was left of micro-batch ${microBatch} lies there no more`);
    return left.words;
  }

  /** In the order of the forward: what is computed of the whole stage, or of one unit. */
  #partsOf(unit: number | undefined): BlockName[] {
    const { layers } = this.#size;
    if (unit !== undefined) return [this.units ? at(at(this.units, unit), 0).block : at(this.blocks, unit)];
    return [
      ...(layers[0] === 0 ? (['embedding'] as const) : []),
      ...arrayOf(layers[1] - layers[0], (index) => layerBlock(layers[0] + index)),
      ...(layers[1] === this.#model.layers ? (['head'] as const) : []),
    ];
  }

  #shapeOf(unit: number | undefined): StageShape {
    const parts = this.#partsOf(unit);
    const layers = parts.filter((name) => name !== 'embedding' && name !== 'head').length;
    return { ...NO_LAYERS, first: parts.includes('embedding'), last: parts.includes('head'), layers };
  }

  /** Of a unit that is there, or of the whole stage. */
  #values(name: BlockName, unit: number | undefined): Values {
    const whole = this.values.get(name);
    if (whole) return whole;
    const there = this.#there.get((unit ?? 0) % (this.#size.gathered ?? 1));
    // Nobody gathers the embedding for its backward.
    return (there?.unit === unit && there?.values.get(name)) || this.#unknown(name);
  }

  #unknown(name: BlockName): Values {
    return new Float32Array(blockOf(this.#model, name).elements).fill(Number.NaN);
  }

  #unknownUnit(unit: number): ReadonlyMap<BlockName, Values> {
    return new Map(at(this.units ?? [], unit).map(({ block: name }) => [name, this.#unknown(name)]));
  }

  /** The head's part of a tied table is added up apart. */
  #sumName(name: BlockName, unit: number): string {
    const [first] = at(this.units ?? [], unit);
    return name === 'embedding' && first?.block === 'head' ? 'table' : name;
  }

  #sumsOf(name: string): Sums {
    const known = this.#sums.get(name) ?? { s: 0, u: 0 };
    this.#sums.set(name, known);
    return known;
  }
}
