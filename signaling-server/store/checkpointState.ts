/**
 * The training state of one step, as blobs: a manifest says which blob has which range of which block. A blob is
 * the weights, and whatever else the run keeps, of its range one after the other (`savedKinds`), float32 little-endian;
 * the initial state has weights alone, its moments are zero. Any range of any block can be read, however the shards were cut.
 */
import { invariant, overlap, type Range, type Result, refusal, success } from '../../swarm/base.ts';
import type { StoredShard } from '../../swarm/coordinator/events.ts';
import type { BlockName, Model } from '../../swarm/model/model.ts';
import { FLOAT_BYTES, isFirstZero, STATE_KINDS, type StateKind } from '../../swarm/plan/stateKinds.ts';
import type { LossScale } from '../../swarm/precision.ts';
import type { BlobStore } from '../files/blobs.ts';
import type { Weights } from '../weights/weights.ts';

type ReadsBlobs = Pick<BlobStore, 'readRange'>;

interface ManifestShard extends StoredShard {
  /** False: values alone. */
  readonly moments: boolean;
}

export interface Manifest {
  /** Steps committed before this state. */
  readonly step: number;
  readonly shards: readonly ManifestShard[];
  /** What the step after it begins with; absent in the initial state, and where the run does not ask for f16. */
  readonly lossScale?: LossScale;
  /** Norm of the largest gradient that any step before it applied; absent in the initial state, and where nobody knows. */
  readonly largestGradient?: number;
}

/** The store's own words. */
export const parseManifest = (text: string): Manifest => JSON.parse(text) as Manifest;
export const manifestHashes = ({ shards }: Manifest): string[] => shards.map(({ hash }) => hash);

/** Elements of one shard of checkpoint 0: 4 MiB, as much as is ever read of an init file at once. */
const INITIAL_SHARD_ELEMENTS = 1 << 20;
/** Elements of one piece on the way to a donor. */
const PIECE_ELEMENTS = 1 << 18;

/** What is wrong with the files of a state, or null: none is missing or changed, and all are finite. They are read whole. */
export async function stateProblem(blobs: BlobStore, manifest: Manifest): Promise<string | null> {
  const shards = new Map(manifest.shards.map((shard) => [shard.hash, shard]));
  for (const { hash, block, range } of shards.values()) {
    const problem = await blobs.problem(hash, finiteFloats());
    if (problem !== null)
      return `the checkpoint after step ${manifest.step} cannot be used: ${problem} (${block} [${range.join(', ')}))`;
  }
  return null;
}

/** Looks at pieces that may end within a number. */
function finiteFloats(): (piece: Uint8Array) => string | null {
  let rest = new Uint8Array();
  return (piece) => {
    const bytes = new Uint8Array(rest.length + piece.length);
    bytes.set(rest);
    bytes.set(piece, rest.length);
    const whole = bytes.length - (bytes.length % FLOAT_BYTES);
    rest = bytes.slice(whole);
    const areFinite = new Float32Array(bytes.buffer, 0, whole / FLOAT_BYTES).every(Number.isFinite);
    return areFinite ? null : 'it has a number that is not finite';
  };
}

export const largestGradientIn = ({ step, largestGradient }: Manifest): number =>
  largestGradient ?? (step === 0 ? 0 : Number.POSITIVE_INFINITY);

/** Puts the values that a run begins with into blobs, as checkpoint 0; one that is no number is refused by name. */
export async function storeInitialState(blobs: BlobStore, model: Model, weights: Weights): Promise<Result<Manifest>> {
  const shards: ManifestShard[] = [];
  for (const { name, elements } of model.blocks)
    for (let from = 0; from < elements; from += INITIAL_SHARD_ELEMENTS) {
      const to = Math.min(elements, from + INITIAL_SHARD_ELEMENTS);
      const values = await weights.readBlock(name, from, to);
      const fault = weights.fault(name, from, values);
      if (fault !== null) return refusal(fault);
      const hash = await blobs.put(new Uint8Array(values.buffer));
      shards.push({ block: name, range: [from, to], hash, moments: false });
    }
  return success({ step: 0, shards });
}

/** What was saved of a shard by a group that has these islands (absent: all), one after the other. */
type KindsOf = (islands?: readonly number[]) => readonly StateKind[];

/** One of the run's saved kinds of a range, out of as many shards as it takes, in pieces that are read as they are asked for. */
export function stateBytes(
  blobs: ReadsBlobs,
  manifest: Manifest,
  kindsOf: KindsOf,
  { block, kind, range }: { readonly block: BlockName; readonly kind: StateKind; readonly range: Range },
): Result<AsyncIterable<Uint8Array<ArrayBuffer>>> {
  const parts = manifest.shards
    .flatMap((shard) => {
      const place = kindsOf(shard.islands).indexOf(kind);
      const part = shard.block === block && (place >= 0 || !shard.moments) ? overlap(shard.range, range) : null;
      return part === null ? [] : [{ shard, part, place }];
    })
    .sort((a, b) => a.part[0] - b.part[0]);
  const covered = parts.reduce((sum, { part: [from, to] }) => sum + to - from, 0);
  return covered === range[1] - range[0]
    ? success(piecesOf(blobs, isFirstZero(kind), parts))
    : refusal(`checkpoint ${manifest.step} lacks a part of ${block}`);
}

async function* piecesOf(
  blobs: ReadsBlobs,
  isZeroAtFirst: boolean,
  parts: readonly { readonly shard: ManifestShard; readonly part: Range; readonly place: number }[],
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for (const { shard, part, place } of parts) {
    const [start, end] = shard.range;
    for (let from = part[0]; from < part[1]; from += PIECE_ELEMENTS) {
      const bytes = (Math.min(part[1], from + PIECE_ELEMENTS) - from) * FLOAT_BYTES;
      const at = ((shard.moments ? place : 0) * (end - start) + from - start) * FLOAT_BYTES;
      yield shard.moments || !isZeroAtFirst ? await blobs.readRange(shard.hash, at, at + bytes) : new Uint8Array(bytes);
    }
  }
}

/** With the first island goes what all share. */
const weightsOf: KindsOf = (islands) => (islands && !islands.includes(0) ? [] : STATE_KINDS);

/** The weights of a checkpoint, for the export and for sampling: whatever kinds the run has, they come first. */
export function checkpointWeights(blobs: ReadsBlobs, manifest: Manifest): Weights['readBlock'] {
  return async (block, from, to) => {
    const pieces = stateBytes(blobs, manifest, weightsOf, { block, kind: 'value', range: [from, to] });
    invariant(pieces.ok, pieces.ok ? '' : pieces.reason);
    const out = new Uint8Array((to - from) * FLOAT_BYTES);
    let filled = 0;
    for await (const piece of pieces.value) {
      out.set(piece, filled);
      filled += piece.length;
    }
    return new Float32Array(out.buffer);
  };
}
