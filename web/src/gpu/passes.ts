/**
 * How an owner of GPU memory has work done: in one compute pass and one submit, or as few as a watchdog allows. Each pass
 * ends with a dispatch that counts it on the GPU, so that whoever reads values afterwards has the proof that they were
 * made: a driver that is out of memory may drop a submit without a word.
 */
import { countPass } from '../../../shaders/arrays/countPass.ts';
import { closeLaunch, createLaunch, encodeLaunch, type Launch } from '../../../shaders/kernel/launch.ts';
import { submitsOf } from '../../../shaders/kernel/watchdog.ts';
import { created, type Proof } from './buffers.ts';
import type { Gpu } from './device.ts';

export class Passes {
  readonly proof: Proof;
  readonly #device: GPUDevice;
  readonly #count: Launch;
  #submitted = 0;

  private constructor(device: GPUDevice, counter: GPUBuffer, count: Launch) {
    this.#device = device;
    this.#count = count;
    this.proof = { source: counter, expected: () => this.#submitted };
  }

  /** `counter`: a new buffer of one word. */
  static async create({ device, family, pipelines }: Gpu, counter: GPUBuffer): Promise<Passes> {
    const variant = { family, inBoxes: false };
    const pipeline = await pipelines.get(countPass, {}, variant);
    const buffers = { passes: { buffer: counter } };
    const request = { device, pipeline, kernel: countPass, variant, buffers, dims: {}, label: 'pass' };
    return new Passes(device, counter, await created(device, 'a counter of passes', () => createLaunch(request)));
  }

  submit(label: string, launches: readonly Launch[]): void {
    this.#submitted++;
    const submits = submitsOf(launches);
    submits.forEach((pieces, index) => {
      const encoder = this.#device.createCommandEncoder({ label });
      const pass = encoder.beginComputePass({ label });
      for (const { launch, from, to } of pieces) encodeLaunch(pass, launch, from, to);
      if (index === submits.length - 1) encodeLaunch(pass, this.#count);
      pass.end();
      this.#device.queue.submit([encoder.finish()]);
    });
  }

  close(): void {
    closeLaunch(this.#count);
  }
}
