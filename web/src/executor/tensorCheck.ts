/**
 * In an epoch that the server wants checked: looks at every tensor that comes or goes, where it passes the CPU anyway, and
 * remembers the first that is not sound (WI12). Whatever is made of it comes later, so the first one is where it began, as
 * far as this peer can see.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { FrameKind, TensorKey } from '../../../swarm/messages/frame.ts';
import type { EvaluatedMessage, ReportMessage, UnsoundTensor } from '../../../swarm/messages/messages.ts';
import { isSound } from '../../../swarm/wire.ts';

/** Words have nothing in them, answers are no part of a step; packets are looked at in every epoch, by who takes them. */
const UNCHECKED = ['probe', 'packet', 'published', 'shared', 'beginning', 'want', 'turn', 'answer'] as const;
type Unchecked = (typeof UNCHECKED)[number];
const isUnchecked = (kind: FrameKind): kind is Unchecked => UNCHECKED.some((one) => one === kind);

const CHECKED_AS: Readonly<Record<Exclude<FrameKind, Unchecked>, UnsoundTensor['kind']>> = {
  ...{ activation: 'activation', gradient: 'gradient', heldOut: 'heldOut', state: 'state' },
  ...{ slice: 'slice', share: 'slice', values: 'values', gathered: 'values' },
};

export class TensorCheck {
  #first: UnsoundTensor | null = null;

  /** A tensor on its way to another peer, or from one. */
  look(key: TensorKey, values: Float32Array, from?: PeerId): void {
    const { kind, stage, index, encoding = 'f32' } = key;
    if (this.#first !== null || isUnchecked(kind)) return;
    const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
    if (!isSound(encoding, words))
      this.#first = { kind: CHECKED_AS[kind], stage, index, ...(from === undefined ? {} : { from }) };
  }

  /** The report, or the answer to an evaluation, with what was found; a number of its own that is not finite is found here. */
  told<T extends ReportMessage | EvaluatedMessage>(message: T, lastStage: number): T {
    const lost = message.losses.find(({ lossSum }) => lossSum === null);
    if (lost) this.#first ??= { kind: 'loss', stage: lastStage, index: lost.microBatch };
    const shards = message.type === 'report' ? message.shards : [];
    const overflown = shards.findIndex(({ sumSquares }) => typeof sumSquares === 'string');
    if (overflown >= 0) this.#first ??= { kind: 'norm', stage: 0, index: overflown };
    return this.#first === null ? message : { ...message, unsound: this.#first };
  }
}
