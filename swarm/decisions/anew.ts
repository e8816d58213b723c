/** What is known, between two meetings, of groups that are made anew (newGroups.ts). */
import type { DonorPace, Groups, GroupsFound } from '../autoplan/groupsAnew.ts';
import { at } from '../base.ts';
import type { Group } from './group.ts';
import { isTogether } from './groups.ts';
import type { Giving } from './recordedRounds.ts';

/** What is thought of other groups, and who waits for one. */
export interface Anew {
  /** The donors for whom groups were sought last; null: they were not yet. */
  readonly sought: string | null;
  /** What these donors and their lines were then. */
  readonly paces: readonly DonorPace[];
  /** Numbers of all searches so far. */
  readonly searches: number;
  /** The search that is not answered yet. */
  readonly search: number | null;
  readonly found: GroupsFound | null;
  /** Who begins as an island of its own when what a meeting came to is saved. */
  readonly starts: Groups;
  /** At so many steps somebody began to wait for that. */
  readonly waitingSince: number | null;
  /** Some hold the others up, and are waited for so long. */
  readonly late: { readonly untilMs: number } | null;
}

export const NOTHING_ANEW: Anew = {
  ...{ sought: null, paces: [], searches: 0, search: null, found: null },
  ...{ starts: [], waitingSince: null, late: null },
};

/** Who computes with whom is as the command line says, whoever comes. */
function areWished({ replanner }: Group): boolean {
  const { plan, groupPlans, stages, groups } = replanner.config.wishes;
  return [plan, groupPlans, stages, groups].some((wish) => wish !== undefined);
}

/** Whoever comes, or has no island any more, is in a group from a meeting on. */
export const areMadeAtMeetings = (groups: readonly Group[], giving: Giving | null): boolean =>
  giving !== null && !isTogether(groups) && !areWished(at(groups, 0));
