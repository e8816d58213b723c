/** What an operator should do first, in a sentence; and whether the run is healthy. Pure. */
import type { Alert } from '../../../swarm/messages/alerts.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import { runSign, type Sign, signWith } from './signs.ts';

interface Advice {
  readonly sign: Sign;
  readonly sentence: string;
}

const HEALTHY: Sign = signWith('good', '✓', 'Healthy');
const WAITS: Sign = signWith('wait', '◔', 'Needs you');
const BAD: Sign = signWith('bad', '⚠', 'Look at this');

const FIRST: Readonly<Record<Alert['kind'], string>> = {
  diverged:
    'The loss ran away. Press Resume to do that step again. If it happens again, go back to an earlier save under Runs, or make a new run with a lower learning rate.',
  notSaved: 'Mend what the alert names. There is nothing to press: the run goes on by itself.',
  rollBack: 'The run went back to its last save. It catches up by itself. With more donors this happens less often.',
  donors: 'Fewer donors are at work than you want. Share the donor page’s link, or lower the number under Alerts.',
  stalled:
    'No step has been done for a while. Open Donors to see who holds the step up. You can let that donor go, and the others go on without it.',
  checkpoint: 'Nothing has been saved for a while. The server’s log says what.',
  loss: 'The loss jumped. Watch it for a few steps. If it stays there, go back to a checkpoint under Runs.',
  speed: 'Steps take longer than before. Open Swarm to see which donor or connection is the bottleneck.',
  disk: 'Make room on the server’s disk, or delete checkpoints that nobody needs.',
};

export function adviceOf(
  { phase, donors, isStopped, isReturning }: Pick<Snapshot, 'phase' | 'donors' | 'isStopped' | 'isReturning'>,
  alerts: readonly Alert[],
): Advice {
  const [first] = alerts;
  if (phase === 'waiting' && isReturning && !first)
    return { sign: runSign({ phase }), sentence: 'Nothing to do for the moment: donors come back by themselves.' };
  if (phase === 'waiting' && donors.length === 0)
    return { sign: WAITS, sentence: 'Share the donor page’s link. Training starts by itself with the first donor.' };
  if (first) return { sign: BAD, sentence: FIRST[first.kind] };
  if (phase === 'finished')
    return { sign: HEALTHY, sentence: 'It’s done. Export the model, or draft the next run, both under Runs.' };
  if (phase === 'paused')
    return { sign: runSign({ phase }), sentence: `Press ${isStopped ? 'Start' : 'Resume'} when it should go on.` };
  return { sign: HEALTHY, sentence: 'Nothing to do.' };
}
