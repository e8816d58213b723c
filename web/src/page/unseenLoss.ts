/** The loss on text that the run does not train on (its evaluation): one name for it on every page. Pure. */
import { countText } from './format.ts';

export const UNSEEN_LOSS = 'Loss on unseen text';
/** In the keys of charts, which are about losses. */
export const UNSEEN = 'on unseen text';

/** `step`: after how many steps it was measured, which may be older than the loss beside it; undefined: it was not yet. */
export function unseenNote(step: number | undefined): string {
  if (step === undefined) return 'not yet measured';
  return step === 0 ? 'before training' : `after step ${countText(step)}`;
}
