/** The blocks of a stage that gathers: where each unit's values come to, and its gradients lie until the next one has its place. */
import { at, got, invariant, type Range } from '../../../swarm/base.ts';
import { WIRE } from '../../../swarm/memory/memory.ts';
import { segmentsIn } from '../../../swarm/model/layout.ts';
import type { BlockName, BlockUse, Model } from '../../../swarm/model/model.ts';
import type { BufferSet, Run } from './buffers.ts';
import type { Gpu } from './device.ts';
import { HalfWriter } from './halves.ts';
import { type Home, type StagePlan, unitHomes, unitsIn } from './stageCalls.ts';
import { writeRange } from './writeRange.ts';

export class StageUnits {
  /** In the order of the forward. */
  readonly uses: readonly (readonly BlockUse[])[];
  readonly #gpu: Gpu;
  readonly #buffers: BufferSet;
  readonly #homes: readonly ReadonlyMap<BlockName, Home>[];
  /** By buffer, where values come in as floats and are kept as halves. */
  readonly #writers = new Map<string, HalfWriter>();

  constructor(gpu: Gpu, model: Model, plan: StagePlan, buffers: BufferSet) {
    this.uses = unitsIn({ model, plan });
    this.#gpu = gpu;
    this.#buffers = buffers;
    this.#homes = Array.from(this.uses.keys(), (unit) => unitHomes({ model, plan }, unit));
  }

  async writeHalves(): Promise<void> {
    for (const { name } of this.#homes.flatMap((homes) => [...homes.values()])) {
      if (this.#writers.has(name)) continue;
      const writer = await HalfWriter.create(this.#gpu, this.#buffers.get(WIRE), this.#buffers.get(`values/${name}`));
      this.#writers.set(name, writer);
    }
  }

  write(unit: number, block: BlockName, range: Range, values: Float32Array): void {
    const { name, arena } = this.#home(unit, block);
    const writer = this.#writers.get(name);
    if (writer) writer.write(segmentsIn(arena, range), range[0], values);
    else writeRange(this.#gpu.device, arena, this.#buffers.get(`values/${name}`), range, values);
  }

  clear(unit: number): void {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'clear gradients' });
    const [home] = at(this.#homes, unit).values();
    if (home) encoder.clearBuffer(this.#buffers.get(`gradients/${home.name}`));
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  gradientRuns(unit: number, block: BlockName, range: Range): Run[] {
    const { name, arena } = this.#home(unit, block);
    const source = this.#buffers.get(`gradients/${name}`);
    return segmentsIn(arena, range).map(({ at, length }) => ({ source, at, length }));
  }

  close(): void {
    for (const writer of this.#writers.values()) writer.close();
  }

  #home(unit: number, block: BlockName): Home {
    invariant(unit < this.#homes.length, `this stage has no unit ${unit}`);
    return got(at(this.#homes, unit), block);
  }
}
