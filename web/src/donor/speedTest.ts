/** Runs the speed test: a worker of its own, ended with the test. It joins nothing, and nobody hears of it but the person. */
import { type Result, refusal } from '../../../swarm/base.ts';
import type { Limits } from '../../../swarm/limits.ts';
import type { About } from '../../../swarm/messages/about.ts';
import { DonorBridge } from '../worker/bridge.ts';
import { TRIAL_SECONDS, type Trial } from './trial.ts';

const ABOUT_MEMORY = 'This run’s layers do not fit into the memory that this GPU gives.';

export class SpeedTest {
  readonly #show: (trial: Trial) => void;
  #bridge: DonorBridge | null = null;
  #best: number | null = null;
  #about: About | null = null;

  constructor(show: (trial: Trial) => void) {
    this.#show = show;
  }

  async run(asked: Promise<Result<About>>, limits: Limits): Promise<void> {
    this.close();
    this.#best = null;
    this.#show({ kind: 'running', tokensPerSecond: null, seconds: 0 });
    const bridge = new DonorBridge({
      ...{ sendServer: () => {}, sendBytes: () => {}, showStatus: () => {}, showLinks: () => {} },
      ...{
        call: () => {},
        callSignal: () => {},
        hangUp: () => {},
        mayMeasure: async () => false,
        mayAnswer: async () => false,
      },
      ...{ recall: async () => null, remember: async () => {} },
      fail: (_reason, detail) => this.#end(bridge, refusal(detail)),
    });
    this.#bridge = bridge;
    try {
      const about = await asked;
      if (!about.ok) return this.#end(bridge, about);
      this.#about = about.value;
      const opened = await bridge.open(limits);
      if (!opened.ok) return this.#end(bridge, opened);
      const measured = await bridge.tryOut(about.value, TRIAL_SECONDS, (tokensPerSecond, seconds) => {
        if (this.#bridge !== bridge) return;
        this.#best = tokensPerSecond;
        this.#show({ kind: 'running', tokensPerSecond, seconds });
      });
      this.#end(bridge, measured === null ? refusal(ABOUT_MEMORY) : null);
    } catch (error) {
      this.#end(bridge, refusal(error instanceof Error ? error.message : String(error)));
    }
  }

  /** With what was measured so far. */
  stop(): void {
    if (this.#bridge) this.#end(this.#bridge, null);
  }

  /** Without a word: something else wants the GPU. */
  close(): void {
    this.#bridge?.close();
    this.#bridge = null;
  }

  #end(bridge: DonorBridge, problem: { readonly reason: string } | null): void {
    if (this.#bridge !== bridge) return;
    this.close();
    if (problem) this.#show({ kind: 'failed', sentence: problem.reason });
    else if (this.#best === null || !this.#about) this.#show({ kind: 'none' });
    else this.#show({ kind: 'done', tokensPerSecond: this.#best, about: this.#about });
  }
}
