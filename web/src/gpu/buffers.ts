/**
 * GPU memory of one owner (a stage, the shards of a peer): made once from the list that the plan's prediction uses,
 * looked up by name, destroyed together. And the readback pool: mapped buffers that go round.
 */
import { encodeLaunch, type Launch } from '../../../shaders/launch.ts';
import { invariant } from '../../../swarm/base.ts';
import type { BufferSpec } from '../../../swarm/memory.ts';
import type { Reading } from '../executor/engine.ts';

const STORAGE = 0x80 | 0x04 | 0x08; // STORAGE | COPY_SRC | COPY_DST, spelled out: Node has no such global before Dawn is loaded
const READBACK = 0x01 | 0x08; // MAP_READ | COPY_DST

export class BufferSet {
  readonly #buffers = new Map<string, GPUBuffer>();
  readonly bytes: number;

  constructor(device: GPUDevice, owner: string, specs: readonly BufferSpec[]) {
    for (const { name, bytes, use } of specs) {
      const usage = use === 'storage' ? STORAGE : READBACK;
      this.#buffers.set(name, device.createBuffer({ label: `${owner} ${name}`, size: bytes, usage }));
    }
    this.bytes = specs.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get(name: string): GPUBuffer {
    const buffer = this.#buffers.get(name);
    invariant(buffer, `no buffer ${name}`);
    return buffer;
  }

  /** All buffers whose names begin so, in the order of their making. */
  startingWith(prefix: string): GPUBuffer[] {
    return [...this.#buffers].filter(([name]) => name.startsWith(prefix)).map(([, buffer]) => buffer);
  }

  close(): void {
    for (const buffer of this.#buffers.values()) buffer.destroy();
    this.#buffers.clear();
  }
}

/** A run of floats to bring back from the GPU; runs of one reading lie one after the other. */
export interface Run {
  readonly source: GPUBuffer;
  /** Floats. */
  readonly at: number;
  readonly length: number;
}

/** Mapped buffers that go round: a reading waits, first come first served, until one is free. */
export class ReadbackPool {
  readonly #device: GPUDevice;
  readonly #free: GPUBuffer[];
  readonly #waiting: ((buffer: GPUBuffer) => void)[] = [];

  constructor(device: GPUDevice, buffers: readonly GPUBuffer[]) {
    this.#device = device;
    this.#free = [...buffers];
  }

  /**
   * Resolves when the copy stands in the queue: what is submitted later may overwrite the sources. `before` runs right
   * before the copy, once there is a buffer for it.
   */
  async read(runs: readonly Run[], before: readonly Launch[] = []): Promise<Reading> {
    const buffer = this.#free.pop() ?? (await new Promise<GPUBuffer>((resolve) => this.#waiting.push(resolve)));
    const encoder = this.#device.createCommandEncoder({ label: 'readback' });
    if (before.length > 0) {
      const pass = encoder.beginComputePass({ label: 'pack' });
      for (const launch of before) encodeLaunch(pass, launch);
      pass.end();
    }
    let floats = 0;
    for (const { source, at, length } of runs) {
      encoder.copyBufferToBuffer(source, at * 4, buffer, floats * 4, length * 4);
      floats += length;
    }
    this.#device.queue.submit([encoder.finish()]);
    const mapped = buffer.mapAsync(GPUMapMode.READ, 0, floats * 4);
    mapped.catch(() => undefined); // seen by whoever takes the values; a closed stage takes none
    return {
      take: async (use) => {
        try {
          await mapped;
          return use(new Float32Array(buffer.getMappedRange(0, floats * 4)));
        } finally {
          if (buffer.mapState === 'mapped') buffer.unmap();
          this.#release(buffer);
        }
      },
    };
  }

  #release(buffer: GPUBuffer): void {
    const next = this.#waiting.shift();
    if (next) next(buffer);
    else this.#free.push(buffer);
  }
}
