/** What an operator is asked before a run goes back: all that goes with its later steps, counted, and what stays. Pure. */
import { counted } from '../../../swarm/quantityText.ts';
import type { ListedRun } from '../../../swarm/run/runDraft.ts';

/** `checkpoint`: one of the run's. */
export function goBackQuestion(
  { committedSteps, checkpoints }: Pick<ListedRun, 'committedSteps' | 'checkpoints'>,
  { committedSteps: step, samplesAfter, evaluationsAfter }: ListedRun['checkpoints'][number],
): string {
  const later = checkpoints.filter((each) => each.committedSteps > step);
  const kept = later.filter((each) => each.kept);
  const gone = [
    counted(samplesAfter, 'sample'),
    counted(evaluationsAfter, 'evaluation'),
    `${counted(later.length - kept.length, 'checkpoint')} that you don’t keep`,
  ].filter((words) => !words.startsWith('0 '));
  const stays =
    kept.length > 0
      ? ` Kept checkpoints stay, to export or clone: ${kept.map((each) => each.committedSteps).join(', ')}.`
      : later.length > 0
        ? ` To save ${later.length === 1 ? 'it' : 'one of these checkpoints'}, press No and mark it Keep.`
        : '';
  const deleted = gone.length > 0 ? ` Deleted: ${gone.join(', ')}.` : '';
  const again = committedSteps - step;
  return `${counted(again, 'step')} after ${step} will be done again, and the credit for ${again === 1 ? 'it' : 'them'} is taken back.${deleted}${stays}`;
}
