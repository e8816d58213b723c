/**
 * A change of plan without a loss: what each peer of the new plan needs, and who of the old plan sends it. Both ends
 * compute the same list from the two plans, so nobody asks for anything. A peer that has a range already keeps its own
 * copy; every other range comes from its first keeper who stays, so that who leaves gives only what nobody else has.
 * Rules HO in SPEC.md.
 */
import { invariant, overlap, type PeerId, type Range } from '../base.ts';
import { pieces } from '../model/layout.ts';
import { updatedParts } from '../model/matrices.ts';
import { type BlockName, block as blockOf, type Model } from '../model/model.ts';
import type { Islands } from '../run/runFile.ts';
import { keepersOf, keptUses, type Plan, peers, type Shard } from './plan.ts';
import { FLOAT_BYTES, isOf, loadedKinds, type StateKind } from './stateKinds.ts';

export interface Transfer {
  /** Equal where a peer keeps what it has. */
  readonly from: PeerId;
  readonly to: PeerId;
  readonly block: BlockName;
  readonly kind: StateKind;
  readonly range: Range;
}

/** Of a kept range what there is of a kind: of all but second moments, which whole matrices have not, all of it. */
export const partsOfKind = (model: Model, name: BlockName, kind: StateKind, range: Range): readonly Range[] =>
  isOf(kind, 'v') ? updatedParts(blockOf(model, name), range, 'elements') : [range];

/** The ranges of a block that a peer has under a plan, of a kind; ascending, not overlapping. */
export function holdings(model: Model, plan: Plan, peer: PeerId, block: BlockName, kind: StateKind): Range[] {
  const kept = plan.state
    .filter((state) => state.block === block)
    .flatMap(({ shards }) => shards.filter((shard) => keepersOf(shard).includes(peer)).map(({ range }) => range));
  if (kind !== 'value') return union(kept.flatMap((range) => partsOfKind(model, block, kind, range)));
  const used = plan.stages
    .filter(({ members }) => members.some((member) => member.peer === peer))
    .flatMap((stage) => keptUses(model, plan, plan.stages.indexOf(stage)))
    .filter((use) => use.block === block)
    .flatMap(({ ranges }) => ranges);
  return union([...kept, ...used]);
}

/**
 * Everything that has to be in place before the new plan's first step, each element once a receiver and kind.
 * `keptOnly`: a peer's own values count only where it keeps them, not where it computed with them: those may be halves (in
 * a run that asked for f16), or of the step before (where their primary is gone). Where values go as codes each comes
 * from one keeper, to the others too: all who compute with it begin with the same bits, whatever their adapters.
 */
export function transfers(
  model: Model,
  kinds: readonly StateKind[],
  before: Plan,
  after: Plan,
  keptOnly = false,
): Transfer[] {
  const found: Transfer[] = [];
  const stay = new Set(peers(after));
  for (const to of stay) {
    for (const { name: block } of model.blocks) {
      for (const kind of kinds) {
        const exact = kind === 'value' && keptOnly ? 'm' : kind; // of moments a peer has what it keeps
        const isGiven = kind === 'value' && before.stateWire !== undefined;
        const own = isGiven ? given(before, to, block, stay) : holdings(model, before, to, block, exact);
        for (const need of holdings(model, after, to, block, kind)) {
          for (const range of common(need, own)) found.push({ from: to, to, block, kind, range });
          for (const missing of without(need, own)) {
            for (const { peer: from, range } of givers(before, block, missing, stay)) {
              for (const piece of pieces(range)) found.push({ from, to, block, kind, range: piece });
            }
          }
        }
      }
    }
  }
  return found;
}

/** Who stays of a shard's keepers, in the plan's order. */
const giverOf = (shard: Shard, stay: ReadonlySet<PeerId>): PeerId =>
  keepersOf(shard).find((keeper) => stay.has(keeper)) ?? shard.peer;

/** The ranges of a block that others have from this peer. */
const given = ({ state }: Plan, peer: PeerId, block: BlockName, stay: ReadonlySet<PeerId>): Range[] =>
  union(
    state.flatMap((one) =>
      one.block === block ? one.shards.filter((shard) => giverOf(shard, stay) === peer).map(({ range }) => range) : [],
    ),
  );

function givers(
  plan: Plan,
  block: BlockName,
  range: Range,
  stay: ReadonlySet<PeerId>,
): { peer: PeerId; range: Range }[] {
  const placed = plan.state.find((state) => state.block === block);
  invariant(placed, `the plan places ${block}`);
  return placed.shards.flatMap((shard) => {
    const part = overlap(shard.range, range);
    return part ? [{ peer: giverOf(shard, stay), range: part }] : [];
  });
}

function union(ranges: readonly Range[]): Range[] {
  const merged: Range[] = [];
  for (const [from, to] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last && from <= last[1]) merged[merged.length - 1] = [last[0], Math.max(last[1], to)];
    else merged.push([from, to]);
  }
  return merged;
}

const common = (need: Range, own: readonly Range[]): Range[] =>
  own.map((range) => overlap(need, range)).filter((part) => part !== null);

export function without([from, to]: Range, own: readonly Range[]): Range[] {
  const rest: Range[] = [];
  let reached = from;
  for (const [start, end] of own) {
    if (start >= to) break;
    if (start > reached) rest.push([reached, start]);
    reached = Math.max(reached, end);
  }
  if (reached < to) rest.push([reached, to]);
  return rest;
}

/** Of a checkpoint: what this peer holds and keeps of it under the plan. */
export function loadedBytes(model: Model, islands: Islands | undefined, plan: Plan, peer: PeerId): number {
  const kinds = loadedKinds(islands, plan.islands, plan.owned);
  // The values that it holds too; of every other kind what it keeps.
  const ranges = model.blocks.flatMap(({ name }) => kinds.flatMap((kind) => holdings(model, plan, peer, name, kind)));
  return ranges.reduce((elements, [from, to]) => elements + to - from, 0) * FLOAT_BYTES;
}
