/** Packets of islands by name: what an island says of a range on its way from who makes it to who adds it. Rules IS in SPEC.md. */
import type { PeerId, Range } from '../base.ts';
import { packetBytes } from '../islands/packet.ts';
import { SLICE_ELEMENTS, tensorParts } from '../model/layout.ts';
import { type Block, type BlockName, block, type Model } from '../model/model.ts';
import type { Plan, Shard } from '../plan/plan.ts';
import { cutUpTo } from '../plan/shardCuts.ts';
import type { Islands } from '../run/runFile.ts';
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

export type MeetingSettings = Pick<Islands, 'exchange' | 'publish'>;

/** To each of these but the sender, of each island. */
export const packetsTo = (
  model: Model,
  settings: MeetingSettings,
  { islands }: Pick<MeetingGroup, 'islands'>,
  from: PeerId,
  peers: readonly PeerId[],
  own: Block,
  range: Range | null,
): PacketPassage[] =>
  travelling(own, settings, range).flatMap((part) =>
    peers.flatMap((to) =>
      islands.flatMap((island): PacketPassage[] => {
        if (from === to) return [];
        const saying = { block: own.name, island, range: part };
        return [{ ...saying, from, to, tensor: packetTensor(model, settings, saying) }];
      }),
    ),
  );

export const shardsOf = (state: Plan['state'], name: BlockName): readonly Shard[] =>
  state.find((one) => one.block === name)?.shards ?? [];

/** A range in pieces that travel, each beginning where a run and a block of codes do. */
export function travelling(own: Block, settings: MeetingSettings, range: Range | null): Range[] {
  const found: Range[] = [];
  for (let from = range?.[0] ?? 0; range && from < range[1]; ) {
    const end = from + SLICE_ELEMENTS;
    const to = end >= range[1] ? range[1] : cutUpTo(own, settings, end);
    found.push([from, to]);
    from = to;
  }
  return found;
}

function packetTensor(model: Model, { exchange }: MeetingSettings, { block: name, island, range }: Saying): TensorName {
  const words = packetBytes(exchange, tensorParts(block(model, name), range)) / 4;
  return { kind: 'packet', stage: island, index: blockIndex(model, name), range: [range[0], range[0] + words] };
}
