/** Packets of islands by name: what an island says of a range on its way from who makes it to who adds it. Rules IS in SPEC.md. */
import type { PeerId, Range } from '../base.ts';
import { packetBytes } from '../islands/packet.ts';
import { SLICE_ELEMENTS, tensorParts } from '../model/layout.ts';
import type { Block, BlockName, Model } from '../model/model.ts';
import type { Plan, Shard } from '../plan/plan.ts';
import { cutUpTo } from '../plan/shardCuts.ts';
import type { Islands } from '../run/runFile.ts';
import type { Passage } from './passage.ts';
import { blockIndex } from './tensors.ts';

/** What is known of a group that meets others. */
export interface MeetingGroup {
  readonly islands: readonly number[];
  readonly state: Plan['state'];
}

/** What an island says of a range. */
export interface PacketPassage extends Passage {
  readonly block: BlockName;
  readonly island: number;
  readonly range: Range;
}

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
  travelling(own, settings, range).flatMap((part) => {
    const words = packetBytes(settings.exchange, tensorParts(own, part)) / 4;
    const index = blockIndex(model, own.name);
    return peers.flatMap((to) =>
      islands.flatMap((island): PacketPassage[] => {
        if (from === to) return [];
        const tensor = { kind: 'packet' as const, stage: island, index, range: [part[0], part[0] + words] as const };
        return [{ block: own.name, island, range: part, from, to, tensor }];
      }),
    );
  });

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
