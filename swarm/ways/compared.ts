/**
 * Which slices of a step are compared: those of every shard that somebody keeps a copy of. A holder says what it sent, each
 * keeper what it received, so that where two words differ it is known between whom. Rules RE in SPEC.md.
 */
import { got, overlap, type PeerId } from '../base.ts';
import type { BlockName, Model } from '../model/model.ts';
import { holders, keepersOf, type Plan, type Shard } from '../plan/plan.ts';
import { sumParts } from '../plan/tokenRows.ts';
import type { TensorName } from './passage.ts';
import { blockTensor } from './tensors.ts';

export interface ComparedShard {
  readonly block: BlockName;
  readonly shard: Shard;
  /** In the order of their sum. What a keeper computed itself is there too: it sends it to the others. */
  readonly slices: readonly { readonly holder: PeerId; readonly tensor: TensorName }[];
}

/** In the plan's order. */
export function comparedShards(model: Model, plan: Plan): ComparedShard[] {
  const known = holders(model, plan);
  return plan.state.flatMap(({ block, shards }) =>
    shards.flatMap((shard): ComparedShard[] => {
      if (shard.replicas.length === 0) return [];
      const concerned = got(known, block).filter(({ ranges }) => ranges.some((part) => overlap(part, shard.range)));
      const sent = concerned.flatMap(({ peer: holder, stage, ranges }) =>
        sumParts(model, plan, { stage, peer: holder }, { block, ranges }, shard.range).map(({ range }) => ({
          ...{ holder, tensor: blockTensor(model, 'slice', stage, { block, range }, plan.stateWire) },
        })),
      );
      return [{ block, shard, slices: sent }];
    }),
  );
}

/** What this peer sends of shards that it does not keep: of these it tells apart what it sent. */
export const onlySent = (compared: readonly ComparedShard[], peer: PeerId): TensorName[] =>
  compared.flatMap(({ shard, slices: all }) =>
    keepersOf(shard).includes(peer) ? [] : all.flatMap(({ holder, tensor }) => (holder === peer ? tensor : [])),
  );

/** Of one holder's slices of a plan. */
export const sliceName = ({ stage, index, range }: Pick<TensorName, 'stage' | 'index' | 'range'>): string =>
  `${stage}/${index}/${range.join('-')}`;
