/**
 * What groups of donors send each other when their islands meet: the primary of a range says to every other keeper of any
 * part of it, in whichever group, what each island of its own changed there. All who keep a range add up the same packets,
 * so every group comes to the same bits. Rules IS in SPEC.md.
 */
import { overlap, type Range } from '../base.ts';
import { packetBytes } from '../islands/packet.ts';
import { SLICE_ELEMENTS, tensorParts } from '../model/layout.ts';
import { type Block, type BlockName, block, type Model } from '../model/model.ts';
import { keepersOf, type Plan, type Shard } from '../plan/plan.ts';
import { cutUpTo } from '../plan/shardCuts.ts';
import type { Islands } from '../run/runFile.ts';
import { type Partners, partnersIn } from './partners.ts';
import type { Passage, TensorName } from './passage.ts';
import { blockIndex } from './tensors.ts';

/** What is known of a group that meets others. */
export interface MeetingGroup {
  readonly islands: readonly number[];
  readonly state: Plan['state'];
}

/** What an island says of a range. */
export interface Saying {
  readonly block: BlockName;
  readonly island: number;
  readonly range: Range;
}

export interface PacketPassage extends Passage, Saying {}

type Settings = Pick<Islands, 'exchange' | 'publish'>;

/** In an order that follows from the groups. */
export function meetingPassages(model: Model, settings: Settings, groups: readonly MeetingGroup[]): PacketPassage[] {
  return model.blocks.flatMap((own) => {
    const shards = groups.flatMap(({ state }) => shardsOf(state, own.name));
    return groups.flatMap(({ islands, state }) =>
      shardsOf(state, own.name).flatMap(({ peer: from, range }) =>
        shards.flatMap((shard) =>
          packetRanges(own, settings, overlap(range, shard.range)).flatMap((part) =>
            keepersOf(shard).flatMap((to) =>
              islands.flatMap((island): PacketPassage[] => {
                if (from === to) return [];
                const saying = { block: own.name, island, range: part };
                return [{ ...saying, from, to, tensor: packetTensor(model, settings, saying) }];
              }),
            ),
          ),
        ),
      ),
    );
  });
}

export const meetingPartners = (model: Model, settings: Settings, groups: readonly MeetingGroup[]): Partners =>
  partnersIn(meetingPassages(model, settings, groups));

/** A range of a block, cut wherever any group's state is: so the digests of all who keep some of it can be compared. */
export function meetingCuts(groups: readonly MeetingGroup[], name: BlockName, [from, to]: Range): Range[] {
  const ends = groups.flatMap(({ state }) => shardsOf(state, name).flatMap(({ range }) => range));
  const places = [...new Set([from, to, ...ends])].filter((place) => from <= place && place <= to);
  places.sort((a, b) => a - b);
  return places.slice(1).map((end, index) => [places[index] ?? from, end]);
}

const shardsOf = (state: Plan['state'], name: BlockName): readonly Shard[] =>
  state.find((one) => one.block === name)?.shards ?? [];

/** In pieces that travel, each beginning where a run and a block of codes do. */
function packetRanges(own: Block, settings: Settings, range: Range | null): Range[] {
  const found: Range[] = [];
  for (let from = range?.[0] ?? 0; range && from < range[1]; ) {
    const end = from + SLICE_ELEMENTS;
    const to = end >= range[1] ? range[1] : cutUpTo(own, settings, end);
    found.push([from, to]);
    from = to;
  }
  return found;
}

function packetTensor(model: Model, { exchange }: Settings, { block: name, island, range }: Saying): TensorName {
  const words = packetBytes(exchange, tensorParts(block(model, name), range)) / 4;
  return { kind: 'packet', stage: island, index: blockIndex(model, name), range: [range[0], range[0] + words] };
}
