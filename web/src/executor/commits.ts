/**
 * The server's answers to this peer's steps. A peer without losses and shards may be told of a commit before it asks for it:
 * so the newest one is kept, and whoever asks for it has it at once.
 */
import type { UpdateScalars } from './engine.ts';
import { abortable } from './inbox.ts';

export class Commits {
  #last: { readonly epoch: number; readonly step: number; readonly scalars: UpdateScalars } | null = null;
  #awaiting: { readonly step: number; readonly resolve: (scalars: UpdateScalars) => void } | null = null;

  arrived(epoch: number, step: number, scalars: UpdateScalars): void {
    this.#last = { epoch, step, scalars };
    const waiting = this.#awaiting;
    if (waiting?.step !== step) return;
    this.#awaiting = null;
    waiting.resolve(scalars);
  }

  answer(epoch: number, step: number, signal: AbortSignal): Promise<UpdateScalars> {
    return abortable<UpdateScalars>(signal, (resolve) => {
      const known = this.#last;
      if (known?.epoch === epoch && known.step === step) resolve(known.scalars);
      else this.#awaiting = { step, resolve };
    });
  }

  /** Nobody waits any more. */
  forget(): void {
    this.#awaiting = null;
  }
}
