/**
 * Several groups of donors in one run with islands: each has some of the islands, a plan and a coordinator of its own,
 * and they meet at the end of each round. A run begins as one group of all its donors. Where a plan is wanted from a
 * checkpoint, `divided` makes several of it; `joined` makes one of them again, which goes back, ends, pauses or finishes as
 * any other. Rules IS in SPEC.md.
 */
import type { PlanningConfig } from '../autoplan/knownDonors.ts';
import { beginReplanning } from '../autoplan/replanner.ts';
import { groupsWished, seatsOf } from '../autoplan/wishes.ts';
import { arrayOf, at, type PeerId } from '../base.ts';
import { auditsOf, auditsOfAll } from '../coordinator/audits.ts';
import type { CoordinatorConfig } from '../coordinator/events.ts';
import { type CoordinatorState, type Donor, isPlanningAnew } from '../coordinator/state.ts';
import { missedBy, willing } from '../coordinator/successor.ts';
import { NO_ATTEMPTS } from '../coordinator/trouble.ts';
import { stepsBefore } from '../islands/rounds.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { Group } from './group.ts';
import { type Giving, newTurn, recordedEnd } from './recordedRounds.ts';

/** Numbers of searches of different groups are so far apart: each is answered to who asked. */
export const SEARCHES_APART = 1_000_000;

/** One group does all that there is, by turns. */
export const isTogether = (groups: readonly Group[]): boolean =>
  groups.length === 1 && at(groups, 0).coordinator.config.own === undefined;

/** How many groups this one should be, where it wants a plan. Null: it stays one. */
export function groupCount({ coordinator, replanner }: Group, most: number): number | null {
  const { train, own } = coordinator.config;
  if (own !== undefined || !train.islands || !isPlanningAnew(coordinator)) return null;
  const wished = groupsWished(replanner.config.wishes, train.islands, willing(coordinator).length);
  const count = Math.max(1, Math.min(most, wished));
  return count > 1 || train.islands.count === 'auto' ? count : null;
}

/** `items` in `count` runs, as equal as can be, the first ones longer. */
function shared<Item>(items: readonly Item[], count: number): Item[][] {
  const least = Math.floor(items.length / count);
  const longer = items.length % count;
  return arrayOf(count, (i) => {
    const from = i * least + Math.min(i, longer);
    return items.slice(from, from + least + (i < longer ? 1 : 0));
  });
}

/** Which islands and donors each has, and its plan where that is given. */
function partsOf({ coordinator, replanner }: Group, count: number, giving: Giving | null): Part[] {
  const donors = willing(coordinator);
  const { groupPlans = [] } = replanner.config.wishes;
  if (groupPlans.length === count && seatsOf(groupPlans).length === donors.length) {
    let seated = 0;
    return groupPlans.map(({ islands: own = [], ...plan }) => {
      const from = seated;
      seated += peers(plan).length;
      return { own, offer: donors.slice(from, seated), plan };
    });
  }
  const all = islandsToShare(coordinator.config, count, giving);
  const offers = shared(donors, count);
  return shared(all, count).map((own, index) => ({ own, offer: at(offers, index), plan: undefined }));
}

interface Part {
  readonly own: readonly number[];
  readonly offer: readonly PeerId[];
  readonly plan: Plan | undefined;
}

/** Donors by the order in which they came. Who takes no part now is with the first group. */
export function divided(whole: Group, count: number, giving: Giving | null): Group[] {
  const { coordinator, replanner } = whole;
  const { config, donors, gathering, committedSteps, audits } = coordinator;
  const parts = partsOf(whole, count, giving);
  const offers = parts.map(({ offer }) => offer);
  const expected = donors.slice(0, config.expectedDonors ?? 0).map(({ peer }) => peer);
  return parts.map(({ own, plan }, index): Group => {
    const isMine = (peer: PeerId): boolean =>
      offers[index]?.includes(peer) || (index === 0 && !offers.some((offer) => offer.includes(peer)));
    const mine = donors.filter(({ peer }) => isMine(peer));
    const needed = mine.filter(({ peer }) => expected.includes(peer)).length;
    return {
      coordinator: {
        ...coordinator,
        config: {
          ...config,
          own,
          expectedDonors: gathering === 'whole' ? needed : config.expectedDonors,
          evaluation: index === 0 ? config.evaluation : null,
        },
        donors: mine,
        met: committedSteps,
        turn: giving && newTurn(giving),
        ask: null,
        newestSteps: [],
        ...(audits && { audits: auditsOf(audits, isMine, index === 0) }),
      },
      replanner: {
        ...replanner,
        config: plan ? withWish(replanner.config, plan) : replanner.config,
        donors: replanner.donors.filter(({ peer }) => isMine(peer)),
        searches: replanner.searches + index * SEARCHES_APART,
      },
    };
  });
}

/** A group's own plan, among the run's wishes. */
const withWish = ({ wishes, ...config }: PlanningConfig, plan: Plan): PlanningConfig => ({
  ...config,
  wishes: { ...wishes, plan },
});

/** As the run has it. */
function withoutWish({ wishes, ...config }: PlanningConfig): PlanningConfig {
  const { plan, ...others } = wishes;
  return { ...config, wishes: wishes.groupPlans === undefined ? wishes : others };
}

/** Where rounds are recorded each group has one, that there was not before. */
function islandsToShare({ train }: CoordinatorConfig, groups: number, giving: Giving | null): number[] {
  const [first, count] = giving ? [giving.nextIsland, groups] : [0, train.islands?.count ?? 1];
  return arrayOf(Number(count), (island) => first + island);
}

/** How many steps of the run stand committed, in all groups. */
export function committedIn(groups: readonly Group[]): number {
  const [first, ...others] = groups.map(({ coordinator }) => coordinator);
  if (first === undefined) return 0;
  if (others.length === 0) return first.committedSteps;
  if (first.turn !== null) return recordedEnd([first, ...others]);
  return [first, ...others].reduce(
    (sum, { config, met, committedSteps }) => sum + stepsBefore(config.train, met, committedSteps, config.own ?? []),
    first.met,
  );
}

/** Of what was begun under a plan nothing is left. */
const BEFORE_PLAN = {
  ...{ proposal: null, warmingUp: null, ask: null, outcome: null, isSavedFirst: false, pending: [] },
  ...{ attempts: NO_ATTEMPTS, sightings: [], relayedSlices: [], doubt: null },
} as const satisfies Partial<CoordinatorState>;

/** All groups as one that has all donors, and stands before a plan. `order`: in which they came. */
export function joined(
  groups: readonly Group[],
  run: CoordinatorConfig,
  order: readonly PeerId[],
  reason: string,
): Group {
  const first = at(groups, 0);
  const all = groups.map(({ coordinator }) => coordinator);
  const place = (peer: PeerId): number => order.indexOf(peer);
  const most = (of: (state: CoordinatorState) => number): number => Math.max(...all.map(of));
  const audits = all.flatMap((state) => state.audits ?? []);
  const newest = all.reduce((one, other) => (one.committedSteps >= other.committedSteps ? one : other));
  return {
    coordinator: {
      ...first.coordinator,
      config: run,
      epoch: most(({ epoch }) => epoch),
      committedSteps: committedIn(groups),
      loss: newest.loss,
      lastCommit: null,
      gathering: all.every(({ gathering }) => gathering === 'whole') ? 'whole' : 'over',
      ...BEFORE_PLAN,
      asks: most(({ asks }) => asks),
      warmUps: most(({ warmUps }) => warmUps),
      departures: all.flatMap(({ departures }) => departures ?? [])[0] ?? null,
      donors: all.flatMap(({ donors }) => donors.map(ofGroup)).toSorted((a, b) => place(a.peer) - place(b.peer)),
      phase: { name: 'planning', before: null, reason, among: 'everyone' },
      turn: null,
      faults: distinct(all.flatMap(({ faults }) => faults)),
      relayed: distinct(all.flatMap(({ relayed }) => relayed)),
      unsaved: distinct(all.flatMap(({ unsaved }) => unsaved)).toSorted((a, b) => a.step - b.step),
      ...(audits.length > 0 && { audits: auditsOfAll(audits) }),
    },
    replanner: {
      ...first.replanner,
      config: withoutWish(first.replanner.config),
      donors: groups.flatMap(({ replanner }) => replanner.donors).toSorted((a, b) => place(a.peer) - place(b.peer)),
      searches: Math.max(...groups.map(({ replanner }) => replanner.searches)),
      ...{ needed: null, comparison: null, arrival: null, causes: [] },
    },
  };
}

/** One donor with all that is known of it. */
interface Moved {
  readonly donor: Donor;
  readonly known: Group['replanner']['donors'];
}

/** The donor has to be in it, or nothing changes and what is known is of nobody. */
export function withoutDonor(group: Group, peer: PeerId): readonly [Group, Moved | null] {
  const { coordinator, replanner } = group;
  const donor = coordinator.donors.find((one) => one.peer === peer);
  if (donor === undefined) return [group, null];
  const isOther = (one: { readonly peer: PeerId }): boolean => one.peer !== peer;
  return [
    {
      coordinator: { ...coordinator, donors: coordinator.donors.filter(isOther) },
      replanner: { ...replanner, donors: replanner.donors.filter(isOther) },
    },
    { donor, known: replanner.donors.filter((one) => one.peer === peer) },
  ];
}

/** It is of this group from now on: a plan may have it. */
export function withDonor({ coordinator, replanner }: Group, { donor, known }: Moved): Group {
  const cause = { reason: `${donor.peer} joins`, by: null };
  return {
    coordinator: { ...coordinator, donors: [...coordinator.donors, ofGroup(donor)] },
    replanner: {
      ...replanner,
      donors: [...replanner.donors, ...known],
      causes: replanner.config.wishes.auto ? [...replanner.causes, cause] : replanner.causes,
    },
  };
}

const ofGroup = ({ isApart: _, ...donor }: Donor): Donor => donor;

/** One more, with a new island: it begins at the checkpoint of the last meeting, and asks for a plan. */
export function newGroup(groups: readonly Group[], island: number, moved: readonly Moved[], giving: Giving): Group {
  const { coordinator: first, replanner } = at(groups, 0);
  const all = groups.map(({ coordinator }) => coordinator);
  const most = (of: (state: CoordinatorState) => number): number => Math.max(...all.map(of));
  const donors = moved.map(({ donor }) => ofGroup(donor));
  const isHere = (peer: PeerId): boolean => donors.some((donor) => donor.peer === peer);
  const { searches } = replanner;
  const used = Math.max(searches, ...groups.map((group) => group.replanner.searches));
  return {
    coordinator: {
      ...first,
      config: { ...first.config, own: [island], evaluation: null },
      epoch: most(({ epoch }) => epoch),
      committedSteps: first.met,
      turn: newTurn(giving),
      lastCommit: null,
      gathering: 'over',
      lossScale: first.savedLossScale,
      ...BEFORE_PLAN,
      asks: most(({ asks }) => asks),
      warmUps: most(({ warmUps }) => warmUps),
      departures: null,
      donors,
      phase: { name: 'planning', before: null, reason: `island ${island + 1} begins`, among: 'everyone' },
      faults: distinct(all.flatMap(({ faults }) => faults)),
      relayed: distinct(all.flatMap(({ relayed }) => relayed)).filter((pair) => pair.every(isHere)),
      newestSteps: [],
      unsaved: [],
    },
    replanner: {
      ...beginReplanning(replanner.config),
      donors: moved.flatMap(({ known }) => known),
      searches: SEARCHES_APART * (Math.floor(used / SEARCHES_APART) + 1),
    },
  };
}

export function distinct<Item>(items: readonly Item[]): Item[] {
  return [...new Map(items.map((item) => [JSON.stringify(item), item])).values()];
}

/** The group that a donor is in, else the first. */
export const groupOf = (groups: readonly Group[], peer: PeerId): number =>
  Math.max(
    0,
    groups.findIndex(({ coordinator }) => coordinator.donors.some((donor) => donor.peer === peer)),
  );

export const stateOf = (groups: readonly Group[], peer: PeerId): CoordinatorState =>
  at(groups, groupOf(groups, peer)).coordinator;

/** Who loses by it if it vanishes now, and whether it means to stay; null: it has no part. */
export function missing(groups: readonly Group[], peer: PeerId) {
  const state = stateOf(groups, peer);
  const by = missedBy(state, peer);
  const stays = state.donors.some((donor) => donor.peer === peer && donor.wish === 'compute');
  return by && { by, stays };
}

/** A newcomer goes where the fewest are, or are waited for. */
export function smallest(groups: readonly Group[]): number {
  const sizes = groups.map(({ coordinator: { donors, phase } }) => {
    const newest = phase.name === 'returning' ? phase.plans.at(-1) : undefined;
    return Math.max(donors.length, newest === undefined ? 0 : peers(newest.plan).length);
  });
  return sizes.indexOf(Math.min(...sizes));
}
