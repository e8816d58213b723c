/** What is said of planned islands: how many there are, what each donor does, and why a donor does nothing. */
import { at, median, type PeerId, rounded } from '../base.ts';
import { peers as peersOf } from '../plan/plan.ts';
import { bytesText, counted, durationText, groupedText, secondsText } from '../quantityText.ts';
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

/** How islands meet, in so many seconds. `toAll`: what each donor's packets to all other islands take, or would. */
export function meetingWords(meetingSeconds: number, hasOwners: boolean, toAll: readonly number[]): Reason[] {
  const longest = Math.max(...toAll);
  const words: string[] = [];
  if (hasOwners)
    words.push(
      `Each range of the model has an owner and a copy at meetings, who alone keep what islands share: a meeting takes ${secondsText(meetingSeconds)}.`,
    );
  if (longest > 0)
    words.push(
      hasOwners
        ? `Packets to every other island would take ${longestWords(toAll)}, and 8 bytes a parameter more of each.`
        : `At a meeting every donor sends its packets to every other island, which takes ${longestWords(toAll)}.`,
    );
  // Who is later than the others have waited for begins its steps late.
  if (longest > 0 && !hasOwners && longest < meetingSeconds)
    words.push('The rest of a meeting is arithmetic and short messages.');
  return words.length === 0 ? [] : [{ peer: null, text: words.join(' ') }];
}

function longestWords(seconds: readonly number[]): string {
  const [least, middle, longest] = [Math.min(...seconds), median(seconds) ?? 0, Math.max(...seconds)].map((each) =>
    secondsText(each),
  );
  if (least === longest) return seconds.length === 1 ? `${longest}` : `each donor ${longest}`;
  return middle === longest
    ? `the slowest donors ${longest}`
    : `half of the donors ${middle} at most and the slowest ${longest}`;
}

/** How often what islands share is saved at most, and what that takes. */
export function savingWords(
  { group, uploadSeconds, bytes, meetingSeconds }: IslandSave,
  roundSeconds: number,
): Reason[] {
  if (!Number.isFinite(uploadSeconds)) return [];
  const rounds = Math.max(1, Math.ceil(uploadSeconds / roundSeconds));
  const often = rounds === 1 ? 'can be saved at every meeting' : `are saved every ${counted(rounds, 'round')} at most`;
  // Over a line without a limit.
  if (uploadSeconds === 0) return [{ peer: null, text: `Checkpoints ${often}.` }];
  const longer =
    meetingSeconds > 0
      ? `; that meeting takes ${secondsText(meetingSeconds)} more, in which owners send it what it lacks`
      : '';
  const text = `Checkpoints ${often}: island ${group + 1} uploads ${bytesText(bytes)} in ${durationText(uploadSeconds)}, while all train on${longer}.`;
  return [{ peer: null, text }];
}

/** A line for each donor that computes; `steps` are of each team, of all its islands. */
export function teamWords(teams: readonly Team[], steps: readonly number[], owners: Owners): Reason[] {
  const shares = new Map(owners.map(({ peer, share }) => [peer, share]));
  const meets = owners.length > 0 ? 'receives what comes of a meeting' : 'sends and receives its packets';
  let next = 0;
  return teams.flatMap(({ plan, forecast: { stepSeconds }, group, turns }, i) => {
    const [first, count] = [next, group.places.length];
    next += turns;
    // From 1 on, as in tables and on the pages.
    const which =
      turns === 1 ? `island ${first + 1}` : `islands ${first + 1} ${turns === 2 ? 'and' : 'to'} ${next} by turns`;
    return peersOf(plan).map((peer): Reason => {
      const part = [
        count === 1 ? `${which}, alone` : `one of the ${count} donors of ${which}`,
        `${counted(at(steps, i), 'step')} of ${secondsText(stepSeconds)} a round`,
        ...(group.receiving > 0 ? [`${meets} in ${secondsText(group.receiving)}`] : []),
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
    return `no group of these peers that has room for an island ends a step, and receives its part of a meeting, within ${roundSeconds} s`;
  return `no group of these peers has room for an island: "${least.id}" alone, which lacks least, needs ${groupedText(Math.ceil(least.missing))} bytes more of memoryBytes, or of hostBytes for the ${costs.planeBytes} bytes a parameter that islands keep beside their model`;
}
