/**
 * What the newest saved state writes, for whoever asks on the donor page. Written at most once a checkpoint, by the
 * server's own processor, and kept with the operator's samples; whoever asks meanwhile waits for the same answer.
 */
import { type Result, success } from '../../swarm/base.ts';
import type { PublicSample } from '../../swarm/messages/about.ts';
import type { OwnAnswers } from '../answers/processorAnswerer.ts';
import { sampleCheckpoint } from '../operator/samples.ts';
import type { ActiveRun } from '../run/run.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';

const PROMPT = 'The ';
const TOKENS = 80;

export class PublicSamples {
  readonly #run: ActiveRun;
  readonly #data: DataDirectory;
  readonly #own: OwnAnswers;
  /** Of the newest checkpoint that was asked for. */
  #asked: { readonly step: number; readonly answer: Promise<Result<PublicSample>> } | null = null;

  constructor(run: ActiveRun, data: DataDirectory, own: OwnAnswers) {
    this.#run = run;
    this.#data = data;
    this.#own = own;
  }

  async newest(): Promise<Result<PublicSample>> {
    const { store } = this.#data;
    const step = store.newestCheckpoint(this.#run.name)?.committedSteps ?? 0;
    if (step === 0) return success(null);
    const kept = store.samples(this.#run.name).findLast((sample) => sample.committedSteps === step);
    if (kept) return success(kept);
    if (this.#asked?.step === step) return this.#asked.answer;
    this.#asked = { step, answer: this.#write(step) };
    return this.#asked.answer;
  }

  async #write(step: number): Promise<Result<PublicSample>> {
    const run = this.#run.name;
    const written = await sampleCheckpoint(this.#data, this.#own, { run, step, prompts: [PROMPT], tokens: TOKENS });
    if (!written.ok) {
      this.#asked = null; // a moment later there may be a place
      return written;
    }
    return success(this.#data.store.samples(run).findLast((sample) => sample.committedSteps === step) ?? null);
  }
}
