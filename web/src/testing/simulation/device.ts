/** The GPU of a simulated tab: a queue whose work takes time, in order. What hangs never ends. */
import type { Reading } from '../../executor/engine.ts';
import type { Process } from './machine.ts';

const COMPILING_MS = 150;

export class Device {
  hangs = false;
  readonly #process: Process;
  #freeMs = 0;

  constructor(process: Process) {
    this.#process = process;
  }

  submit(ms: number): void {
    const { agenda, slowness } = this.#process.machine;
    this.#freeMs = Math.max(this.#freeMs, agenda.nowMs) + ms * slowness;
  }

  settled(): Promise<void> {
    if (this.hangs) return new Promise(() => {});
    const leftMs = this.#freeMs - this.#process.machine.agenda.nowMs;
    return leftMs <= 0 ? Promise.resolve() : this.#process.wait(leftMs);
  }

  /** Work of the processor, beside the queue. */
  works(ms: number): Promise<void> {
    return ms > 0 ? this.#process.wait(ms * this.#process.machine.slowness) : Promise.resolve();
  }

  /** These values, once the queue has come to them. */
  read(values: Float32Array<ArrayBuffer>): Reading {
    const copy = values.slice();
    const there = this.settled();
    return { take: async (use) => use(await there.then(() => copy)) };
  }

  compiles(): Promise<void> {
    return this.hangs ? new Promise(() => {}) : this.#process.wait(COMPILING_MS * this.#process.machine.slowness);
  }
}
