/**
 * Gradient sums and values between holders and keepers as int8 (`precision.state`). Both ends know what the other has.
 *
 * Sums: a holder packs x + r, x being a step's sum and r what the codes of the step before missed, and keeps what they
 * miss now. Every keeper adds the same codes; so does the holder itself where others keep what it keeps. Where a sum goes
 * to nobody else it stays float32.
 *
 * Values: all who compute with a block compute with h, what its holders have. A primary has its master p beside it; after
 * each update it sends the codes of p − h, and it and every holder add them to h. What they miss is in p − h of the next
 * step. A code times its scale has eleven bits, so that this sum is the same on every adapter, fused or not: what the
 * primary believes its holders have they have. A replica updates a master of its own, and is sent no values.
 *
 * An epoch begins without left-overs: h is p, sent as floats where it is sent, and r is 0. Rules WI30 on in SPEC.md.
 */

import type { PeerId, Range } from '../base.ts';
import { pieces } from '../model/layout.ts';
import { type Holder, keepersOf, type Plan, type Shard } from './plan.ts';

/** What somebody computes with of a block. */
type Held = Pick<Holder, 'ranges'>;

/** Whether the holder's sums of a shard are added as codes. */
export const codesSums = ({ stateWire }: Plan, shard: Shard, holder: PeerId): boolean =>
  stateWire !== undefined && keepersOf(shard).some((keeper) => keeper !== holder);

/** Whether a shard's values go as codes: somebody else computes with them. `order`: the block's holders. */
export const codesValues = ({ stateWire }: Plan, { peer, range }: Shard, order: readonly Holder[]): boolean =>
  stateWire !== undefined && concerned(order, range).some((holder) => holder.peer !== peer);

/**
 * A shard's values in pieces that travel, cut alike for all of its holders: one block of codes is the same for those who
 * have the whole block and those who have a part of it.
 */
export function codedParts(order: readonly Held[], range: Range): Range[] {
  const ends = concerned(order, range).flatMap(({ ranges }) => ranges.flat());
  const inside = ends.filter((end) => range[0] < end && end < range[1]).toSorted((a, b) => a - b);
  const cuts = [range[0], ...new Set(inside), range[1]];
  const parts = cuts.slice(1).flatMap((to, index) => pieces([cuts[index] ?? to, to]));
  return parts.filter((part) => order.some((holder) => holdsPart(holder, part)));
}

/** Of such a piece a holder has all or nothing. */
export const holdsPart = ({ ranges }: Held, [from, to]: Range): boolean =>
  ranges.some((range) => range[0] <= from && to <= range[1]);

const concerned = <Of extends Held>(order: readonly Of[], [from, to]: Range): Of[] =>
  order.filter(({ ranges }) => ranges.some((range) => range[0] < to && from < range[1]));
