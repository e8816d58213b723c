/**
 * Copies that a plan begins without: where they are large nobody waits for them. Each of its steps sends a part of them
 * beside its own work, as it stands before that step, and their keepers add every step's gradients from the first one on,
 * so that what they were sent stays current. Both ends compute the same list from the two plans. Rules RE in SPEC.md.
 */
import { countIn, overlap, type PeerId, type Range, total } from '../base.ts';
import { pieces } from '../model/layout.ts';
import type { BlockName, Model } from '../model/model.ts';
import { holdings, type Transfer, without } from './handover.ts';
import { keepersOf, type Plan, peers } from './plan.ts';
import type { StateKind } from './stateKinds.ts';
import { keptBy } from './uploader.ts';

/** A replica that does not have its shard yet. */
export interface LateCopy {
  readonly from: PeerId;
  readonly to: PeerId;
  readonly block: BlockName;
  /** The shard's. */
  readonly range: Range;
}

/** Replicas that get their shards beside the steps. They are stale until all of it is theirs. */
export interface Filling {
  readonly late: readonly LateCopy[];
  /** Of `lateTransfers` so many are sent, or are by the step in progress. */
  readonly sent: number;
  /** The step that sends the last of them; null: it is to come. */
  readonly lastStep: number | null;
}

/** The replicas of a plan that do not have all of their shard under the plan before. */
export function lateCopies(before: Plan, after: Plan): LateCopy[] {
  return after.state.flatMap(({ block, shards }) => {
    const had = before.state.find((state) => state.block === block)?.shards ?? [];
    return shards.flatMap(({ peer: from, replicas, range }) =>
      replicas
        .filter((to) => {
          const own = had.filter((shard) => keepersOf(shard).includes(to));
          const elements = own.map((shard) => overlap(shard.range, range) ?? [0, 0]).map(([start, end]) => end - start);
          return total(elements) < countIn(range);
        })
        .map((to) => ({ from, to, block, range })),
    );
  });
}

/** The plan as it is in place when its first step begins. */
export function withoutLate(plan: Plan, late: readonly LateCopy[]): Plan {
  if (late.length === 0) return plan;
  const isLate = (peer: PeerId, block: BlockName, range: Range): boolean =>
    late.some((copy) => copy.to === peer && copy.block === block && copy.range[0] === range[0]);
  const state = plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) =>
      keptBy(
        shard,
        shard.peer,
        shard.replicas.filter((peer) => !isLate(peer, block, shard.range)),
      ),
    ),
  }));
  return { ...plan, state };
}

/** All that is to be sent, in its order: pieces of 4 MiB at most. */
export const lateTransfers = (kinds: readonly StateKind[], late: readonly LateCopy[]): Transfer[] =>
  late.flatMap(({ range, ...copy }) =>
    pieces(range).flatMap((piece) => kinds.map((kind) => ({ ...copy, kind, range: piece }))),
  );

/**
 * The plan with copies at those who will need that state under the next one: when these are there, little is left to move.
 * Who computes with a block gets all of it, where there is room; else what it is to keep.
 */
export function withCopiesAhead(
  model: Model,
  plan: Plan,
  next: Plan,
  hasRoom: (peer: PeerId, ahead: Plan) => boolean,
): Plan {
  let ahead = plan;
  for (const peer of peers(next)) {
    const ways = (['value', 'm'] as const).map((kind) =>
      withCopiesAt(ahead, peer, needs(model, plan, next, peer, kind)),
    );
    ahead = ways.find((one) => one === ahead || hasRoom(peer, one)) ?? ahead;
  }
  return ahead;
}

/** What a peer has under the next plan, to compute with it or to keep it, and not under this one. */
function needs(model: Model, plan: Plan, next: Plan, peer: PeerId, most: 'value' | 'm') {
  return new Map(
    model.blocks.map(({ name }) => {
      const kinds = most === 'value' ? (['m', 'value'] as const) : (['m'] as const);
      const ranges = kinds.flatMap((kind) => {
        const own = holdings(model, plan, peer, name, kind);
        return holdings(model, next, peer, name, kind).flatMap((range) => without(range, own));
      });
      return [name, ranges] as const;
    }),
  );
}

function withCopiesAt(plan: Plan, peer: PeerId, needed: ReadonlyMap<BlockName, readonly Range[]>): Plan {
  let isMore = false;
  const state = plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => {
      const isNeeded = needed.get(block)?.some((range) => overlap(range, shard.range) !== null) ?? false;
      if (!isNeeded || keepersOf(shard).includes(peer)) return shard;
      isMore = true;
      return { ...shard, replicas: [...shard.replicas, peer] };
    }),
  }));
  return isMore ? { ...plan, state } : plan;
}
