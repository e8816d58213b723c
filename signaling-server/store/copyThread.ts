/**
 * Copies of the database by a thread, so that donors are answered meanwhile, however long the run is. One is made after a
 * checkpoint, where no other one is being made, and all together take a hundredth of the time at most.
 */
import { parentPort, Worker } from 'node:worker_threads';
import type { Command } from 'commander';
import { invariant, type Result, refusal } from '../../swarm/base.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';
import { endsByItself } from '../files/threads.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { Checked } from './checksums.ts';
import { type Copied, makeCopy, makeSnapshot } from './copies.ts';

const COMMAND = 'copy-thread';
const SNAPSHOT_COMMAND = 'snapshot-thread';
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
async function copied(directory: string): Promise<Copied> {
  if (!IS_BUILT) return makeCopy(directory);
  const failed = (reason: string): Copied => ({
    isMade: false,
    found: [`No copy of the database could be made: ${reason}.`],
  });
  return threadSays(COMMAND, [directory], failed);
}

/** What a database of this file has at one moment, in another file, read back. */
export async function snapshot(from: string, to: string): Promise<Result<Checked>> {
  return IS_BUILT ? threadSays(SNAPSHOT_COMMAND, [from, to], refusal) : makeSnapshot(from, to);
}

function threadSays<T>(command: string, words: readonly string[], failed: (reason: string) => T): Promise<T> {
  const worker = new Worker(COMMAND_FILE, { argv: [command, ...words] });
  endsByItself(worker);
  return new Promise((resolve) => {
    const ended = (detail: unknown): void => resolve(failed(`its thread ended (${detail})`));
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

export function addSnapshotThreadCommand(program: Command): void {
  program
    .command(SNAPSHOT_COMMAND, { hidden: true })
    .argument('<from>')
    .argument('<to>')
    .action((from: string, to: string) => {
      invariant(parentPort, `${SNAPSHOT_COMMAND} is a thread of a server`);
      parentPort.postMessage(makeSnapshot(from, to));
    });
}
