/**
 * The weights of a stage that computes with halves, on their way in and out. Floats come to the stage's `wire` buffer
 * and are copied from there to their place by a kernel, since a range may begin at any element, and WebGPU writes whole
 * words only. On the way out whole words are read, and what is more than the range is left away.
 */
import { copyIn } from '../../../shaders/arrays/copy.ts';
import { inHalves } from '../../../shaders/kernel/inHalves.ts';
import { closeLaunch, createLaunch, encodeLaunch, type Launch, resized } from '../../../shaders/kernel/launch.ts';
import type { Variant } from '../../../shaders/kernel/text.ts';
import { at, outside, type Range } from '../../../swarm/base.ts';
import type { Segment } from '../../../swarm/model/layout.ts';
import { halfValue } from '../../../swarm/wire.ts';
import type { Reading } from '../executor/engine.ts';
import { created, type ReadbackPool, type Run } from './buffers.ts';
import type { Gpu } from './device.ts';
import type { KernelCall } from './kernelCall.ts';
import { parts, windowOf } from './windows.ts';

const kernel = inHalves(copyIn);
/** Of single elements, so that any range can be written. */
const ANY = { n: 1, offset: 1 };
/** What a writer compiles. */
export const WRITES_HALVES: KernelCall = { kernel, dims: ANY, buffers: {}, label: kernel.name };

interface HalfLaunches {
  readonly launches: readonly Launch[];
  readonly partHalves: number;
}

export class HalfWriter {
  readonly #device: GPUDevice;
  readonly #staging: GPUBuffer;
  /** One for each part of the target that the device binds, of so many halves. */
  readonly #launches: readonly Launch[];
  readonly #partHalves: number;

  private constructor(device: GPUDevice, staging: GPUBuffer, { launches, partHalves }: HalfLaunches) {
    this.#device = device;
    this.#staging = staging;
    this.#launches = launches;
    this.#partHalves = partHalves;
  }

  static async create(
    { device, family, pipelines, bindingBytes }: Gpu,
    staging: GPUBuffer,
    target: GPUBuffer,
  ): Promise<HalfWriter> {
    const variant: Variant = { family, inBoxes: false };
    const pipeline = await pipelines.get(kernel, ANY, variant);
    const launches: Launch[] = [];
    const cut = parts(target.size / 2, bindingBytes, 2);
    for (const { from, length } of cut) {
      const buffers = { x: { buffer: staging }, y: windowOf(target, { at: from, length }, bindingBytes, 2).slice };
      const request = { device, pipeline, kernel, variant, buffers, dims: ANY, label: target.label };
      launches.push(await created(device, 'the writer of halves', () => createLaunch(request)));
    }
    return new HalfWriter(device, staging, { launches, partHalves: cut[0]?.length ?? 0 });
  }

  /** Puts `values`, which begin at element `first` of a block, where these segments lie. */
  write(segments: readonly Segment[], first: number, values: Float32Array): void {
    const most = this.#staging.size / 4;
    for (const { from, at, length } of segments) {
      for (let done = 0, n = 0; done < length; done += n) {
        const inPart = (at + done) % this.#partHalves;
        n = Math.min(most, length - done, this.#partHalves - inPart);
        const start = from - first + done;
        const part = Math.floor((at + done) / this.#partHalves);
        this.#writePart(part, inPart, values.subarray(start, start + n) as Float32Array<ArrayBuffer>);
      }
    }
  }

  #writePart(part: number, offset: number, values: Float32Array<ArrayBuffer>): void {
    const n = values.length;
    const launch = resized(this.#device, at(this.#launches, part), { n, offset });
    this.#device.queue.writeBuffer(this.#staging, 0, values);
    const encoder = this.#device.createCommandEncoder({ label: 'values' });
    const pass = encoder.beginComputePass({ label: 'values' });
    encodeLaunch(pass, launch);
    pass.end();
    this.#device.queue.submit([encoder.finish()]);
  }

  close(): void {
    this.#launches.forEach(closeLaunch);
  }
}

/** A range of a block out of halves, as floats without gaps. */
export async function readHalves(
  pool: ReadbackPool,
  source: GPUBuffer,
  segments: readonly Segment[],
  [from, to]: Range,
): Promise<Reading> {
  const words = segments.map(({ at, length }): Run => {
    const first = Math.floor(at / 2);
    return { source, at: first, length: Math.ceil((at + length) / 2) - first };
  });
  const reading = await pool.read(words);
  return {
    take: (use) =>
      reading.take((read) => {
        const halves = new Uint16Array(read.buffer, read.byteOffset, 2 * read.length);
        const values = new Float32Array(to - from);
        let word = 0;
        segments.forEach(({ at: place, length, from: start }, index) => {
          const begin = 2 * word + (place % 2);
          for (let i = 0; i < length; i++)
            values[start - from + i] = halfValue(halves[begin + i] ?? outside(halves, begin + i));
          word += at(words, index).length;
        });
        return use(values);
      }),
  };
}
