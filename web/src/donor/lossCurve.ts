/** The run's curve as a donor's tab has it: as the server tells it now and then, and on to the newest step. Pure. */
import type { PublicStatus } from '../../../swarm/messages/publicStatus.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';

type Curve = PublicStatus['curve'];
type Newest = Pick<Snapshot, 'run' | 'committedSteps' | 'loss' | 'groups'>;

/**
 * `newest`: what the server says all the time to who takes part; null: nothing. Steps that it took back are none. With
 * islands losses stand at other numbers than how many steps are done.
 */
export function curveTo({ run, curve }: Pick<PublicStatus, 'run' | 'curve'>, newest: Newest | null): Curve {
  if (newest === null || newest.run !== run || newest.groups !== undefined) return curve;
  const { committedSteps, loss } = newest;
  const stands = curve.filter(([step]) => step < committedSteps);
  if (loss === null || committedSteps === 0) return stands;
  return [...stands, [committedSteps, loss]];
}
