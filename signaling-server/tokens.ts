/**
 * A run's text as token shards in the blob store: all files one after another as one list, streamed, so that a text
 * larger than memory is no matter.
 */
import { createReadStream } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type Result, refusal, success } from '../swarm/base.ts';
import {
  bytesPerToken,
  emptyShard,
  SHARD_TOKENS,
  type TokenBytes,
  type TokenList,
  windowCount,
} from '../swarm/data.ts';
import { modelOf, type RunFile } from '../swarm/runFile.ts';
import type { BlobStore } from './blobs.ts';
import { readFault } from './runFileOnDisk.ts';

export interface RunTokens {
  readonly data: TokenList;
  readonly evaluation: TokenList | null;
}

/** `runPath`: the run file, for its folder and for the sentences. */
export async function prepareTokens(run: RunFile, runPath: string, blobs: BlobStore): Promise<Result<RunTokens>> {
  const data = await tokenList(run, runPath, 'data.files', run.data.files, blobs);
  if (!data.ok) return data;
  if (!run.evaluation) return success({ data: data.value, evaluation: null });
  const evaluation = await tokenList(run, runPath, 'evaluation.files', run.evaluation.files, blobs);
  return evaluation.ok ? success({ data: data.value, evaluation: evaluation.value }) : evaluation;
}

async function tokenList(
  run: RunFile,
  runPath: string,
  field: string,
  files: readonly string[],
  blobs: BlobStore,
): Promise<Result<TokenList>> {
  const { vocabulary } = modelOf(run);
  const size = bytesPerToken(vocabulary);
  const writer = shardWriter(size, blobs);
  for (const [index, name] of files.entries()) {
    const path = resolve(dirname(runPath), name);
    try {
      let read = 0;
      for await (const chunk of createReadStream(path)) {
        const bytes: Uint8Array = chunk;
        const outside = vocabulary < 256 ? bytes.findIndex((byte) => byte >= vocabulary) : -1;
        if (outside >= 0)
          return refusal(
            `${runPath}: ${field}[${index}] ${name} has the token ${bytes[outside]} (its byte ${read + outside}), but model.vocab_size is ${vocabulary}`,
          );
        await writer.add(bytes);
        read += bytes.length;
      }
    } catch (error) {
      return refusal(`${runPath}: ${field}[${index}] ${path}: ${readFault(error)}`);
    }
  }
  const { tokens, shards } = await writer.end();
  const { sequenceLength } = run.train;
  if (windowCount(tokens, sequenceLength) < 1)
    return refusal(
      `${runPath}: ${field} has ${tokens} tokens, but one window of train.sequenceLength needs at least ${sequenceLength + 1}`,
    );
  return success({ tokens, shardTokens: SHARD_TOKENS, bytesPerToken: size, shards });
}

/** Collects ids into shards; each full one goes to the store at once. */
function shardWriter(size: TokenBytes, blobs: BlobStore) {
  const shard = emptyShard(SHARD_TOKENS, size);
  const shards: string[] = [];
  let filled = 0;
  const flush = async () => {
    shards.push(await blobs.put(new Uint8Array(shard.buffer, 0, filled * size)));
    filled = 0;
  };
  return {
    async add(ids: Uint8Array): Promise<void> {
      for (let done = 0; done < ids.length; ) {
        const part = ids.subarray(done, done + SHARD_TOKENS - filled);
        shard.set(part, filled);
        filled += part.length;
        done += part.length;
        if (filled === SHARD_TOKENS) await flush();
      }
    },
    async end(): Promise<{ readonly tokens: number; readonly shards: readonly string[] }> {
      const tokens = shards.length * SHARD_TOKENS + filled;
      if (filled > 0) await flush();
      return { tokens, shards };
    },
  };
}
