/**
 * How large one buffer may be. A kernel binds a buffer whole, so no buffer of a peer's part may be larger than what its
 * GPU binds at once and keeps in one buffer. WebGPU guarantees 128 MiB, which GPT-2's token table is past. Bytes.
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
import { stageBuffers, stagesOfPeer } from './memory.ts';
import { shardBuffers } from './shardMemory.ts';

/** The largest buffer that each peer's GPU takes; a peer that is not in it takes any. */
export type BufferLimits = ReadonlyMap<PeerId, number>;

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
const largest = (specs: readonly BufferSpec[]): BufferSpec =>
  specs.reduce((most, spec) => (spec.use === 'storage' && spec.bytes > most.bytes ? spec : most), storage('none', 0));

/** Of a stage of these layers on micro-batches of so many samples: how often it has them at once changes no size. */
export function largestOfStage(
  model: Model,
  batch: Batch,
  layers: readonly [number, number],
  samples: number,
): BufferSpec {
  const { sequence } = batch;
  return largest(
    precisionsOf(batch).flatMap((compute) => stageBuffers(model, { layers, samples, sequence, slots: 1, compute })),
  );
}

/** Whatever the plan, no peer has a larger one: what is gathered has a whole end of the model in one place. */
export function largestOfRun(model: Model, batch: Batch): BufferSpec {
  const { samples, sequence } = batch;
  const size = { layers: [0, model.layers] as const, samples, sequence, slots: 1 };
  return largest(
    precisionsOf(batch).flatMap((compute) => [
      ...stageBuffers(model, { ...size, compute }),
      ...stageBuffers(model, { ...size, compute, gathered: 1 }),
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

/** A buffer that a plan has with a peer whose GPU takes none so large. */
export interface Oversized {
  readonly peer: PeerId;
  readonly name: string;
  readonly bytes: number;
  readonly limit: number;
}

/** The one that is furthest past its peer's limit; null: there is none. */
export function oversized(model: Model, batch: Batch, plan: Plan, limits: BufferLimits): Oversized | null {
  const limited = peersOf(plan).filter((peer) => limits.has(peer));
  if (limited.length === 0) return null;
  const known = holders(model, plan);
  let worst: Oversized | null = null;
  for (const peer of limited) {
    const { name, bytes } = largestOfPeer(model, batch, plan, peer, known);
    const limit = limits.get(peer) ?? bytes;
    if (bytes > limit && (worst === null || bytes - limit > worst.bytes - worst.limit))
      worst = { peer, name, bytes, limit };
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
export const oversizedWords = ({ name, bytes, limit }: Omit<Oversized, 'peer'>, who: string): string =>
  `the tensor ${name} has ${bytes} bytes (${bytesText(bytes)}), and ${who} takes at most ${limit} (${bytesText(limit)}) in one buffer`;
