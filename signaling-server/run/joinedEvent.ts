/** What the decisions of a run are told of a donor that was admitted: its own word, and what the store knows of it. */
import type { DecisionEvent } from '../../swarm/decisions/events.ts';
import type { Connection } from '../donors/connectedDonors.ts';
import type { RunOptions } from './runOptions.ts';

export function joinedEvent(
  { store, name, networkName, isOneLine }: RunOptions,
  { peer, link, adapter, limits, profile, donor, isOwn, wasHere }: Connection,
): DecisionEvent {
  const { address, roundTripMs } = link;
  const network = networkName(address);
  return {
    ...{ type: 'donorJoined', peer, adapter, limits, profile, isOwn, roundTripMs },
    ...{ rememberedAs: donor, remembered: donor === null ? null : store.profile(name, donor) },
    ...{ address: network, ...(isOneLine(address) && { line: network }) },
    stepsSeen: store.stepsOf(name, peer),
    ...(wasHere && { wasHere }),
  };
}
