/** A tensor on its way between two peers, by name. */
import type { PeerId } from '../base.ts';
import type { TensorKey } from '../messages/frame.ts';

/** What a tensor is, in whatever epoch and step. */
export type TensorName = Omit<TensorKey, 'epoch' | 'step'>;

export interface Passage {
  readonly from: PeerId;
  readonly to: PeerId;
  readonly tensor: TensorName;
}
