/** What a scripted donor says of the time that its actions took. */
import type { PeerId } from '../../swarm/base.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { formatAction } from '../../swarm/schedule/action.ts';
import { build } from '../../swarm/schedule/lower.ts';

/**
 * By a clock of its own, one after the other in the time that a step takes; where it takes none all at once, a second
 * each, which is as long as a report may be mistaken.
 */
export function scriptedSpans(plan: Plan, peer: PeerId, stepMs: number | undefined) {
  const actions = build(plan).get(peer) ?? [];
  const each = stepMs === undefined ? 1 : stepMs / 1_000 / Math.max(1, actions.length);
  return actions.map((action, at) => {
    const start = 1_000 + (stepMs === undefined ? 0 : at * each);
    return { action: formatAction(action), start, end: start + each };
  });
}
