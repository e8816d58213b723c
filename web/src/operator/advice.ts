/** What an operator should do first, in a sentence; and whether the run is healthy. Pure. */
import type { Alert } from '../../../swarm/messages/alerts.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { PlanInForce } from '../../../swarm/messages/watch.ts';
import { percentText } from '../page/format.ts';
import { runSign, type Sign, signWith } from './signs.ts';
import { limitText } from './swarmShape.ts';

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

/** So much of the donors' time unused, and so much of a step to be gained, is worth a word; so is a step of twice its prediction. */
const [MUCH_IDLE, MUCH_GAINED, MUCH_LONGER] = [0.3, 0.1, 2];

type Facts = Pick<Snapshot, 'phase' | 'donors' | 'isStopped' | 'isReturning' | 'limit' | 'planning'>;

/** What could be better of a run that trains; null: nothing to speak of. `idle`: the share of the newest step. */
function slownessOf({ limit, planning }: Facts, plan: PlanInForce | null, idle: number | null): string | null {
  const { predictedSeconds = null, measuredSeconds = null } = planning?.epoch === plan?.epoch ? (planning ?? {}) : {};
  const isIdle = (idle ?? 0) > MUCH_IDLE && (limit?.gain ?? 0) >= MUCH_GAINED && limit?.epoch === plan?.epoch;
  if (limit && plan && isIdle)
    return `${percentText(idle ?? 0)} of the donors’ time is idle. ${limitText(limit, plan)}`;
  return predictedSeconds && measuredSeconds && measuredSeconds > MUCH_LONGER * predictedSeconds
    ? 'Steps take more than twice as long as predicted. Open Swarm to see where the time goes.'
    : null;
}

export function adviceOf(
  facts: Facts,
  alerts: readonly Alert[],
  plan: PlanInForce | null = null,
  idle: number | null = null,
): Advice {
  const { phase, donors, isStopped, isReturning } = facts;
  const [first] = alerts;
  if (phase === 'waiting' && isReturning && !first)
    return { sign: runSign({ phase }), sentence: 'Nothing to do for the moment: donors come back by themselves.' };
  if (phase === 'waiting' && donors.length === 0)
    return { sign: WAITS, sentence: 'Share the donor page’s link. Training starts by itself with the first donor.' };
  if (first) return { sign: BAD, sentence: FIRST[first.kind] };
  if (phase === 'finished')
    return { sign: HEALTHY, sentence: 'It’s done. Under Runs, export the model from its checkpoints, or draft the next run.' };
  if (phase === 'paused')
    return { sign: runSign({ phase }), sentence: `Press ${isStopped ? 'Start' : 'Resume'} when it should go on.` };
  return { sign: HEALTHY, sentence: slownessOf(facts, plan, idle) ?? 'Nothing to do.' };
}
