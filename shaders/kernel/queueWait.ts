/**
 * Waiting for what a device was given to do. A browser may look at what its GPU has finished by a slow timer of its own
 * (Firefox 153: every 100 ms, an empty queue too) and besides whenever something is submitted. So each wait of the repository
 * goes through here: on a device whose empty queue was measured to answer late, nothing at all is submitted every 2 ms while
 * something is awaited. Never in a loop without a timer: that fills the browser's GPU process until it dies.
 */
import { at } from '../../swarm/base.ts';

/** An empty queue that takes longer is looked at by a timer: a slow or busy machine answers within some milliseconds. */
const SLOW_SECONDS = 0.02;
const PROMPT_MS = 2;
/** The first wait ends wherever the browser's timer happens to be. */
const ALIGNING_WAITS = 1;
const JUDGED_WAITS = 2;
const MEASURED_WAITS = 9;

/** What waiting for nothing takes on a device. */
export interface EmptyWait {
  readonly leastSeconds: number;
  readonly medianSeconds: number;
}

const INSTANT: EmptyWait = { leastSeconds: 0, medianSeconds: 0 };

interface Prompter {
  awaited: number;
  timer: ReturnType<typeof setInterval> | undefined;
}

const prompters = new WeakMap<GPUDevice, Prompter>();
const measured = new WeakMap<GPUDevice, EmptyWait>();

/** Takes off from a time what was waited for nothing. Zero before `measureEmptyWait`. */
export const emptyWaitOf = (device: GPUDevice): EmptyWait => measured.get(device) ?? INSTANT;

/**
 * Once for each device, before anything else is submitted: how long an empty queue takes to say so, and whether it says so
 * sooner when it is prompted. `now`: seconds.
 */
export async function measureEmptyWait(device: GPUDevice, now: () => number): Promise<EmptyWait> {
  const waits = async (count: number): Promise<EmptyWait> => {
    const seconds: number[] = [];
    while (seconds.length < count) {
      const begun = now();
      await queueDone(device);
      seconds.push(now() - begun);
    }
    seconds.sort((a, b) => a - b);
    return { leastSeconds: at(seconds, 0), medianSeconds: at(seconds, Math.floor(count / 2)) };
  };
  await waits(ALIGNING_WAITS);
  const { leastSeconds } = await waits(JUDGED_WAITS);
  if (leastSeconds > SLOW_SECONDS) {
    prompters.set(device, { awaited: 0, timer: undefined });
    void device.lost.then(() => forget(device));
  }
  const empty = await waits(MEASURED_WAITS);
  if (empty.leastSeconds > SLOW_SECONDS) forget(device); // prompting is no help here
  measured.set(device, empty);
  return empty;
}

/** Resolves when all that was submitted is done. */
export const queueDone = (device: GPUDevice): Promise<void> => prompted(device, device.queue.onSubmittedWorkDone());

/** Resolves when the first `sizeBytes` of it can be read. */
export const mapped = (device: GPUDevice, buffer: GPUBuffer, sizeBytes: number = buffer.size): Promise<void> =>
  prompted(device, buffer.mapAsync(MAP_READ, 0, sizeBytes));

const MAP_READ = 0x01; // GPUMapMode.READ, spelled out: Node has no such global before Dawn is loaded

function prompted(device: GPUDevice, wait: Promise<void>): Promise<void> {
  const prompter = prompters.get(device);
  if (!prompter) return wait;
  prompter.awaited++;
  const prompt = (): void => device.queue.submit([]);
  // At once too: where a submit is computed as it is made (llvmpipe) the next one would else be part of this wait.
  prompt();
  prompter.timer ??= setInterval(prompt, PROMPT_MS);
  return wait.finally(() => {
    prompter.awaited--;
    if (prompter.awaited === 0) rest(prompter);
  });
}

function rest(prompter: Prompter): void {
  clearInterval(prompter.timer);
  prompter.timer = undefined;
}

function forget(device: GPUDevice): void {
  const prompter = prompters.get(device);
  if (prompter) rest(prompter);
  prompters.delete(device);
}
