/**
 * A golden case of an adapter as a test needs it: the model whose adapter alone is trained, the values of its blocks and of
 * those that stand, its windows, and what the float64 trainer found.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { at, got } from '../../swarm/base.ts';
import type { Block, BlockName, Model } from '../../swarm/model/model.ts';
import { decodeElements, headerBytes, LENGTH_BYTES, parseHeader } from '../../swarm/model/safetensors.ts';
import { decodePiece, encodePiece } from '../../swarm/run/basePieces.ts';
import {
  decodeShard,
  SEQUENTIAL,
  type WindowRows,
  windowCount,
  windowOfSample,
  windowRows,
} from '../../swarm/run/data.ts';
import { type BaseEncoding, modelOf, parseRunFile, type RunFile } from '../../swarm/run/runFile.ts';
import { openBlobs } from '../files/blobs.ts';
import { prepareTokens } from '../texts/tokens.ts';
import { goldenFolder } from './goldenCase.ts';

export interface AdapterCase {
  readonly run: RunFile;
  readonly model: Model;
  readonly trained: ReadonlyMap<BlockName, Float32Array<ArrayBuffer>>;
  readonly standing: ReadonlyMap<BlockName, Float32Array<ArrayBuffer>>;
  readonly expected: readonly { readonly loss: number; readonly gradientNorm: number }[];
  readonly windows: (step: number) => WindowRows[];
  /** Tensors of a file of the adapter, by PEFT's names without their prefix. */
  tensorsOf(file: string): Promise<Map<string, Float32Array>>;
}

const PREFIX = 'base_model.model.';

/** `base`: how what stands is kept; its values are then those that come of that. */
export async function openAdapterCase(name: string, base: BaseEncoding = 'f32'): Promise<AdapterCase> {
  const folder = goldenFolder(name);
  const path = fileURLToPath(new URL('run.json', folder));
  const { train, ...rest } = JSON.parse(await readFile(path, 'utf8'));
  const run = parseRunFile({ ...rest, train: { ...train, base } }, name);
  if (!run.ok) throw new Error(run.reason);
  const model = modelOf(run.value);
  const { standing = [] } = model;
  const tensorsOf = (file: string) => readTensors(fileURLToPath(new URL(file, folder)));
  const lines = (await readFile(new URL('expected.jsonl', folder), 'utf8')).trim().split('\n');
  return {
    ...{ run: run.value, model, tensorsOf },
    trained: blocksFrom(model.blocks, await tensorsOf(train.adapter.init)),
    standing: keptAs(base, standing, blocksFrom(standing, await tensorsOf(String(run.value.init)))),
    expected: lines.map((line) => JSON.parse(line)),
    windows: await windowsOf(run.value, path, model),
  };
}

function keptAs(
  base: BaseEncoding,
  blocks: readonly Block[],
  values: AdapterCase['standing'],
): AdapterCase['standing'] {
  return new Map(
    blocks.map((own) => {
      const range = [0, own.elements] as const;
      const piece = encodePiece(own, range, base, got(values, own.name));
      if (!piece.ok) throw new Error(piece.reason);
      return [own.name, decodePiece(own, range, base, piece.value.buffer)];
    }),
  );
}

async function readTensors(path: string): Promise<Map<string, Float32Array>> {
  const bytes = new Uint8Array(await readFile(path));
  const length = headerBytes(bytes.subarray(0, LENGTH_BYTES), bytes.length);
  if (!length.ok) throw new Error(length.reason);
  const start = LENGTH_BYTES + length.value;
  const header = parseHeader(bytes.subarray(LENGTH_BYTES, start), bytes.length - start);
  if (!header.ok) throw new Error(header.reason);
  return new Map(
    [...header.value.tensors].map(([name, { from, to }]) => [
      name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name,
      decodeElements('F32', bytes.slice(start + from, start + to)),
    ]),
  );
}

function blocksFrom(blocks: readonly Block[], tensors: ReadonlyMap<string, Float32Array>) {
  return new Map(
    blocks.map(({ name, tensors: rows, elements }) => {
      const values = new Float32Array(elements);
      for (const row of rows) values.set(got(tensors, row.name), row.offset);
      return [name, values];
    }),
  );
}

/** Of each step. */
export async function windowsOf(run: RunFile, path: string, { vocabulary }: Model): Promise<AdapterCase['windows']> {
  const folder = await mkdtemp(join(tmpdir(), 'shoal-adapter-'));
  const blobs = await openBlobs(folder);
  const tokens = await prepareTokens(run, path, blobs, { date: new Date(0) });
  if (!tokens.ok) throw new Error(tokens.reason);
  const { data } = tokens.value;
  const bytes = await Promise.all(data.shards.map((hash) => blobs.read(hash)));
  await rm(folder, { recursive: true });
  const shards = bytes.map(({ buffer }) => decodeShard(buffer, data.bytesPerToken));
  const { globalBatchSize, sequenceLength } = run.train;
  const count = windowCount(data, sequenceLength);
  return (step) =>
    Array.from({ length: globalBatchSize }, (_, sample) => {
      const place = windowOfSample(SEQUENTIAL, step * globalBatchSize + sample, count);
      return windowRows((index) => at(shards, index), data, place, { sequenceLength, vocabulary });
    });
}
