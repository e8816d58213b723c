/**
 * Copies of the database by a thread, so that donors are answered meanwhile, however long the run is. One is made after a
 * checkpoint, where no other one is being made, and all together take a hundredth of the time at most.
 */
import { parentPort, Worker } from 'node:worker_threads';
import type { Command } from 'commander';
import { invariant } from '../../swarm/base.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { type Copied, makeCopy } from './copies.ts';

const COMMAND = 'copy-thread';
/** A copy that takes a second is followed by none for so many. */
const REST = 100;

export class Copies {
  readonly #directory: string;
  #isBusy = false;
  #isClosed = false;
  #nextMs = 0;
  /** Manifests of the checkpoints that the copies go on from: newest copy first. */
  #manifests: readonly (readonly string[])[];

  constructor(directory: string, manifests: readonly (readonly string[])[]) {
    this.#directory = directory;
    this.#manifests = manifests;
  }

  get manifests(): string[] {
    return this.#manifests.flat();
  }

  /** Answers with what a person should know. `manifests`: of each run's newest checkpoint. */
  async make(manifests: readonly string[]): Promise<readonly string[]> {
    if (this.#isBusy || monotonicMs() < this.#nextMs) return [];
    this.#isBusy = true;
    const before = this.#manifests;
    this.#manifests = [manifests, ...before];
    const beganMs = monotonicMs();
    const { isMade, found } = await copied(this.#directory);
    this.#manifests = isMade ? [manifests, ...before.slice(0, 1)] : before;
    this.#nextMs = monotonicMs() + REST * (monotonicMs() - beganMs);
    this.#isBusy = false;
    // The directory may be gone by then.
    return this.#isClosed ? [] : found;
  }

  /** Nobody is told any more what became of one on its way. */
  close(): void {
    this.#isClosed = true;
  }
}

/** Only the built command can be a thread; the sources, as the tests run them, copy here. */
function copied(directory: string): Promise<Copied> {
  if (!IS_BUILT) return Promise.resolve(makeCopy(directory));
  const worker = new Worker(COMMAND_FILE, { argv: [COMMAND, directory] });
  worker.unref();
  return new Promise((resolve) => {
    const ended = (detail: unknown): void =>
      resolve({ isMade: false, found: [`No copy of the database could be made: its thread ended (${detail}).`] });
    worker.on('message', resolve);
    worker.on('error', ended);
    worker.on('exit', ended);
  });
}

export function addCopyThreadCommand(program: Command): void {
  program
    .command(COMMAND, { hidden: true })
    .argument('<directory>')
    .action((directory: string) => {
      invariant(parentPort, `${COMMAND} is a thread of a server`);
      parentPort.postMessage(makeCopy(directory));
    });
}
