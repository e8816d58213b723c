/**
 * The base of an adapter's run among the blobs, by pieces: put there when the run is made, read for donors by hash, and here
 * for the whole model with what the adapter changes (mergedWeights.ts). What is kept is what donors compute with, encoded
 * as `train.base` says.
 */
import type { BlockPart } from '../../swarm/audit/auditCase.ts';
import { got, invariant, overlap, type Range, type Result, refusal, success } from '../../swarm/base.ts';
import { type Block, type BlockName, standingBlock, standingOfStage } from '../../swarm/model/model.ts';
import { type BaseBlock, decodePiece, encodePiece, pieceBytes, pieceRanges } from '../../swarm/run/basePieces.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import type { BlobStore } from '../files/blobs.ts';
import { type MergedWeights, mergedWeights } from '../weights/mergedWeights.ts';
import type { Weights } from '../weights/weights.ts';
import { checkpointWeights, type Manifest } from './checkpointState.ts';
import type { RunDocument } from './runDocument.ts';

type ReadsBlobs = Pick<BlobStore, 'readRange'>;

/** The base's encoding is that of the run; a value that it cannot hold, or that is no number, is refused by name. */
export async function storeBase(blobs: BlobStore, file: RunFile, weights: Weights): Promise<Result<BaseBlock[]>> {
  const { base: encoding = 'f32' } = file.train;
  const stored: BaseBlock[] = [];
  for (const block of weights.model.blocks) {
    const pieces: string[] = [];
    for (const range of pieceRanges(block)) {
      const values = await weights.readBlock(block.name, ...range);
      const fault = weights.fault(block.name, range[0], values);
      if (fault !== null) return refusal(fault);
      const encoded = encodePiece(block, range, encoding, values);
      if (!encoded.ok) return encoded;
      pieces.push(await blobs.put(new Uint8Array(encoded.value.buffer)));
    }
    stored.push({ block: block.name, pieces });
  }
  return success(stored);
}

/** What is wrong with its files, in a sentence; null: nothing. */
export async function baseProblem(
  blobs: Pick<BlobStore, 'problem'>,
  { base = [] }: Pick<RunDocument, 'base'>,
): Promise<string | null> {
  for (const { block, pieces } of base)
    for (const hash of pieces) {
      const problem = await blobs.problem(hash);
      if (problem !== null) return `the base cannot be used: ${problem} (${block})`;
    }
  return null;
}

/** The model that a checkpoint's texts are written with, and its values: with an adapter, added to the base. */
export function wholeWeights(blobs: ReadsBlobs, { file, base }: RunDocument, manifest: Manifest): MergedWeights {
  const trained = checkpointWeights(blobs, manifest);
  return base === undefined
    ? { model: modelOf(file), read: trained }
    : mergedWeights(file, baseReader(blobs, file, base), trained);
}

/** What stands of the blocks that a stage computes with; of a run without an adapter, nothing. */
export async function baseParts(blobs: ReadsBlobs, { file, base }: RunDocument, layers: Range): Promise<BlockPart[]> {
  if (base === undefined) return [];
  const read = baseReader(blobs, file, base);
  const parts: BlockPart[] = [];
  for (const { block, ranges } of standingOfStage(modelOf(file), layers))
    for (const range of ranges) parts.push({ block, range, values: await read(block, ...range) });
  return parts;
}

/** Ranges of the standing blocks. The newest piece is kept: readers go forward. */
function baseReader(blobs: ReadsBlobs, file: RunFile, base: readonly BaseBlock[]): Weights['readBlock'] {
  const model = modelOf(file);
  const { base: encoding = 'f32' } = file.train;
  const hashes = new Map(base.map(({ block, pieces }) => [block, pieces]));
  let newest: { readonly hash: string; readonly values: Float32Array } | null = null;
  const pieceOf = async (block: Block, range: Range, hash: string): Promise<Float32Array> => {
    if (newest?.hash !== hash) {
      const bytes = await blobs.readRange(hash, 0, pieceBytes(block, range, encoding));
      newest = { hash, values: decodePiece(block, range, encoding, bytes.buffer) };
    }
    return newest.values;
  };
  return async (name: BlockName, from, to) => {
    const out = new Float32Array(to - from);
    const block = standingBlock(model, name);
    for (const [index, range] of pieceRanges(block).entries()) {
      const part = overlap([from, to], range);
      if (!part) continue;
      const hash = got(hashes, name)[index];
      invariant(hash, `the run has every piece of ${name}`);
      const values = await pieceOf(block, range, hash);
      out.set(values.subarray(part[0] - range[0], part[1] - range[0]), part[0] - from);
    }
    return out;
  };
}
