/** Places for micro-batches in flight that a schedule needs. */
import type { PeerId } from '../base.ts';
import type { Action, MicroAction, Schedule } from './action.ts';

/**
 * Most micro-batches between forward and backward, for each peer and stage: the slots that the stage needs there. A
 * micro-batch without a backward (an evaluation's) is over with its forward.
 */
export function slots(schedule: Schedule): ReadonlyMap<PeerId, ReadonlyMap<number, number>> {
  return new Map([...schedule].map(([peer, actions]) => [peer, slotsOfPeer(actions)]));
}

function slotsOfPeer(actions: readonly Action[]): Map<number, number> {
  const isOver = withoutBackward(actions);
  // By stage.
  const [flying, peak]: [number[], number[]] = [[], []];
  const change = (stage: number, by: number) => {
    const now = (flying[stage] ?? 0) + by;
    flying[stage] = now;
    peak[stage] = Math.max(peak[stage] ?? 0, now);
  };
  for (const action of actions) {
    if (action.op === 'F') {
      change(action.stage, 1);
      if (isOver(action)) change(action.stage, -1);
    }
    if (action.op === 'B') change(action.stage, -1);
  }
  return new Map(peak.flatMap((most, stage) => (most === undefined ? [] : [[stage, most] as const])));
}

/** Which forwards have no backward. Mostly none: as many of both need no closer look. */
function withoutBackward(actions: readonly Action[]): (action: MicroAction) => boolean {
  const count = (wanted: Action['op']): number => actions.reduce((sum, { op }) => sum + (op === wanted ? 1 : 0), 0);
  if (count('F') === count('B')) return () => false;
  const backwards = new Set(actions.flatMap((action) => (action.op === 'B' ? keyOf(action) : [])));
  return (action) => !backwards.has(keyOf(action));
}

const keyOf = ({ stage, microBatch }: MicroAction): string => `${stage} ${microBatch}`;
