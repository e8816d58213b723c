/** Why a plan is as it is: sentences for people, each with whom it is about. */
import type { PeerId } from '../base.ts';

export interface Reason {
  /** Null: the whole plan. */
  readonly peer: PeerId | null;
  readonly text: string;
}

export const reasonText = ({ peer, text }: Reason): string => (peer === null ? text : `${peer}: ${text}`);
