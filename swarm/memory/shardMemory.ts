/**
 * What a keeper of shards allocates for them on its GPU, and how it works on each. `createShards` makes exactly this list.
 */
import { got, overlap, type PeerId, type Range } from '../base.ts';
import { arena, SLICE_ELEMENTS } from '../model/layout.ts';
import { type BlockName, block, type Model } from '../model/model.ts';
import { codedParts, codesSums, codesValues } from '../plan/codedState.ts';
import { gatheringHome, type Holder, holderOfAll, holders, keepersOf, type Plan } from '../plan/plan.ts';
import { STATE_KINDS } from '../plan/stateKinds.ts';
import type { Compute } from '../precision.ts';
import { packedWords } from '../wire.ts';
import { type BufferSpec, PASSES, readback, storage, storageInParts } from './bufferSpec.ts';

/** Partial sums of a norm, added up on the CPU in float64. */
export const PARTIALS = 256;
/** Learning rate, clip scale and what else AdamW reads, as floats. */
export const SCALARS = 8;
/** Name of where a gradient of what is gathered comes in, whichever shard it is of. */
export const GATHERED_INCOMING = 'incoming/gathered';
/** Names of where what goes as codes passes: floats, what holders have of them, the codes. */
export const CODEC_FLOATS = 'codec/floats';
export const CODEC_HELD = 'codec/held';
export const CODEC_CODES = 'codec/codes';

/** How a keeper works on a shard of its own: where the values lie, and what it adds up in which order. */
export interface ShardWork {
  readonly block: BlockName;
  readonly range: Range;
  /** The primary, then the replicas: this peer is one of them. */
  readonly keepers: readonly PeerId[];
  readonly isPrimary: boolean;
  /** Where its values, moments and sums are: on the GPU, or in main memory. */
  readonly in: 'gpu' | 'host';
  /** Its gradient comes from each micro-batch apart. */
  readonly isGathered: boolean;
  /** Stage of this peer whose values buffer the update writes; null: it has none that holds this range. */
  readonly valuesStage: number | null;
  /** Where the float32 master is: that buffer, or one of the shard's own. Neither a stage's halves nor what lies beside main memory is a master, nor what holders have of codes. */
  readonly master: 'stage' | 'own';
  /** Its new values go as codes: whoever computes with them has what these add up to. */
  readonly isCoded: boolean;
  /** Gradient sums to add, in order. */
  readonly holders: readonly Holder[];
  /** The first sum is this peer's own and the shard all of it: the others are added onto it where it lies. */
  readonly sumInPlace: boolean;
}

/** Its new values go from here to who computes with them, who waits for them. */
export const isPassedOn = ({ isPrimary, isCoded, valuesStage, holders: all }: ShardWork): boolean =>
  isPrimary && (isCoded || all.length > (valuesStage === null ? 0 : 1));

/**
 * What is in main memory, in the order in which it is updated: what others wait for, then what the next forward computes with,
 * in its order.
 */
export const inUpdateOrder = <Of extends { readonly work: ShardWork }>(shards: readonly Of[]): Of[] =>
  shards
    .filter(({ work }) => work.in === 'host')
    .sort((a, b) => Number(isPassedOn(b.work)) - Number(isPassedOn(a.work)));

const isAll = (range: Range, [only, ...more]: readonly Range[]): boolean =>
  more.length === 0 && only !== undefined && only[0] === range[0] && only[1] === range[1];

export function shardsOf(
  model: Model,
  plan: Plan,
  peer: PeerId,
  known: ReturnType<typeof holders> = holders(model, plan),
  compute: Compute = 'f32',
): ShardWork[] {
  return plan.state.flatMap(({ block: name, shards }) => {
    const kept = shards.filter((shard) => keepersOf(shard).includes(peer));
    const order = kept.length === 0 ? [] : got(known, name);
    return kept.map((shard): ShardWork => {
      const { range } = shard;
      const own = holderOfAll(order, peer, range);
      const isCoded = codesValues(plan, shard, order);
      const isGathered = gatheringHome(plan, name) !== null;
      const concerned = order.filter(({ ranges }) => ranges.some((part) => overlap(part, range)));
      return {
        block: name,
        range,
        keepers: keepersOf(shard),
        isPrimary: shard.peer === peer,
        valuesStage: own?.stage ?? null,
        in: shard.in ?? 'gpu',
        isGathered,
        master: own && compute === 'f32' && shard.in !== 'host' && !isCoded ? 'stage' : 'own',
        isCoded,
        holders: concerned,
        // Gradients of what is gathered come while the stage that has the table whole still adds its own.
        sumInPlace:
          !isGathered &&
          shard.in !== 'host' &&
          own !== undefined &&
          own === concerned[0] &&
          isAll(range, own.ranges) &&
          !codesSums(plan, shard, peer),
      };
    });
  });
}

/** Everything a peer has on its GPU as a keeper of shards: moments, sums of others' slices, its own values where it holds none. */
export function shardBuffers(
  model: Model,
  plan: Plan,
  peer: PeerId,
  known?: ReturnType<typeof holders>,
  compute?: Compute,
): BufferSpec[] {
  const work = shardsOf(model, plan, peer, known, compute).filter((shard) => shard.in === 'gpu');
  if (work.length === 0) return [];
  const specs = work.flatMap((one) => {
    const { block: name, range, master, holders: order, sumInPlace, isGathered } = one;
    const { floats } = arena(block(model, name), [range], compute);
    const key = shardBufferKey(name, range);
    const part = (what: string): BufferSpec => storageInParts(`${what}/${key}`, floats);
    const own = [part('m'), part('v'), storage(`partials/${key}`, PARTIALS)];
    if (master === 'own') own.push(part('values'));
    if (hasHeld(one)) own.push(part('held'));
    if (!sumInPlace) own.push(part('sum'));
    if (order.length > 1 && !isGathered) own.push(part('incoming'));
    return own;
  });
  const largest = Math.max(...work.map(({ range }) => range[1] - range[0]));
  const most = work.reduce(
    (so, { block: name, range, isGathered }) =>
      isGathered ? Math.max(so, arena(block(model, name), [range], compute).floats) : so,
    0,
  );
  const stages = plan.stages.filter(({ members }) => members.some((member) => member.peer === peer)).length;
  return [
    ...specs,
    ...(most > 0 ? [storageInParts(GATHERED_INCOMING, most)] : []),
    ...codecBuffers(work),
    storage('scalars', SCALARS),
    storage(PASSES, 1),
    // Behind the values the counters: of the shards, and of the stages whose gradients the norm is of.
    readback('partialsReadback', PARTIALS * work.length + 1 + stages),
    readback('shardReadback', Math.min(largest, SLICE_ELEMENTS) * STATE_KINDS.length + 1),
  ];
}

/** A primary that does not compute with its values keeps what their holders have beside them. */
export const hasHeld = ({ isPrimary, isCoded, valuesStage }: ShardWork): boolean =>
  isPrimary && isCoded && valuesStage === null;

/** Where a primary's values and what their holders have become codes, a piece at a time. */
function codecBuffers(work: readonly ShardWork[]): BufferSpec[] {
  const parts = work
    .filter(({ isPrimary, isCoded }) => isPrimary && isCoded)
    .flatMap(({ holders: order, range }) => codedParts(order, range));
  const largest = parts.reduce((most, [from, to]) => Math.max(most, to - from), 0);
  if (largest === 0) return [];
  return [
    storage(CODEC_FLOATS, largest),
    storage(CODEC_HELD, largest),
    storage(CODEC_CODES, packedWords('int8', largest)),
  ];
}

/** What ends the name of each of a shard's buffers. A peer's shards of one block have different beginnings. */
export const shardBufferKey = (name: BlockName, range: Range): string => `${name}/${range[0]}`;
