/**
 * What a plan's members sent each other through the server, as it saw: tensors of which every byte went by, of the newest
 * steps of an epoch. Whoever counts asks first whether the plan has such a tensor between these two, so that nobody's
 * frames make this grow.
 */
import type { PeerId } from '../base.ts';
import { type Frame, tensorBytes } from '../messages/frame.ts';
import type { TensorName } from './passage.ts';

/** Of the newest steps begun; values of the one before are on their way beside a step. */
const KEPT_STEPS = 3;

/** A tensor on its way between two: in a step, or as the epoch's members get ready. */
export const passageText = (
  step: number | 'arrival',
  from: PeerId,
  to: PeerId,
  { kind, stage, index, range }: Pick<TensorName, 'kind' | 'stage' | 'index' | 'range'>,
): string => `${step} ${from} ${to} ${kind}/${stage}/${index}/${range.join('-')}`;

export class WentBy {
  /** Frames that came, and that a receiver took: as long as it grows something moves. */
  moved = 0;
  /** By step: the bytes of each tensor that went by. */
  readonly #bytes = new Map<number | 'arrival', Map<string, number>>();
  readonly #whole = new Set<string>();

  /**
   * `stepsSince`: steps begun since the frame's own, null before the first. What is older by some is forgotten. A frame that
   * is not its tensor's next one is not counted.
   */
  saw(from: PeerId, to: PeerId, frame: Frame, stepsSince: number | null): void {
    this.moved += 1;
    if (stepsSince !== null) this.#forget(frame.step + stepsSince - KEPT_STEPS);
    const at = stepsSince === null ? 'arrival' : frame.step;
    const names = this.#bytes.get(at) ?? new Map<string, number>();
    this.#bytes.set(at, names);
    const name = passageText(at, from, to, frame);
    const before = names.get(name) ?? 0;
    if (frame.offset !== before) return;
    names.set(name, before + frame.payload.length);
    if (before + frame.payload.length === tensorBytes(frame)) this.#whole.add(name);
  }

  #forget(until: number): void {
    for (const [step, names] of this.#bytes) {
      if (step !== 'arrival' && step > until) continue;
      for (const name of names.keys()) this.#whole.delete(name);
      this.#bytes.delete(step);
    }
  }

  took(): void {
    this.moved += 1;
  }

  /** Names as `passageText` has them. */
  get whole(): string[] {
    return [...this.#whole];
  }
}
