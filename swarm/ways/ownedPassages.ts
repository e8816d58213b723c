/**
 * What is sent at a meeting where what islands share lies with owners. Of each range there are workers: who has it, or who
 * is to have it and reads it from a checkpoint. Packets go to them, and to copies, whose left-overs follow what was sent;
 * the first worker sends what is published to whoever keeps any of it, and what is shared to who is to have it. Rules IS in
 * SPEC.md.
 */
import { at, overlap, type PeerId, type Range } from '../base.ts';
import { codeWords } from '../islands/codes.ts';
import type { MeetingOwners, OwnedRange } from '../messages/meetingWords.ts';
import { pieces, tensorParts } from '../model/layout.ts';
import type { Block, BlockName, Model } from '../model/model.ts';
import { keepersOf } from '../plan/plan.ts';
import { SHARED_KINDS } from '../plan/stateKinds.ts';
import {
  type MeetingGroup,
  type MeetingSettings,
  type PacketPassage,
  packetsTo,
  shardsOf,
  travelling,
} from './packets.ts';
import type { Passage } from './passage.ts';
import { blockIndex } from './tensors.ts';

/** Of no island: what an owner sends of a range. */
export interface OwnedPassage extends Passage {
  readonly block: BlockName;
  readonly range: Range;
  readonly island: null;
}

/** Who adds what islands say of a range. The first one sends what comes of it. */
export const workersOf = ({ have, keep }: Pick<OwnedRange, 'have' | 'keep'>): readonly PeerId[] =>
  have.length > 0 ? have : keep;

export function ownedPackets(
  model: Model,
  settings: MeetingSettings,
  groups: readonly MeetingGroup[],
  owners: MeetingOwners,
): PacketPassage[] {
  const byBlock = rangesByBlock(owners);
  return model.blocks.flatMap((own) =>
    groups.flatMap((group) =>
      shardsOf(group.state, own.name).flatMap((shard) => {
        const { peer, range, replicas } = shard;
        const keepers = keepersOf(shard);
        return [
          ...packetsTo(model, settings, group, peer, replicas, own, range),
          ...(byBlock.get(own.name) ?? []).flatMap((owned) => {
            // A copy is sent all of the range.
            const workers = workersOf(owned).filter((worker) => !keepers.includes(worker));
            return packetsTo(model, settings, group, peer, workers, own, overlap(range, owned.range));
          }),
        ];
      }),
    ),
  );
}

export function ownedPassages(
  model: Model,
  settings: MeetingSettings,
  groups: readonly MeetingGroup[],
  owners: MeetingOwners,
): OwnedPassage[] {
  const byBlock = rangesByBlock(owners);
  return model.blocks.flatMap((own) =>
    (byBlock.get(own.name) ?? []).flatMap((owned) => [
      ...published(model, settings, groups, own, owned),
      ...shared(model, groups, own, owned, owners.savedBy),
    ]),
  );
}

/** As codes, to all who keep any of it and do not work it out. */
function published(
  model: Model,
  settings: MeetingSettings,
  groups: readonly MeetingGroup[],
  own: Block,
  owned: OwnedRange,
): OwnedPassage[] {
  const workers = workersOf(owned);
  return groups.flatMap(({ state }) =>
    shardsOf(state, own.name).flatMap((shard) =>
      travelling(own, settings, overlap(shard.range, owned.range)).flatMap((range) => {
        const words = codeWords(tensorParts(own, range));
        const index = blockIndex(model, own.name);
        return keepersOf(shard)
          .filter((keeper) => !workers.includes(keeper))
          .map((to) => ({
            ...{ from: at(workers, 0), to, block: own.name, range, island: null },
            tensor: { kind: 'published' as const, stage: 0, index, range: [range[0], range[0] + words] as const },
          }));
      }),
    ),
  );
}

/** As floats, to who has it from now on, and what a checkpoint has of it to who saves that. */
function shared(
  model: Model,
  groups: readonly MeetingGroup[],
  own: Block,
  owned: OwnedRange,
  savedBy: readonly number[] = [],
): OwnedPassage[] {
  const workers = workersOf(owned);
  const index = blockIndex(model, own.name);
  const passages = (to: PeerId, of: Range, kinds: readonly string[]): OwnedPassage[] =>
    pieces(of).flatMap((range) =>
      kinds.map((_, stage) => ({
        ...{ from: at(workers, 0), to, block: own.name, range, island: null },
        tensor: { kind: 'shared' as const, stage, index, range },
      })),
    );
  const saved = savedBy.flatMap((place) => shardsOf(groups[place]?.state ?? [], own.name));
  return [
    ...owned.keep.filter((to) => !workers.includes(to)).flatMap((to) => passages(to, owned.range, SHARED_KINDS)),
    ...saved.flatMap((shard) => {
      const part = overlap(shard.range, owned.range);
      const savers = keepersOf(shard).filter((to) => !workers.includes(to) && !owned.keep.includes(to));
      return part ? savers.flatMap((to) => passages(to, part, SAVED_KINDS)) : [];
    }),
  ];
}

/** Of what is shared all but what every keeper has. */
const SAVED_KINDS = SHARED_KINDS.slice(0, 2);

function rangesByBlock({ ranges }: MeetingOwners): Map<string, OwnedRange[]> {
  const found = new Map<string, OwnedRange[]>();
  for (const one of ranges) {
    const known = found.get(one.block);
    if (known) known.push(one);
    else found.set(one.block, [one]);
  }
  return found;
}
