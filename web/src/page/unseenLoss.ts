/** The loss on text that the run does not train on (its evaluation): one name for it on every page. Pure. */
import { countText } from './format.ts';

export const UNSEEN_LOSS = 'Loss on unseen text';
/** In the keys of charts, which are about losses. */
export const UNSEEN = 'on unseen text';

/** `step`: after how many steps `loss` was measured, which may be older than the loss beside it; undefined: not known. */
export function unseenNote(loss: number | null, step: number | undefined): string {
  if (loss === null) return 'not measured';
  if (step === undefined) return 'lower is better';
  return step === 0 ? 'before training' : `after step ${countText(step)}`;
}
