/**
 * What groups of donors send each other when their islands meet. The primary of a range says to every other keeper of any
 * part of it, in whichever group, what each island of its own changed there. All who keep a range add up the same packets,
 * so every group comes to the same bits. Where what islands share lies with owners, they do instead (ownedPassages.ts).
 * Rules IS in SPEC.md.
 */
import { overlap, type Range } from '../base.ts';
import type { MeetingOwners } from '../messages/meetingWords.ts';
import type { Model } from '../model/model.ts';
import { keepersOf } from '../plan/plan.ts';
import { type OwnedPassage, ownedPackets, ownedPassages } from './ownedPassages.ts';
import { type MeetingGroup, type MeetingSettings, type PacketPassage, packetsTo, shardsOf } from './packets.ts';
import { type Partners, partnersIn } from './partners.ts';

export type MeetingPassage = PacketPassage | OwnedPassage;

/** In an order that follows from the groups, and the owners. */
export const meetingPassages = (
  model: Model,
  settings: MeetingSettings,
  groups: readonly MeetingGroup[],
  owners?: MeetingOwners,
): MeetingPassage[] =>
  owners
    ? [...ownedPackets(model, settings, groups, owners), ...ownedPassages(model, settings, groups, owners)]
    : packetPassages(model, settings, groups);

/** Where what islands share lies with every keeper. */
function packetPassages(model: Model, settings: MeetingSettings, groups: readonly MeetingGroup[]): PacketPassage[] {
  return model.blocks.flatMap((own) => {
    const shards = groups.flatMap(({ state }) => shardsOf(state, own.name));
    return groups.flatMap((group) =>
      shardsOf(group.state, own.name).flatMap(({ peer, range }) =>
        shards.flatMap((shard) =>
          packetsTo(model, settings, group, peer, keepersOf(shard), own, overlap(range, shard.range)),
        ),
      ),
    );
  });
}

/** Those of a meeting at which islands did so many steps: who did none says nothing, and of no step nothing is published. */
export function passagesOf(all: readonly MeetingPassage[], steps: readonly number[]): MeetingPassage[] {
  const isAny = steps.some((own) => own > 0);
  return all.filter(({ island, tensor }) =>
    island === null ? isAny || tensor.kind !== 'published' : (steps[island] ?? 0) > 0,
  );
}

export const meetingPartners = (
  model: Model,
  settings: MeetingSettings,
  groups: readonly MeetingGroup[],
  owners?: MeetingOwners,
): Partners => partnersIn(meetingPassages(model, settings, groups, owners));

/** Parts of a range of a block. */
export type Cuts = (name: string, range: Range) => Range[];

/** Cut wherever any group's state is, or a range with owners: so the digests of all who have some of it can be compared. */
export function meetingCuts(groups: readonly MeetingGroup[], owners?: Pick<MeetingOwners, 'ranges'> | null): Cuts {
  const ends = new Map<string, number[]>();
  const cut = (name: string, range: Range): void => {
    const known = ends.get(name);
    if (known) known.push(...range);
    else ends.set(name, [...range]);
  };
  for (const { state } of groups)
    for (const { block, shards } of state) for (const { range } of shards) cut(block, range);
  for (const { block, range } of owners?.ranges ?? []) cut(block, range);
  const sorted = new Map([...ends].map(([name, all]) => [name, [...new Set(all)].sort((a, b) => a - b)] as const));
  return (name, [from, to]) => {
    const inside = (sorted.get(name) ?? []).filter((place) => from < place && place < to);
    const places = [from, ...inside, to];
    return places.slice(1).map((end, index) => [places[index] ?? from, end]);
  };
}
