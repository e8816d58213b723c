/**
 * How much GPU memory can really be had: tried in pieces that double the sum, each written once, all of them freed at the
 * end. What the run at hand needs is tried whatever it takes. Beyond that, which only tells what larger runs could have
 * here, it ends at the first error, at the first piece that is much slower (a driver that moves buffers to the system's
 * memory says nothing else), and when enough time has gone: nobody waits for it to join.
 */
import { queueDone } from '../../../shaders/kernel/queueWait.ts';

/** Nobody who gave no limit is tried for more, unless the run at hand needs it. */
const MOST_UNASKED_BYTES = 2 * 2 ** 30;
/** Nor for more than this, though the run at hand needs it. */
const MOST_NEEDED_BYTES = 8 * 2 ** 30;
/** Of the machine's memory, on an adapter that has no other: several donors may be on it. */
const SOFTWARE_SHARE = 1 / 8;
/** Where a browser does not say what its machine has. */
const UNKNOWN_MACHINE_BYTES = 4 * 2 ** 30;
const FIRST_BYTES = 16 * 2 ** 20;
const BUFFER_BYTES = 256 * 2 ** 20;
/** For all that the run at hand does not need. */
const BUDGET_SECONDS = 0.5;
/** A piece is slow where a byte of it takes so many times what it took at best, */
const SLOW_TIMES = 4;
/** and where it takes long enough for that to be no chance. */
const LEAST_SLOW_SECONDS = 0.05;

/** What was found, and how far it was tried. */
export interface TriedMemory {
  readonly memoryBytes: number;
  readonly memoryTriedBytes: number;
}

interface MemoryWishes {
  /** By the run at hand, of a donor alone. */
  readonly neededBytes: number;
  /** By the largest run that was drafted or may be. */
  readonly draftedBytes: number;
  /** The most that the donor gives; null: it did not say. */
  readonly limitBytes: number | null;
  /** The adapter's memory is the machine's. */
  readonly software: boolean;
  /** As the browser says it. */
  readonly machineGibibytes: number | undefined;
}

export function bytesToTry({
  neededBytes,
  draftedBytes,
  limitBytes,
  software,
  machineGibibytes,
}: MemoryWishes): number {
  const unasked = Math.max(Math.min(neededBytes, MOST_NEEDED_BYTES), Math.min(draftedBytes, MOST_UNASKED_BYTES));
  const machineBytes = machineGibibytes === undefined ? UNKNOWN_MACHINE_BYTES : machineGibibytes * 2 ** 30;
  const most = software ? SOFTWARE_SHARE * machineBytes : Number.POSITIVE_INFINITY;
  return Math.floor(Math.min(limitBytes ?? unasked, most));
}

/** The bytes that could be had. Nothing else may be computed meanwhile; `now` in seconds. */
export async function probeMemory(
  device: GPUDevice,
  triedBytes: number,
  neededBytes: number,
  now: () => number,
): Promise<number> {
  const buffers: GPUBuffer[] = [];
  let had = 0;
  let best: number | null = null; // seconds a byte
  let leftSeconds = BUDGET_SECONDS;
  while (had < triedBytes) {
    const isNeeded = had < neededBytes;
    const end = isNeeded ? Math.min(neededBytes, triedBytes) : triedBytes;
    const bytes = Math.min(Math.max(FIRST_BYTES, had), end - had);
    if (!isNeeded && best !== null && best * bytes > leftSeconds) break;
    const begun = now();
    if (!(await hasRoom(device, bytes, buffers))) break;
    const seconds = now() - begun;
    if (!isNeeded) {
      leftSeconds -= seconds;
      if (best !== null && seconds > LEAST_SLOW_SECONDS && seconds > SLOW_TIMES * best * bytes) break;
    }
    // What a small one takes is the waiting, not its bytes.
    if (bytes >= FIRST_BYTES) best = Math.min(best ?? Number.POSITIVE_INFINITY, seconds / bytes);
    had += bytes;
  }
  for (const buffer of buffers) buffer.destroy();
  return had;
}

/** Allocates a piece and writes it: what is only promised may not be there. */
async function hasRoom(device: GPUDevice, bytes: number, buffers: GPUBuffer[]): Promise<boolean> {
  const most = Math.min(BUFFER_BYTES, device.limits.maxBufferSize);
  device.pushErrorScope('out-of-memory');
  const encoder = device.createCommandEncoder({ label: 'memory probe' });
  for (let left = bytes; left > 0; left -= most) {
    const size = Math.ceil(Math.min(most, left) / 4) * 4;
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
    const buffer = device.createBuffer({ label: 'memory probe', size, usage });
    buffers.push(buffer);
    encoder.clearBuffer(buffer);
  }
  // Before anything is written: a buffer that is not there must not be.
  if ((await device.popErrorScope()) !== null) return false;
  device.pushErrorScope('out-of-memory');
  device.queue.submit([encoder.finish()]);
  await queueDone(device);
  return (await device.popErrorScope()) === null;
}
