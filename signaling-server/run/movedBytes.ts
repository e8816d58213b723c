/** Bytes of state that the changes of plan moved since this server started: from donor to donor, and out of checkpoints. */
import { arrivalBytes, type Sizes } from '../../swarm/ways/partners.ts';
import type { RunObserver } from './runObserver.ts';

export class MovedBytes implements RunObserver {
  sum = 0;
  readonly #sizes: Sizes;
  /** Every member is told of a plan: it counts once. */
  #epoch = 0;

  constructor(sizes: Sizes) {
    this.#sizes = sizes;
  }

  effect(effect: Parameters<NonNullable<RunObserver['effect']>>[0]): void {
    if (effect.type !== 'send' || effect.message.type !== 'prepare' || effect.message.epoch === this.#epoch) return;
    const { epoch, plan, source } = effect.message;
    this.#epoch = epoch;
    this.sum += arrivalBytes(this.#sizes, plan, source);
  }
}
