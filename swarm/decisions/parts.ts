/** Which donors have a part in a plan, and who is there without one. */
import type { PeerId } from '../base.ts';
import { type CoordinatorState, type Donor, dutiesIn, planInForce } from '../coordinator/state.ts';

const isWilling = ({ wish, asideUntilMs }: Donor): boolean => wish === 'compute' && asideUntilMs === null;

/** Who has a part in its group's plan, or is to have one. */
export function membersIn(state: CoordinatorState): PeerId[] {
  const inForce = planInForce(state);
  const mayBe = state.donors.filter((donor) => isWilling(donor) && !donor.isApart);
  return mayBe.flatMap(({ peer }) => (inForce === null || dutiesIn(inForce, peer) ? peer : []));
}

/** Who has none. */
export function freeIn(states: readonly CoordinatorState[]): PeerId[] {
  const members = new Set(states.flatMap(membersIn));
  return states.flatMap(({ donors }) =>
    donors.flatMap((donor) => (isWilling(donor) && !members.has(donor.peer) ? donor.peer : [])),
  );
}
