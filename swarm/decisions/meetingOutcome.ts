/**
 * What the words of a meeting come to: all have the same, or who has something else. Where nobody owns anything each has
 * worked out what it says, and most are believed. With owners the workers of a range have, and the others only follow what
 * the first of them published: however many they are they bear out nothing. Rules IS in SPEC.md.
 */
import { at, type PeerId } from '../base.ts';
import type { Pair } from '../coordinator/events.ts';
import { type PlanInForce, shardKey } from '../coordinator/state.ts';
import type { MeetingOwners } from '../messages/meetingWords.ts';
import { meetingCuts } from '../ways/meeting.ts';
import { workersOf } from '../ways/ownedPassages.ts';
import { digestsOf, expectedOf, groupsOf, type Meeting } from './meeting.ts';

/**
 * open: not all have met, these are missing. whole: all have come to the same. unequal: these have not what most have;
 * `against`: who has not what the other one says that it published. `atOdds`: whose words differ, where they show no more.
 */
export type Outcome =
  | { readonly of: 'open'; readonly missing: readonly PeerId[] }
  | { readonly of: 'whole' }
  | ({ readonly of: 'unequal' } & Judged);

interface Judged {
  readonly few: readonly PeerId[];
  readonly against: readonly Pair[];
  readonly atOdds: readonly Pair[];
}

/** Who said each digest of one thing. */
type Words = ReadonlyMap<string, readonly PeerId[]>;

export function outcomeOf(meeting: Meeting, plans: readonly PlanInForce[]): Outcome {
  const { met, owners } = meeting;
  const missing = [...expectedOf(meeting, plans).keys()].filter((peer) => met.every((one) => one.peer !== peer));
  if (missing.length > 0) return { of: 'open', missing };
  const words = new Map<string, Map<string, PeerId[]>>();
  for (const { peer, said } of met)
    for (const [key, digest] of digestsOf(said)) {
      const found = words.get(key) ?? new Map<string, PeerId[]>();
      words.set(key, found.set(digest, [...(found.get(digest) ?? []), peer]));
    }
  const unequal = [...words].filter(([, { size }]) => size > 1);
  if (unequal.length === 0) return { of: 'whole' };
  const workers = owners === null ? null : workersByPart(owners, plans);
  const all = unequal.map(([key, said]) => {
    const own = workers?.get(key);
    return own === undefined ? mostOf(said) : judged(said, own);
  });
  const few = new Set(all.flatMap((one) => one.few));
  const [against, atOdds] = [all.flatMap((one) => one.against), all.flatMap((one) => one.atOdds)];
  return { of: 'unequal', few: [...few], against, atOdds };
}

/** Of what every keeper has. */
function workersByPart({ ranges }: MeetingOwners, plans: readonly PlanInForce[]): Map<string, readonly PeerId[]> {
  const cuts = meetingCuts(groupsOf(plans), { ranges });
  return new Map(
    ranges.flatMap((one) =>
      cuts(one.block, one.range).map((part) => [shardKey(one.block, part), workersOf(one)] as const),
    ),
  );
}

function mostOf(said: Words): Judged {
  const sides = [...said.values()].toSorted((a, b) => b.length - a.length);
  const rest = sides.slice(1).flat();
  const few = at(sides, 0).length > rest.length ? rest : [];
  return { few, against: [], atOdds: few.length > 0 ? [] : between(sides) };
}

/** Each with each of another side. */
const between = (sides: readonly (readonly PeerId[])[]): Pair[] =>
  sides.flatMap((side, place) =>
    side.flatMap((one) => sides.slice(place + 1).flatMap((others) => others.map((other): Pair => [one, other]))),
  );

/** Where workers differ nobody knows more than they do. Else the others have it from the first one, who may have sent some of them something else. */
function judged(said: Words, workers: readonly PeerId[]): Judged {
  const isWorker = (peer: PeerId): boolean => workers.includes(peer);
  const sides = [...said.values()].map((peers) => peers.filter(isWorker));
  const [worked, ...others] = [...said.values()].filter((peers) => peers.some(isWorker));
  if (worked === undefined || others.length > 0) return { few: [], against: [], atOdds: between(sides) };
  const differing = [...said.values()].filter((peers) => peers !== worked).flat();
  const areFew = worked.filter((peer) => !isWorker(peer)).length >= differing.length;
  return { few: areFew ? differing : [], against: differing.map((peer) => [peer, at(workers, 0)]), atOdds: [] };
}
