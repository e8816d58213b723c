/** Bytes of state that the changes of plan moved since this server started: from donor to donor, and out of checkpoints. */
import { arrivalBytes, latePassages, type Prepare, type Sizes } from '../../swarm/ways/partners.ts';
import { bytesOf } from '../../swarm/ways/tensors.ts';
import type { RunObserver } from './runObserver.ts';

/** Counts what each `prepare` has its members move, and what replicas get beside the steps after it. */
export class MovedBytes implements RunObserver {
  /** Of all changes of plan so far. */
  sum = 0;
  readonly #sizes: Sizes;
  /** Every member is told of a plan: it counts once. */
  #epoch = 0;
  #prepared: Prepare | null = null;
  /** Of what replicas get beside the steps so much was counted. */
  #copies = 0;

  constructor(sizes: Sizes) {
    this.#sizes = sizes;
  }

  effect(effect: Parameters<NonNullable<RunObserver['effect']>>[0]): void {
    if (effect.type !== 'send') return;
    const { message } = effect;
    if (message.type === 'start') this.#countCopies(message.copies?.[1] ?? 0);
    if (message.type !== 'prepare' || message.epoch === this.#epoch) return;
    const { epoch, plan, source } = message;
    this.#epoch = epoch;
    this.#prepared = message;
    this.#copies = 0;
    this.sum += arrivalBytes(this.#sizes, plan, source);
  }

  /** `until`: of the copies that are made beside steps so many are on their way. */
  #countCopies(until: number): void {
    if (until <= this.#copies || !this.#prepared) return;
    const sent = latePassages(this.#sizes, this.#prepared).slice(this.#copies, until);
    this.sum += sent.reduce((sum, passage) => sum + bytesOf(passage), 0);
    this.#copies = until;
  }
}
