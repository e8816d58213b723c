/**
 * Sees to it that donors begin from a checkpoint that loads. When a plan is prepared from one its files are looked at, and
 * nobody gets a byte of it before. One that is damaged is set aside, and the run is sent back to the next older one.
 */
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import { isFarAbove } from '../../swarm/run/plausibleState.ts';
import type { BlobStore } from '../files/blobs.ts';
import { type Manifest, parseManifest, stateProblem } from '../store/checkpointState.ts';
import { newestLoadable, setAside } from '../store/checkpoints.ts';
import type { Store } from '../store/store.ts';
import type { RunObserver } from './runObserver.ts';

/** As many before a checkpoint are compared with the first one from it. */
const LOSSES = 20;

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
  /** The checkpoint that the plan in force began from, until its first commit. */
  #begunFrom: number | null = null;
  /** Those that are being looked at. */
  readonly #looking = new Map<number, Promise<string | null>>();

  constructor(run: GuardedRun) {
    this.#run = run;
  }

  effect(effect: DecisionEffect): void | Promise<void> {
    if (effect.type === 'storeCommit') return this.#committed(effect.record);
    if (effect.type !== 'send' || effect.message.type !== 'prepare') return;
    const { source } = effect.message;
    if (source.from !== 'checkpoint') return;
    this.#begunFrom = source.step;
    return this.#begin(source.step);
  }

  /** The first loss from a checkpoint shows whether what was loaded is what was saved. */
  async #committed({ step, loss }: CommitRecord): Promise<void> {
    const { store, name } = this.#run;
    const isFirst = step === this.#begunFrom;
    this.#begunFrom = null;
    if (!isFirst || step === 0) return;
    const before = store.steps(name, step - LOSSES).filter((record) => record.step < step);
    const losses = before.map((record) => record.loss);
    if (!isFarAbove(loss, losses)) return;
    const fault = `the first loss from checkpoint ${step} was ${loss.toPrecision(4)}, far above the ${losses.at(-1)?.toPrecision(4)} before it`;
    const { manifest, faults } = await newestLoadable(this.#run, name, step);
    // Alone it is all there is.
    if (manifest !== null) this.#goOn(manifest, new Map([[step, fault], ...faults]), fault);
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
