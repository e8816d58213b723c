/** Why a plan is as it is: sentences for people, each with whom it is about. */
import type { PeerId } from '../base.ts';

export interface Reason {
  /** Null: the whole plan. */
  readonly peer: PeerId | null;
  readonly text: string;
  /** It is about what a loss costs: the operator is told, whether or not anybody asks. */
  readonly isWarning?: true;
}

export const reasonText = ({ peer, text }: Reason): string => (peer === null ? text : `${peer}: ${text}`);
