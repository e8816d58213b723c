/**
 * What the newest saved state writes, for whoever asks on the donor page. Written at most once a checkpoint, by the
 * process that writes the operator's samples, and kept with them; whoever asks meanwhile waits for the same answer.
 */

import { type Result, refusal, success } from '../../swarm/base.ts';
import type { PublicSample } from '../../swarm/messages/about.ts';
import { isSampling, sampleCheckpoint } from '../operator/samples.ts';
import type { ActiveRun } from '../run/run.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';

const PROMPT = 'The ';
const TOKENS = 80;
/** Elements. A larger one keeps a processor busy for longer than an idle question is worth. */
const LARGEST_MODEL = 20_000_000;

export class PublicSamples {
  readonly #run: ActiveRun;
  readonly #data: DataDirectory;
  /** Of the newest checkpoint that was asked for: it is tried once. */
  #asked: { readonly step: number; readonly answer: Promise<Result<PublicSample>> } | null = null;

  constructor(run: ActiveRun, data: DataDirectory) {
    this.#run = run;
    this.#data = data;
  }

  async newest(): Promise<Result<PublicSample>> {
    const { store } = this.#data;
    const step = store.newestCheckpoint(this.#run.name)?.committedSteps ?? 0;
    if (step === 0) return success(null);
    const kept = store.samples(this.#run.name).findLast((sample) => sample.committedSteps === step);
    if (kept) return success(kept);
    if (this.#asked?.step === step) return this.#asked.answer;
    // The operator's samples: a moment later it is this one's turn.
    if (isSampling()) return refusal('another state is being sampled: ask again in a moment');
    this.#asked = { step, answer: this.#write(step) };
    return this.#asked.answer;
  }

  async #write(step: number): Promise<Result<PublicSample>> {
    const run = this.#run.name;
    const elements = this.#run.model.blocks.reduce((sum, block) => sum + block.elements, 0);
    if (elements > LARGEST_MODEL)
      return refusal('this model is too large to write beside a run on the server’s processor');
    const written = await sampleCheckpoint(this.#data, { run, step, prompts: [PROMPT], tokens: TOKENS });
    if (!written.ok) return written;
    return success(this.#data.store.samples(run).findLast((sample) => sample.committedSteps === step) ?? null);
  }
}
