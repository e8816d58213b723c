/**
 * A run's files as token shards in the blob store, streamed, so that what is larger than memory is no matter. Of text the
 * ids of all files one after another are one list; each file is tokenised by itself: where one ends, a token ends. Of
 * examples the list has their windows.
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
import { CHAT_TEMPLATE_FILE } from './chatText.ts';
import { openExamples, type ReadsExamples } from './examples.ts';
import { windowPacker } from './exampleWindows.ts';
import { DataFault, lineFault } from './jsonLines.ts';
import { BYTES, NoTokenError, openTokenizer, type TextTokenizer, TokenizerFault, tokenizerFiles } from './tokenizer.ts';
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
  /** What the model is asked at each evaluation; absent: nothing. */
  readonly answers?: BlobHash;
  /** The tokenizer's files, for the export; none where a token is a byte. */
  readonly tokenizer: readonly StoredFile[];
}

/** How far a file is read, from 0 to 1. */
export type FileProgress = (job: 'tokenising' | 'checking', path: string, share: number) => void;

export interface TokenJob {
  readonly run: RunFile;
  /** The run file, for its folder and for the sentences. */
  readonly runPath: string;
  readonly tokenizer: TextTokenizer;
  /** Of the tokenizer; null: a token is a byte. */
  readonly path: string | null;
  /** Null: of texts. */
  readonly examples: ReadsExamples | null;
  /** Of `evaluation.answers`; null: nothing is asked. */
  readonly questions: ReadsExamples | null;
}

interface PrepareOptions {
  /** Of the run, for a chat template that asks. */
  readonly date: Date;
  readonly progress?: FileProgress;
}

export async function prepareTokens(
  run: RunFile,
  runPath: string,
  blobs: BlobStore,
  options: PrepareOptions,
): Promise<Result<RunTokens>> {
  return withTokenizer(run, runPath, options.date, async (job) => {
    const writing = { ...job, blobs, progress: options.progress ?? (() => {}) };
    const data = await tokenList(writing, 'data.files', run.data.files);
    if (!data.ok) return data;
    const evaluation = run.evaluation && (await tokenList(writing, 'evaluation.files', run.evaluation.files));
    if (evaluation?.ok === false) return evaluation;
    const questions = await questionsOf(job);
    if (!questions.ok) return questions;
    const answers = questions.value && (await blobs.put(Buffer.from(JSON.stringify(questions.value))));
    const tokenizer = await storedTokenizer(run, runPath, blobs);
    const lists = { data: data.value, evaluation: evaluation?.value ?? null };
    return success({ ...lists, ...(answers !== null && { answers }), tokenizer });
  });
}

/** The tokenizer is closed after it. */
export async function withTokenizer<T>(
  run: RunFile,
  runPath: string,
  date: Date,
  work: (job: TokenJob) => Promise<Result<T>>,
): Promise<Result<T>> {
  const path = tokenizerPath(run, runPath);
  const opened = path === null ? success(BYTES) : await openTokenizer(path);
  if (!opened.ok) return refusal(`${runPath}: data.tokenizer ${opened.reason}`);
  const tokenizer = opened.value;
  try {
    const { vocabulary } = modelOf(run);
    if (path !== null && tokenizer.ids > vocabulary)
      return refusal(
        `${runPath}: data.tokenizer ${path} has ${tokenizer.ids} ids, but model.vocab_size is ${vocabulary}: expected at most as many`,
      );
    const { format = 'text' } = run.data;
    const by = { tokenizer, path, date };
    const examples = format === 'text' ? success(null) : await openExamples(run, runPath, by, format);
    if (!examples.ok) return examples;
    const asked = format === 'chat' ? 'chat' : 'question';
    const isAsked = run.evaluation?.answers !== undefined;
    const questions = isAsked ? await openExamples(run, runPath, by, asked) : success(null);
    if (!questions.ok) return questions;
    return await work({ run, runPath, tokenizer, path, examples: examples.value, questions: questions.value });
  } catch (error) {
    if (error instanceof TokenizerFault) return refusal(`${runPath}: data.tokenizer ${error.message}`);
    throw error;
  } finally {
    tokenizer.close();
  }
}

async function storedTokenizer(run: RunFile, runPath: string, blobs: BlobStore): Promise<StoredFile[]> {
  const files: StoredFile[] = [];
  for (const file of await textFiles(run, runPath))
    files.push({ name: file.name, hash: await blobs.put(await readFile(file.path)) });
  return files;
}

/** The tokenizer's files as an export has them, with the run's own chat template. */
export async function textFiles(
  run: RunFile,
  runPath: string,
): Promise<{ readonly name: string; readonly path: string }[]> {
  const path = tokenizerPath(run, runPath);
  const files = path === null ? [] : await tokenizerFiles(path);
  const { chatTemplate } = run.data;
  if (chatTemplate === undefined) return files;
  const others = files.filter(({ name }) => name !== CHAT_TEMPLATE_FILE);
  return [...others, { name: CHAT_TEMPLATE_FILE, path: resolve(dirname(runPath), chatTemplate) }];
}

/** Null where a token is a byte. */
const tokenizerPath = ({ data }: RunFile, runPath: string): string | null =>
  data.tokenizer === 'bytes' ? null : resolve(dirname(runPath), data.tokenizer);

interface WritingJob extends TokenJob {
  readonly blobs: BlobStore;
  readonly progress: FileProgress;
}

async function tokenList(job: WritingJob, field: string, files: readonly string[]): Promise<Result<TokenList>> {
  const { run, examples } = job;
  const list = examples === null ? textList(job) : rowsList(job, examples);
  const read = await readFiles(job, field, files, async (path) => {
    await list.addFile(path);
    return 'more';
  });
  if (!read.ok) return read;
  const made = await list.end();
  return windowCount(made, run.train.sequenceLength) > 0 ? success(made) : tooLittle(job, field, made.tokens);
}

/** One after the other, until one of them is enough. */
export async function readFiles(
  { runPath }: Pick<TokenJob, 'runPath'>,
  field: string,
  files: readonly string[],
  read: (path: string, name: string) => Promise<'enough' | 'more'>,
): Promise<Result<null>> {
  for (const [index, name] of files.entries()) {
    const done = await readNamed(runPath, `${field}[${index}]`, name, (path) => read(path, name));
    if (!done.ok) return done;
    if (done.value === 'enough') break;
  }
  return success(null);
}

/** What is wrong with it is a refusal that names the field and the file. */
async function readNamed<T>(
  runPath: string,
  field: string,
  name: string,
  read: (path: string) => Promise<T>,
): Promise<Result<T>> {
  const path = resolve(dirname(runPath), name);
  try {
    return success(await read(path));
  } catch (error) {
    if (error instanceof TokenizerFault) throw error;
    if (error instanceof DataFault) return refusal(`${runPath}: ${field} ${name} ${error.message}`);
    return refusal(`${runPath}: ${field} ${path}: ${readFault(error)}`);
  }
}

/** Asked at an evaluation: the first so many lines. */
const MOST_QUESTIONS = 64;

/** One whose answer is known. */
export interface KnownAnswer {
  /** What an example of that line has before its answer. */
  readonly ids: readonly number[];
  readonly answer: string;
  /** How many tokens the answer has where it is trained on. */
  readonly tokens: number;
}

/** Null: nothing is asked. */
async function questionsOf({ run, runPath, questions }: TokenJob): Promise<Result<readonly KnownAnswer[] | null>> {
  const { answers } = run.evaluation ?? {};
  if (questions === null || answers === undefined) return success(null);
  const { positions } = modelOf(run);
  return readNamed(runPath, 'evaluation.answers', answers, async (path) => {
    const found: KnownAnswer[] = [];
    for await (const { line, ids, counted, ...example } of questions(path, () => {})) {
      const answer = example.answer.trim();
      if (answer === '') throw lineFault(line, 'its last answer has no text');
      const length = counted[counted.findLastIndex((place, index) => place !== (counted[index - 1] ?? -1) + 1)] ?? 0;
      if (ids.length > positions)
        throw lineFault(
          line,
          `its prompt and its answer have ${ids.length} tokens together, and the model has ${positions} positions`,
        );
      found.push({ ids: [...ids.subarray(0, length)], answer, tokens: ids.length - length });
      if (found.length === MOST_QUESTIONS) return found;
    }
    if (found.length > 0) return found;
    throw new DataFault('has no line: expected a prompt and its answer at least');
  });
}

/** No window can be made of it. `tokens`: of text, all that there are. */
export function tooLittle({ run, runPath, examples }: TokenJob, field: string, tokens: number): Result<never> {
  const { sequenceLength } = run.train;
  return refusal(
    examples === null
      ? `${runPath}: ${field} has ${tokens} tokens, but one window of train.sequenceLength needs at least ${sequenceLength + 1}`
      : `${runPath}: ${field} has no example of which a token counts within train.sequenceLength, ${sequenceLength}: expected one at least`,
  );
}

/** A list in the making. */
interface OpenList {
  /** Throws a `DataFault`. */
  addFile(path: string): Promise<void>;
  end(): Promise<TokenList>;
}

function textList(job: WritingJob): OpenList {
  const { vocabulary } = modelOf(job.run);
  const size = bytesPerToken(vocabulary);
  const writer = shardWriter(size, job.blobs);
  return {
    async addFile(path) {
      for await (const ids of textIds(job, path, job.progress)) await writer.add(ids);
    },
    end: async () => ({ ...(await writer.end()), shardTokens: SHARD_TOKENS, bytesPerToken: size }),
  };
}

function rowsList({ run, blobs, progress }: WritingJob, examples: ReadsExamples): OpenList {
  const { vocabulary } = modelOf(run);
  const { sequenceLength } = run.train;
  const size = bytesPerToken(Math.max(vocabulary + 1, sequenceLength));
  const writer = shardWriter(size, blobs);
  const packer = windowPacker({ sequenceLength, vocabulary, packing: run.data.packing ?? true });
  const counts: number[] = [];
  const write = async (windows: ReturnType<typeof packer.end>): Promise<void> => {
    for (const { numbers, counted } of windows) {
      counts.push(counted);
      await writer.add(numbers);
    }
  };
  return {
    async addFile(path) {
      for await (const example of examples(path, (share) => progress('tokenising', path, share)))
        await write(packer.add(example));
    },
    async end() {
      await write(packer.end());
      const counted = await blobs.put(new Uint8Array(Uint32Array.from(counts).buffer));
      const countedRows = counts.reduce((sum, count) => sum + count, 0);
      const list = { ...(await writer.end()), shardTokens: SHARD_TOKENS, bytesPerToken: size };
      return { kind: 'rows', ...list, counted, countedRows };
    },
  };
}

/** The tokens of a text, some at a time. Throws a `DataFault`. */
export async function* textIds(
  { run, tokenizer, path: tokenizerPath }: TokenJob,
  path: string,
  progress: FileProgress,
): AsyncGenerator<Ids> {
  const { vocabulary } = modelOf(run);
  const size = await fileBytes(path);
  const reader = tokenizerPath === null ? BYTE_READER : textReader(tokenizer);
  let read = 0;
  let written = 0;
  /** Whatever a tokenizer's file says of its ids. */
  const known = (ids: Ids): Ids => {
    const outside = ids.findIndex((id) => id >= vocabulary);
    if (outside >= 0)
      throw new DataFault(
        `has the token ${ids[outside]} (its ${tokenizerPath === null ? 'byte' : 'token'} ${written + outside}), but model.vocab_size is ${vocabulary}`,
      );
    written += ids.length;
    return ids;
  };
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    const bytes: Uint8Array = chunk;
    yield known(await reader.add(bytes));
    read += bytes.length;
    progress('tokenising', path, Math.min(1, read / size));
  }
  yield known(await reader.end());
}

type Ids = Uint8Array | Uint32Array | number[];
/** Throws a `DataFault`. */
interface Reader {
  add(bytes: Uint8Array): Promise<Ids>;
  end(): Promise<Ids>;
}

const BYTE_READER: Reader = { add: async (bytes) => bytes, end: async () => [] };

function textReader(tokenizer: TextTokenizer): Reader {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const stream = tokenStream(tokenizer.encode);
  let read = 0;
  const take = async (bytes?: Uint8Array): Promise<Ids> => {
    let text: string;
    try {
      text = decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      throw new DataFault(`is not UTF-8 text near its byte ${read}, which a tokenizer.json needs`);
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
      return [...(await stream.add(text)), ...(bytes ? [] : await stream.end())];
    } catch (error) {
      if (error instanceof NoTokenError)
        throw new DataFault(`${error.message}${placeOf(error.text, stream.pending())}`);
      if (error instanceof UncuttableTextError) throw new DataFault(`cannot be tokenised in pieces: ${error.message}`);
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
        shard.set(ids.slice(done, done + count), filled);
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
