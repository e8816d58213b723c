/** What is known of donors now. */
import { type DonorPace, pacesOf } from '../autoplan/groupsAnew.ts';
import { searchProblem } from '../autoplan/knownDonors.ts';
import { at, type PeerId } from '../base.ts';
import type { Group } from './group.ts';

/** Without doubt in who was not seen at work: that it goes is no drift. Of who measured nothing, nothing. */
export function pacesNow(groups: readonly Group[], peers: readonly PeerId[]): DonorPace[] {
  const known = groups.flatMap(({ replanner }) => replanner.donors);
  return pacesOf(searchProblem(at(groups, 0).replanner.config, known, peers, undefined, 'now').cluster);
}
