/**
 * A run's text as token shards in the blob store: the ids of all files one after another as one list, streamed, so that
 * a text larger than memory is no matter. Each file is tokenised by itself: where one ends, a token ends.
 */
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import {
  bytesPerToken,
  emptyShard,
  SHARD_TOKENS,
  type TokenBytes,
  type TokenList,
  windowCount,
} from '../../swarm/run/data.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { NoTokenError, openTokenizer, type TextTokenizer, TokenizerFault, tokenizerFiles } from './tokenizer.ts';
import { tokenStream, UncuttableTextError } from './tokenStream.ts';

/** Read at once. */
const CHUNK_BYTES = 262_144;
/** Shards on their way to the disk: each waits for it to say that it is safe. */
const PUTS_AT_ONCE = 8;

export interface StoredFile {
  readonly name: string;
  readonly hash: BlobHash;
}

interface RunTokens {
  readonly data: TokenList;
  readonly evaluation: TokenList | null;
  /** The tokenizer's files, for the export; none where a token is a byte. */
  readonly tokenizer: readonly StoredFile[];
}

/** How far a file is read, from 0 to 1. */
export type FileProgress = (job: 'tokenising' | 'checking', path: string, share: number) => void;

interface TokenJob {
  readonly run: RunFile;
  /** The run file, for its folder and for the sentences. */
  readonly runPath: string;
  readonly blobs: BlobStore;
  readonly tokenizer: TextTokenizer | null;
  readonly progress: FileProgress;
}

export async function prepareTokens(
  run: RunFile,
  runPath: string,
  blobs: BlobStore,
  progress: FileProgress = () => {},
): Promise<Result<RunTokens>> {
  const path = tokenizerPath(run, runPath);
  const opened = path === null ? null : await openTokenizer(path);
  if (opened?.ok === false) return refusal(`${runPath}: data.tokenizer ${opened.reason}`);
  const tokenizer = opened?.value ?? null;
  try {
    const lists = await tokenLists({ run, runPath, blobs, tokenizer, progress });
    if (!lists.ok) return lists;
    return success({ ...lists.value, tokenizer: path === null ? [] : await storedTokenizer(path, blobs) });
  } finally {
    tokenizer?.close();
  }
}

async function tokenLists(job: TokenJob): Promise<Result<Pick<RunTokens, 'data' | 'evaluation'>>> {
  const { run, runPath, tokenizer } = job;
  const { vocabulary } = modelOf(run);
  if (tokenizer && tokenizer.ids > vocabulary)
    return refusal(
      `${runPath}: data.tokenizer ${tokenizerPath(run, runPath)} has ${tokenizer.ids} ids, but model.vocab_size is ${vocabulary}: expected at most as many`,
    );
  const data = await tokenList(job, 'data.files', run.data.files);
  if (!data.ok) return data;
  const evaluation = run.evaluation && (await tokenList(job, 'evaluation.files', run.evaluation.files));
  return evaluation?.ok === false ? evaluation : success({ data: data.value, evaluation: evaluation?.value ?? null });
}

async function storedTokenizer(path: string, blobs: BlobStore): Promise<StoredFile[]> {
  const files: StoredFile[] = [];
  for (const file of await tokenizerFiles(path))
    files.push({ name: file.name, hash: await blobs.put(await readFile(file.path)) });
  return files;
}

/** Null where a token is a byte. */
export const tokenizerPath = ({ data }: RunFile, runPath: string): string | null =>
  data.tokenizer === 'bytes' ? null : resolve(dirname(runPath), data.tokenizer);

async function tokenList(job: TokenJob, field: string, files: readonly string[]): Promise<Result<TokenList>> {
  const { run, runPath, blobs } = job;
  const { vocabulary } = modelOf(run);
  const size = bytesPerToken(vocabulary);
  const writer = shardWriter(size, blobs);
  for (const [index, name] of files.entries()) {
    const path = resolve(dirname(runPath), name);
    try {
      const fault = await addFile(job, path, writer, vocabulary);
      if (fault !== null) return refusal(`${runPath}: ${field}[${index}] ${name} ${fault}`);
    } catch (error) {
      if (error instanceof TokenizerFault) return refusal(`${runPath}: data.tokenizer ${error.message}`);
      return refusal(`${runPath}: ${field}[${index}] ${path}: ${readFault(error)}`);
    }
  }
  const { tokens, shards } = await writer.end();
  const { sequenceLength } = run.train;
  if (windowCount({ tokens }, sequenceLength) < 1)
    return refusal(
      `${runPath}: ${field} has ${tokens} tokens, but one window of train.sequenceLength needs at least ${sequenceLength + 1}`,
    );
  return success({ tokens, shardTokens: SHARD_TOKENS, bytesPerToken: size, shards });
}

type ShardWriter = ReturnType<typeof shardWriter>;

/** Why the file cannot be trained on, to go on from its name; null when its tokens are in. */
async function addFile(
  { tokenizer, progress }: TokenJob,
  path: string,
  writer: ShardWriter,
  vocabulary: number,
): Promise<string | null> {
  const size = await fileBytes(path);
  const reader = tokenizer ? textReader(tokenizer) : BYTE_READER;
  let read = 0;
  let written = 0;
  /** Whatever a tokenizer's file says of its ids. */
  const write = async (ids: Ids): Promise<string | null> => {
    const outside = ids.findIndex((id) => id >= vocabulary);
    if (outside >= 0)
      return `has the token ${ids[outside]} (its ${tokenizer ? 'token' : 'byte'} ${written + outside}), but model.vocab_size is ${vocabulary}`;
    written += ids.length;
    await writer.add(ids);
    return null;
  };
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    const bytes: Uint8Array = chunk;
    const ids = await reader.add(bytes);
    if (!ids.ok) return ids.reason;
    const fault = await write(ids.value);
    if (fault !== null) return fault;
    read += bytes.length;
    progress('tokenising', path, Math.min(1, read / size));
  }
  const rest = await reader.end();
  return rest.ok ? write(rest.value) : rest.reason;
}

type Ids = Uint8Array | number[];
interface Reader {
  add(bytes: Uint8Array): Promise<Result<Ids>>;
  end(): Promise<Result<Ids>>;
}

const BYTE_READER: Reader = { add: async (bytes) => success(bytes), end: async () => success([]) };

function textReader(tokenizer: TextTokenizer): Reader {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const stream = tokenStream(tokenizer.encode);
  let read = 0;
  const take = async (bytes?: Uint8Array): Promise<Result<Ids>> => {
    let text: string;
    try {
      text = decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      return refusal(`is not UTF-8 text near its byte ${read}, which a tokenizer.json needs`);
    }
    read += bytes?.length ?? 0;
    const placeOf = (lost: string | null, pending: string): string => {
      const before = read - Buffer.byteLength(pending);
      const at = lost === null ? -1 : pending.indexOf(lost);
      return at < 0
        ? `, between its bytes ${before} and ${read}`
        : `, at its byte ${before + Buffer.byteLength(pending.slice(0, at))}`;
    };
    try {
      const ids = [...(await stream.add(text)), ...(bytes ? [] : await stream.end())];
      return success(ids);
    } catch (error) {
      if (error instanceof NoTokenError) return refusal(`${error.message}${placeOf(error.text, stream.pending())}`);
      if (error instanceof UncuttableTextError) return refusal(`cannot be tokenised in pieces: ${error.message}`);
      throw error;
    }
  };
  return { add: take, end: () => take() };
}

/** Collects ids into shards; each full one goes to the store at once. */
function shardWriter(size: TokenBytes, blobs: BlobStore) {
  let shard = emptyShard(SHARD_TOKENS, size);
  let filled = 0;
  let full = 0;
  const puts: Promise<BlobHash>[] = [];
  const flush = async () => {
    const put = blobs.put(new Uint8Array(shard.buffer, 0, filled * size));
    put.catch(() => undefined); // whoever awaits it next hears of it
    puts.push(put);
    shard = emptyShard(SHARD_TOKENS, size);
    filled = 0;
    await puts.at(-PUTS_AT_ONCE);
  };
  return {
    async add(ids: Ids): Promise<void> {
      for (let done = 0; done < ids.length; ) {
        const count = Math.min(ids.length - done, SHARD_TOKENS - filled);
        shard.set(ids instanceof Uint8Array ? ids.subarray(done, done + count) : ids.slice(done, done + count), filled);
        filled += count;
        done += count;
        if (filled < SHARD_TOKENS) continue;
        full += SHARD_TOKENS;
        await flush();
      }
    },
    async end(): Promise<{ readonly tokens: number; readonly shards: readonly BlobHash[] }> {
      const tokens = full + filled;
      if (filled > 0) await flush();
      return { tokens, shards: await Promise.all(puts) };
    },
  };
}
