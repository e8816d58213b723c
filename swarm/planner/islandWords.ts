/** What is said of planned islands: how many there are, what each donor does, and why a donor does nothing. */
import { at, median, type PeerId, rounded } from '../base.ts';
import { peers as peersOf } from '../plan/plan.ts';
import { bytesText, counted, secondsText } from '../quantityText.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { ClusterPlan } from './clusterPlan.ts';
import { planOf } from './draft.ts';
import type { IslandSave } from './islandMeeting.ts';
import type { Team } from './islandTeam.ts';
import type { Reason } from './reason.ts';

type Owners = readonly { readonly peer: PeerId; readonly share: number }[];

/** `isAuto`: of a run that makes its groups by itself. */
export function summary(costs: ClusterCosts, teams: readonly Team[], isAuto: boolean): Reason[] {
  const count = teams.reduce((sum, { turns }) => sum + turns, 0);
  const alone = teams.filter(({ group }) => group.places.length === 1).length;
  const donors = teams.reduce((sum, { group }) => sum + group.places.length, 0);
  const kinds = [
    ...(alone > 0 ? [alone < donors ? `${alone} alone` : `${donors > 1 ? 'each ' : ''}alone`] : []),
    ...(alone < teams.length ? [`${counted(teams.length - alone, 'group')} of several`] : []),
  ];
  const left = costs.peers.length - donors;
  const idle = left === 0 ? '' : `; ${counted(left, 'donor')} left over ${left === 1 ? 'computes' : 'compute'} nothing`;
  return [
    `${counted(count, 'island')} of ${counted(donors, 'donor')}, ${kinds.join(' and ')}${idle}.`,
    isAuto
      ? 'A run makes its groups like this by what its donors measure, and makes them anew as donors come and go.'
      : '`shoal swarm --plan` runs these islands as planned here; without it a run shares its donors out equally.',
  ].map((text) => ({ peer: null, text }));
}

/** How islands meet. `owned`: what a meeting takes with owners, null where there are none; `seconds`: each donor's packets to all. */
export function meetingWords(owned: number | null, seconds: readonly number[]): Reason[] {
  const longest = Math.max(...seconds);
  if (longest === 0) return [];
  const times = `takes the middle donor ${secondsText(median(seconds) ?? longest)} and the slowest ${secondsText(longest)}`;
  const text =
    owned === null
      ? `At a meeting every donor sends its packets to every other island, which ${times}.`
      : `Each range of the model has an owner and a copy at meetings, who alone keep what islands share: a meeting takes ${secondsText(owned)}. To send packets to every other island ${times}, with 8 bytes a parameter more at each of them.`;
  return [{ peer: null, text }];
}

/** How often what islands share is saved at most, and what that takes. */
export function savingWords(
  { group, uploadSeconds, bytes, meetingSeconds }: IslandSave,
  roundSeconds: number,
): Reason[] {
  if (!Number.isFinite(uploadSeconds)) return [];
  const rounds = Math.max(1, Math.ceil(uploadSeconds / roundSeconds));
  const every = rounds === 1 ? 'at every meeting' : `every ${counted(rounds, 'round')}`;
  const longer =
    meetingSeconds > 0
      ? `; that meeting takes ${secondsText(meetingSeconds)} more, in which owners send it what it lacks`
      : '';
  const text = `Checkpoints are saved ${every} at most: island ${group + 1} uploads ${bytesText(bytes)} in ${secondsText(uploadSeconds)}, while all train on${longer}.`;
  return [{ peer: null, text }];
}

/** A line for each donor that computes; `steps` are of each team, of all its islands. */
export function teamWords(teams: readonly Team[], steps: readonly number[], owners: Owners): Reason[] {
  const shares = new Map(owners.map(({ peer, share }) => [peer, share]));
  let next = 0;
  return teams.flatMap(({ plan, forecast: { stepSeconds }, group, turns }, i) => {
    const [first, count] = [next, group.places.length];
    next += turns;
    // From 1 on, as in tables and on the pages.
    const which = turns === 1 ? `island ${first + 1}` : `islands ${first + 1} to ${next} by turns`;
    return peersOf(plan).map((peer): Reason => {
      const part = [
        count === 1 ? `${which}, alone` : `one of the ${count} donors of ${which}`,
        `${counted(at(steps, i), 'step')} of ${secondsText(stepSeconds)} a round`,
        ...(group.receiving > 0 ? [`receives its part of a meeting in ${secondsText(group.receiving)}`] : []),
        ...ownedWords('owns', shares.get(peer) ?? 0),
      ];
      return { peer, text: `${part.join(', ')}.` };
    });
  });
}

/** Nothing where it owns nothing. */
export const ownedWords = (verb: string, share: number): string[] =>
  share > 0 ? [`${verb} ${rounded(100 * share, 2)} % of the model at meetings`] : [];

/** In the same words of all alike. */
export function idleOf(costs: ClusterCosts, used: ReadonlySet<number>): ClusterPlan['idle'] {
  const shape = { first: false, last: false, layers: Math.min(1, costs.model.layers) };
  return [...costs.peers.entries()].flatMap(([place, { id, memoryBytes, compute }]) => {
    if (used.has(place)) return [];
    const needed = costs.memory.stageBytes(shape, { samples: 1, slots: 1, recomputed: 1 }, compute);
    const reason =
      memoryBytes < needed
        ? `its memory does not hold one layer and one sample, ${bytesText(needed)}`
        : 'no group found is worth more with it';
    return [{ peer: id, reason }];
  });
}

/** Why no group is found: the least that is missing, or how long the fastest takes. */
export function noGroup(costs: ClusterCosts, roundSeconds: number): string {
  const { layers } = costs.model;
  const { samples: microBatches } = costs.batch;
  const alone = [...costs.peers.entries()].flatMap(([place, { id }]) => {
    const drafted = planOf(costs, {
      groups: [[place]],
      layers: [layers],
      gathered: [],
      schedule: '1f1b',
      microBatches,
    });
    return drafted ? [{ id, missing: drafted.missingBytes }] : [];
  });
  const least = alone.toSorted((a, b) => a.missing - b.missing)[0];
  if (!least || least.missing === 0)
    return `no group of these peers that has room for an island ends a step, and receives its part of a meeting, within a round of ${roundSeconds} s`;
  return `no group of these peers has room for an island: "${least.id}" alone, which lacks least, needs ${Math.ceil(least.missing)} bytes more of memoryBytes, or of hostBytes for the ${costs.planeBytes} bytes a parameter that islands keep beside their model`;
}
