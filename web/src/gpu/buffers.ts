/**
 * GPU memory of one owner (a stage, the shards of a peer): made once from the list that the plan's prediction uses,
 * looked up by name, destroyed together. And the readback pool: mapped buffers that go round.
 */
import { mapped } from '../../../shaders/kernel/queueWait.ts';
import { invariant } from '../../../swarm/base.ts';
import { type BufferSpec, NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import type { Reading } from '../executor/engine.ts';

const STORAGE = 0x80 | 0x04 | 0x08; // STORAGE | COPY_SRC | COPY_DST, spelled out: Node has no such global before Dawn is loaded
const READBACK = 0x01 | 0x08; // MAP_READ | COPY_DST

/** A binding is a whole number of words; an odd number of halves is followed by one that nobody reads. */
export const wholeWords = (bytes: number): number => Math.ceil(bytes / 4) * 4;

/** WebGPU would only say the number of bytes. */
function refuseOversized({ limits }: GPUDevice, owner: string, specs: readonly BufferSpec[]): void {
  const { maxBufferSize, maxStorageBufferBindingSize } = limits;
  for (const { name, bytes, use, boundBytes = bytes } of specs) {
    if (bytes > maxBufferSize)
      throw new NoRoom(
        `${owner}: ${name} needs a buffer of ${bytes} bytes, and this GPU allows at most ${maxBufferSize}`,
      );
    if (use === 'storage' && boundBytes > maxStorageBufferBindingSize) {
      throw new NoRoom(
        `${owner}: ${boundBytes} bytes of ${name} are bound at once, and this GPU binds at most ${maxStorageBufferBindingSize}`,
      );
    }
  }
}

export class BufferSet {
  readonly #buffers = new Map<string, GPUBuffer>();
  readonly bytes: number;

  constructor(device: GPUDevice, owner: string, specs: readonly BufferSpec[]) {
    refuseOversized(device, owner, specs);
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

/** A word behind the values of a reading, which must be what it is expected to be when the copy is submitted. */
export interface Proof {
  readonly source: GPUBuffer;
  readonly expected: () => number;
}

/**
 * Makes GPU objects; what WebGPU would say later and elsewhere, no memory or a wrong descriptor, rejects here by name.
 * `make` returns at once: error scopes are a stack, and nothing else may come between.
 */
export async function created<T>(device: GPUDevice, what: string, make: () => T): Promise<T> {
  device.pushErrorScope('out-of-memory');
  device.pushErrorScope('validation');
  const scopes = (): Promise<(GPUError | null)[]> => Promise.all([device.popErrorScope(), device.popErrorScope()]);
  let made: T;
  try {
    made = make();
  } catch (cause) {
    await scopes();
    throw cause;
  }
  const [invalid, memory] = await scopes();
  if (memory) throw new NoRoom(`no GPU memory for ${what}: ${memory.message}`, { cause: memory });
  if (invalid) throw new Error(`invalid GPU objects for ${what}: ${invalid.message}`, { cause: invalid });
  return made;
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

  /** Resolves when the copy stands in the queue: what is submitted later may overwrite the sources. */
  async read(runs: readonly Run[], ...proofs: readonly Proof[]): Promise<Reading> {
    const buffer = this.#free.pop() ?? (await new Promise<GPUBuffer>((resolve) => this.#waiting.push(resolve)));
    const encoder = this.#device.createCommandEncoder({ label: 'readback' });
    let floats = 0;
    for (const { source, at, length } of runs) {
      encoder.copyBufferToBuffer(source, at * 4, buffer, floats * 4, length * 4);
      floats += length;
    }
    proofs.forEach(({ source }, index) => {
      encoder.copyBufferToBuffer(source, 0, buffer, (floats + index) * 4, 4);
    });
    const expected = proofs.map((proof) => proof.expected());
    this.#device.queue.submit([encoder.finish()]);
    const sizeBytes = (floats + proofs.length) * 4;
    const ready = mapped(this.#device, buffer, sizeBytes);
    ready.catch(() => undefined); // seen by whoever takes the values; a closed stage takes none
    return {
      take: async (use) => {
        try {
          await ready;
          const bytes = buffer.getMappedRange(0, sizeBytes);
          new Uint32Array(bytes, floats * 4, expected.length).forEach((found, index) => {
            if (found !== expected[index])
              throw new Error(`the GPU did ${found} of ${expected[index]} passes: it drops work silently`);
          });
          return use(new Float32Array(bytes, 0, floats));
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
