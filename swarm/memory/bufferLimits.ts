/**
 * How large a buffer may be, and what a kernel binds of it at once. WebGPU guarantees 256 MiB and 128 MiB: of GPT-2's token
 * table kernels bind pieces (boundElements), a larger one is past the buffer. No part of a peer's has a buffer past what its
 * GPU keeps in one, or a tensor past what it binds. Bytes.
 */
import type { PeerId } from '../base.ts';
import { arena } from '../model/layout.ts';
import { block, type Model } from '../model/model.ts';
import { type BlockState, holders, type Plan, peers as peersOf } from '../plan/plan.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../precision.ts';
import { bytesText } from '../quantityText.ts';
import type { RunWire } from '../wire.ts';
import { type BufferSpec, storage } from './bufferSpec.ts';
import { shardBuffers, stageBuffers, stagesOfPeer } from './memory.ts';

/** What a GPU keeps in one buffer, and binds of it at once. */
export interface BufferLimit {
  readonly bufferBytes: number;
  readonly bindingBytes: number;
}

/** Of each peer's GPU; a peer that is not in it takes any. */
export type BufferLimits = ReadonlyMap<PeerId, BufferLimit>;

/** The largest of some buffers, by the whole and by what is bound. */
export interface Largest {
  readonly buffer: BufferSpec;
  readonly binding: BufferSpec;
}
const boundOf = ({ bytes, boundBytes = bytes }: BufferSpec): number => boundBytes;

export const neededOf = ({ buffer, binding }: Largest): BufferLimit => ({
  bufferBytes: buffer.bytes,
  bindingBytes: boundOf(binding),
});

/** Whether a GPU takes all that is needed. */
export const takes = (limit: BufferLimit, needed: BufferLimit): boolean =>
  limit.bufferBytes >= needed.bufferBytes && limit.bindingBytes >= needed.bindingBytes;

export interface Batch {
  /** B samples of T positions. */
  readonly samples: number;
  readonly sequence: number;
  readonly wire?: RunWire;
  /** What the run asks for: with f16 a peer may compute with halves or not. */
  readonly compute?: Compute;
}

const precisionsOf = ({ compute }: Batch): readonly Compute[] => (compute === 'f16' ? COMPUTE_PRECISIONS : ['f32']);

/** Of those that kernels bind. What is read back is a slice, or as large as what it comes from. */
function largest(specs: readonly BufferSpec[]): Largest {
  const most = (sizeOf: (spec: BufferSpec) => number): BufferSpec =>
    specs.reduce((so, spec) => (spec.use === 'storage' && sizeOf(spec) > sizeOf(so) ? spec : so), storage('none', 0));
  return { buffer: most(({ bytes }) => bytes), binding: most(boundOf) };
}

/** Of a stage of these layers on micro-batches of so many samples: how often it has them at once changes no size. */
export function largestOfStage(
  model: Model,
  batch: Batch,
  layers: readonly [number, number],
  samples: number,
): Largest {
  const { sequence } = batch;
  return largest(
    precisionsOf(batch).flatMap((compute) => stageBuffers(model, { layers, samples, sequence, slots: 1, compute })),
  );
}

/** Whatever the plan, no peer has a larger one: what is gathered has a whole end of the model in one place. */
export function largestOfRun(model: Model, batch: Batch): Largest {
  const { samples, sequence } = batch;
  const size = { layers: [0, model.layers] as const, samples, sequence, slots: 1 };
  return largest(
    precisionsOf(batch).flatMap((compute) => [
      ...stageBuffers(model, { ...size, compute }),
      ...(model.standing ? [] : stageBuffers(model, { ...size, compute, gathered: 1 })),
    ]),
  );
}

/** Of all that a peer has for this plan. */
function largestOfPeer(model: Model, batch: Batch, plan: Plan, peer: PeerId, known: ReturnType<typeof holders>) {
  const specs = precisionsOf(batch).flatMap((compute) => {
    const sizes = stagesOfPeer(plan, peer, batch.sequence, batch.wire, compute, new Map());
    const stages = [...sizes.values()].flatMap((size) => stageBuffers(model, { ...size, slots: 1 }));
    return [...stages, ...shardBuffers(model, plan, peer, known, compute)];
  });
  return largest(specs);
}

/** A buffer that a plan has with a peer whose GPU takes none so large, or binds less of it than it has to. */
export interface Oversized {
  readonly peer: PeerId;
  readonly name: string;
  readonly of: 'buffer' | 'binding';
  readonly bytes: number;
  readonly limit: number;
}

/** By which of both a GPU's limits are passed most; null: by neither. */
export function excess(largest: Largest, limits: BufferLimit): Omit<Oversized, 'peer'> | null {
  const { buffer, binding } = largest;
  const both = [
    { name: buffer.name, of: 'buffer', bytes: buffer.bytes, limit: limits.bufferBytes },
    { name: binding.name, of: 'binding', bytes: boundOf(binding), limit: limits.bindingBytes },
  ] as const;
  const [worst] = both.filter(({ bytes, limit }) => bytes > limit).toSorted((a, b) => past(b) - past(a));
  return worst ?? null;
}
const past = ({ bytes, limit }: Pick<Oversized, 'bytes' | 'limit'>): number => bytes - limit;

/** The one that is furthest past its peer's limit; null: there is none. */
export function oversized(model: Model, batch: Batch, plan: Plan, limits: BufferLimits): Oversized | null {
  const limited = peersOf(plan).filter((peer) => limits.has(peer));
  if (limited.length === 0) return null;
  const known = holders(model, plan);
  let worst: Oversized | null = null;
  for (const peer of limited) {
    const limit = limits.get(peer);
    const found = limit && excess(largestOfPeer(model, batch, plan, peer, known), limit);
    if (found && (worst === null || past(found) > past(worst))) worst = { peer, ...found };
  }
  return worst;
}

/** Of the shards that a keeper has of these blocks on its GPU, bytes of the largest array. */
export const largestShardBytes = (model: Model, kept: readonly BlockState[], compute: Compute = 'f32'): number =>
  kept.reduce(
    (most, { block: name, shards }) =>
      shards.reduce(
        (own, { range, in: place }) =>
          place === 'host' ? own : Math.max(own, FLOAT_BYTES * arena(block(model, name), [range], compute).floats),
        most,
      ),
    0,
  );

/** What ends the sentence that says that a model does not fit. */
export function oversizedWords({ name, of, bytes, limit }: Omit<Oversized, 'peer'>, who: string): string {
  const size = `${bytes} bytes (${bytesText(bytes)})`;
  return of === 'buffer'
    ? `the tensor ${name} has ${size}, and ${who} takes at most ${limit} (${bytesText(limit)}) in one buffer`
    : `${size} of the tensor ${name} are bound at once, and ${who} binds at most ${limit} (${bytesText(limit)})`;
}
