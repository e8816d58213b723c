/** Searches that the decisions ask for, for plans and for groups of donors, each answered once: also one that fails. */
import type { PlanningConfig } from '../../swarm/autoplan/knownDonors.ts';
import { refusal } from '../../swarm/base.ts';
import type { DecisionEffect, DecisionEvent } from '../../swarm/decisions/events.ts';
import type { RunOptions } from './runOptions.ts';

type Wanted = Extract<DecisionEffect, { type: 'search' | 'searchGroups' }>;

/** `failed`: told of what nobody was prepared for. */
export async function searched(
  { search: forPlan, searchGroups: forGroups }: Pick<RunOptions, 'search' | 'searchGroups'>,
  config: PlanningConfig,
  wanted: Wanted,
  failed: (error: unknown) => void,
): Promise<DecisionEvent> {
  const refused = (error: unknown) => {
    failed(error);
    return refusal('the search failed');
  };
  const { search } = wanted;
  return wanted.type === 'search'
    ? { type: 'searched', search, found: await forPlan(config, wanted.problem, wanted.budget).catch(refused) }
    : { type: 'groupsFound', search, found: await forGroups(config, wanted.problem).catch(refused) };
}
