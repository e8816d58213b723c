/**
 * The training state of one step, as blobs: a manifest says which blob has which range of which block. A blob is
 * values, first moments and second moments of its range one after the other, float32 little-endian; the initial state
 * has values alone, its moments are zero. Any range of any block can be read, however the shards were cut.
 */
import { invariant, overlap, type Range, type Result, refusal, success } from '../swarm/base.ts';
import type { StoredShard } from '../swarm/coordinator/state.ts';
import type { BlockName, Model } from '../swarm/model.ts';
import type { BlobStore } from './blobs.ts';
import type { Store } from './store.ts';
import type { Weights } from './weights.ts';

/** The newest and the one before it: a donor may be reading the older one. */
const KEPT_CHECKPOINTS = 2;

export interface ManifestShard extends StoredShard {
  /** False: values alone. */
  readonly moments: boolean;
}

export interface Manifest {
  /** Steps committed before this state. */
  readonly step: number;
  readonly shards: readonly ManifestShard[];
}

export const STATE_KINDS = ['value', 'm', 'v'] as const;
export type StateKind = (typeof STATE_KINDS)[number];

/** The store's own words. */
export const parseManifest = (text: string): Manifest => JSON.parse(text) as Manifest;
export const manifestHashes = ({ shards }: Manifest): string[] => shards.map(({ hash }) => hash);

const FLOAT_BYTES = 4;

/** Bytes of a shard's blob. */
export const shardBytes = ([from, to]: Range, moments: boolean): number =>
  (to - from) * FLOAT_BYTES * (moments ? STATE_KINDS.length : 1);

/** Makes this state the newest one, and forgets the blobs that only superseded ones had. */
export function saveCheckpoint(store: Store, blobs: BlobStore, run: string, manifest: Manifest): void {
  const superseded = store.saveCheckpoint(run, manifest.step, JSON.stringify(manifest), KEPT_CHECKPOINTS);
  const needed = new Set(store.manifests().flatMap((text) => manifestHashes(parseManifest(text))));
  for (const hash of superseded.flatMap((text) => manifestHashes(parseManifest(text)))) {
    if (!needed.has(hash)) void blobs.remove(hash);
  }
}

/** Puts the values that a run begins with into blobs: whole blocks, as checkpoint 0. */
export async function storeInitialState(blobs: BlobStore, model: Model, weights: Weights): Promise<Manifest> {
  const shards: ManifestShard[] = [];
  for (const { name, elements } of model.blocks) {
    const values = await weights.readBlock(name, 0, elements);
    const hash = await blobs.put(new Uint8Array(values.buffer));
    shards.push({ block: name, range: [0, elements], hash, moments: false });
  }
  return { step: 0, shards };
}

/** One kind of state of a range, out of as many shards as it takes. */
export async function readState(
  blobs: BlobStore,
  manifest: Manifest,
  name: BlockName,
  kind: StateKind,
  range: Range,
): Promise<Result<Uint8Array<ArrayBuffer>>> {
  const out = new Uint8Array((range[1] - range[0]) * FLOAT_BYTES);
  let covered = 0;
  for (const shard of manifest.shards) {
    const part = shard.block === name ? overlap(shard.range, range) : null;
    if (part === null) continue;
    covered += part[1] - part[0];
    if (kind !== 'value' && !shard.moments) continue;
    const skipped = STATE_KINDS.indexOf(kind) * (shard.range[1] - shard.range[0]);
    const from = (skipped + part[0] - shard.range[0]) * FLOAT_BYTES;
    const bytes = await blobs.readRange(shard.hash, from, from + (part[1] - part[0]) * FLOAT_BYTES);
    out.set(bytes, (part[0] - range[0]) * FLOAT_BYTES);
  }
  if (covered !== range[1] - range[0]) return refusal(`checkpoint ${manifest.step} lacks a part of ${name}`);
  return success(out);
}

/** The values of a checkpoint as weights, for the export and for sampling. */
export function checkpointWeights(blobs: BlobStore, manifest: Manifest): Weights['readBlock'] {
  return async (name, from, to) => {
    const bytes = await readState(blobs, manifest, name, 'value', [from, to]);
    invariant(bytes.ok, bytes.ok ? '' : bytes.reason);
    return new Float32Array(bytes.value.buffer);
  };
}
