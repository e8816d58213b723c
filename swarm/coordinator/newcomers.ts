/** When newcomers who wait come in (visits.ts): in the order in which they came, as soon as the one before has its part or none. */
import type { PeerId } from '../base.ts';
import { considerInterruption } from './planInForce.ts';
import { mayLetIn } from './state.ts';
import { amongOf } from './successor.ts';
import { change, type Transition } from './transition.ts';
import { comeOneByOne, nextMayComeMs } from './visits.ts';

/** After every event. */
export function letIn(transition: Transition) {
  const { state, now } = transition;
  const waiting = state.donors.flatMap(({ peer, newcomer }) => (newcomer?.waits ? peer : []));
  if (waiting.length === 0) return;
  if (amongOf(state) === 'everyone' && state.phase.name === 'planning') return open(transition, waiting);
  if (!mayLetIn(state)) return;
  if (!comeOneByOne(state.visits, now)) open(transition, waiting);
  else if (now >= nextMayComeMs(state.visits)) open(transition, waiting.slice(0, 1));
}

function open(transition: Transition, peers: readonly PeerId[]) {
  const { state, now: sinceMs } = transition;
  const { donors } = state;
  change(transition, {
    donors: donors.map((donor) =>
      donor.newcomer && peers.includes(donor.peer) ? { ...donor, newcomer: { sinceMs, waits: false } } : donor,
    ),
  });
  transition.effects.push({ type: 'offerChanged', reason: `${peers.join(', ')} may be used` });
  considerInterruption(transition);
}
