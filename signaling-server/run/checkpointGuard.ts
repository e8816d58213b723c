/**
 * Sees to it that donors begin from a checkpoint that loads. When a plan is prepared from one its files are looked at, and
 * nobody gets a byte of it before. One that is damaged is set aside, and the run is sent back to the next older one.
 */
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import type { BlobStore } from '../files/blobs.ts';
import { type Manifest, parseManifest, stateProblem } from '../store/checkpointState.ts';
import { newestLoadable, setAside } from '../store/checkpoints.ts';
import type { Store } from '../store/store.ts';
import type { RunObserver } from './runObserver.ts';

interface GuardedRun {
  readonly store: Store;
  readonly blobs: BlobStore;
  readonly name: string;
  /** The run goes on from this checkpoint. */
  sendBack(toStep: number, reason: string): void;
  /** There is no checkpoint that it could go on from. */
  stateLost(reason: string): void;
}

export class CheckpointGuard implements RunObserver {
  readonly #run: GuardedRun;
  /** Those that are being looked at. */
  readonly #looking = new Map<number, Promise<string | null>>();

  constructor(run: GuardedRun) {
    this.#run = run;
  }

  effect(effect: DecisionEffect): void | Promise<void> {
    if (effect.type !== 'send' || effect.message.type !== 'prepare') return;
    const { source } = effect.message;
    if (source.from !== 'checkpoint') return;
    return this.#begin(source.step);
  }

  async #begin(step: number): Promise<void> {
    if (!this.#looking.has(step)) await this.problem(step);
  }

  /** Why a checkpoint that the store has cannot be handed out, or null. */
  problem(step: number): Promise<string | null> {
    const known = this.#looking.get(step);
    if (known !== undefined) return known;
    const looking = this.#look(step).finally(() => this.#looking.delete(step));
    this.#looking.set(step, looking);
    return looking;
  }

  async #look(step: number): Promise<string | null> {
    const { store, blobs, name } = this.#run;
    const text = store.checkpoint(name, step);
    if (text === null) return `checkpoint ${step} is not kept`;
    const problem = await stateProblem(blobs, parseManifest(text));
    // It may be gone, or not the newest any more, by now.
    if (problem === null || store.newestCheckpoint(name)?.committedSteps !== step) return problem;
    const { manifest, faults } = await newestLoadable(this.#run, name);
    this.#goOn(manifest, faults.size > 0 ? faults : new Map([[step, problem]]), problem);
    return problem;
  }

  #goOn(manifest: Manifest | null, faults: ReadonlyMap<number, string>, problem: string): void {
    const { store, name } = this.#run;
    if (manifest === null) {
      this.#run.stateLost(problem);
      return;
    }
    this.#run.sendBack(manifest.step, `${problem}: it goes on from checkpoint ${manifest.step}`);
    for (const [step, fault] of faults) setAside(store, name, step, fault);
  }
}
