/** The newest checkpoint of a run as a Hugging Face folder; with an adapter as PEFT's, or merged into its base. */
import { type Result, refusal, success } from '../../swarm/base.ts';
import { type Model, parameters } from '../../swarm/model/model.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { TOKENIZER_FILE } from '../texts/tokenizer.ts';
import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE, tokenizerConfig } from '../texts/tokenizerConfig.ts';
import { adapterConfig, peftNames } from '../weights/adapterFiles.ts';
import { exportFolder, type OtherFile } from '../weights/exportFolder.ts';
import { baseProblem, wholeWeights } from './baseStore.ts';
import { checkpointWeights, type Manifest, manifestHashes, parseManifest, stateProblem } from './checkpointState.ts';
import type { DataDirectory } from './dataDirectory.ts';
import { modelCard } from './modelCard.ts';
import { cardOf } from './runCard.ts';
import { parseDocument, type RunDocument } from './runDocument.ts';
import type { Store } from './store.ts';

interface ExportedCheckpoint {
  readonly document: string;
  readonly manifest: string;
  readonly committedSteps: number;
}

/** The newest checkpoint of a run, or that after `step` steps, or the former one of `generation`. */
export function exportedCheckpoint(
  { store }: Pick<DataDirectory, 'store'>,
  name: string,
  step?: number,
  generation?: number,
): Result<ExportedCheckpoint> {
  const row = store.run(name);
  const newest = store.newestCheckpoint(name);
  if (row === null || newest === null)
    return refusal(`there is no run "${name}" here: it has ${store.runNames().join(', ') || 'none'}`);
  const { document } = row;
  if (step === undefined) return success({ document, ...newest });
  const manifest = store.checkpoint(name, step, generation);
  if (manifest === null)
    return refusal(`checkpoint ${step} of "${name}" is not kept any more: newer ones have taken its place`);
  return success({ document, manifest, committedSteps: step });
}

export interface ExportWish {
  /** Absent: the newest. */
  readonly step?: number | undefined;
  /** Of a former checkpoint. */
  readonly generation?: number | undefined;
  /** An adapter is added to its base, and the whole model is written. */
  readonly isMerged?: boolean;
}

/** Answers with the folder's path. */
export async function exportRun(
  { store, blobs }: DataDirectory,
  name: string,
  target: string,
  { step, generation, isMerged = false }: ExportWish = {},
): Promise<Result<string>> {
  const found = exportedCheckpoint({ store }, name, step, generation);
  if (!found.ok) return found;
  const { committedSteps: committed } = found.value;
  const document = parseDocument(found.value.document);
  const { file, data, tokenizer } = document;
  const { adapter } = file.train;
  if (isMerged && adapter === undefined) return refusal(`${name} has no adapter that could be merged into a base`);
  const manifest = parseManifest(found.value.manifest);
  const written = writtenOf(document, isMerged, blobs, manifest);
  const { model } = written;
  // The run goes on meanwhile, and newer states supersede this one.
  const letGo = blobs.hold(manifestHashes(manifest));
  try {
    const problem = (await stateProblem(blobs, manifest)) ?? (isMerged ? await baseProblem(blobs, document) : null);
    if (problem !== null) return refusal(problem);
    const readme = modelCard({
      ...{ file, data, step: committed, card: cardOf(store, name), licence: document.licence },
      samples: samplesOf(store.samples(name), committed),
      ...{ parameters: parameters(model), positions: model.positions, isMerged },
      // What stands of that step by now is another one's.
      loss: generation === undefined ? (store.steps(name, committed - 1)[0]?.loss ?? null) : null,
      heldOutLoss: generation === undefined ? (store.evaluations(name).get(committed) ?? null) : null,
    });
    return await exportFolder(target, {
      ...written,
      others: [
        ...(await tokenizerFiles(tokenizer, model, blobs)),
        { name: 'README.md', bytes: async () => Buffer.from(readme) },
      ],
      metadata: { format: 'pt', run: name, step: String(committed) },
    });
  } finally {
    await letGo();
  }
}

/** What the initial weights wrote, beside what those after `step` steps do. */
const samplesOf = (samples: ReturnType<Store['samples']>, step: number) =>
  samples.flatMap(({ committedSteps, prompt, text: before }) => {
    const after = samples.find((each) => each.committedSteps === step && each.prompt === prompt);
    return committedSteps === 0 && step > 0 && after !== undefined ? [{ prompt, before, after: after.text }] : [];
  });

/** A run's weights as they are exported: all of them, those of an adapter, or the two merged. */
function writtenOf(
  document: RunDocument,
  isMerged: boolean,
  blobs: DataDirectory['blobs'],
  manifest: Manifest,
): Pick<Parameters<typeof exportFolder>[1], 'model' | 'adapter' | 'tensorNames' | 'read'> {
  const { file, tensorNames } = document;
  const { adapter } = file.train;
  if (adapter === undefined || isMerged) return { tensorNames, ...wholeWeights(blobs, document, manifest) };
  const model = modelOf(file);
  const read = checkpointWeights(blobs, manifest);
  return { model, adapter: adapterConfig(model, adapter), tensorNames: peftNames(model), read };
}

type ReadsBlobs = Pick<DataDirectory['blobs'], 'read'>;

/** The text of a file that the run has beside its tokens; null: it has none of that name. */
export async function storedText(
  stored: RunDocument['tokenizer'],
  blobs: ReadsBlobs,
  wanted: string,
): Promise<string | null> {
  const found = stored.find(({ name }) => name === wanted);
  return found ? Buffer.from(await blobs.read(found.hash)).toString('utf8') : null;
}

/** The run's own tokenizer.json, or that of bytes, and the tokenizer_config.json that is made for it. */
export async function exportedTokenizer(
  stored: RunDocument['tokenizer'],
  model: Model,
  blobs: ReadsBlobs,
): Promise<{ readonly tokenizer: string; readonly config: string }> {
  const textOf = (wanted: string) => storedText(stored, blobs, wanted);
  const tokenizer = (await textOf(TOKENIZER_FILE)) ?? byteTokenizer(model.vocabulary);
  const config = tokenizerConfig({
    ...{ tokenizer, model: model.config, positions: model.positions },
    given: await textOf(TOKENIZER_CONFIG_FILE),
    specialTokens: await textOf(SPECIAL_TOKENS_FILE),
  });
  return { tokenizer, config };
}

async function tokenizerFiles(stored: RunDocument['tokenizer'], model: Model, blobs: ReadsBlobs): Promise<OtherFile[]> {
  const { tokenizer, config } = await exportedTokenizer(stored, model, blobs);
  const others = stored.filter(({ name }) => name !== TOKENIZER_FILE && name !== TOKENIZER_CONFIG_FILE);
  return [
    { name: TOKENIZER_FILE, bytes: async () => Buffer.from(tokenizer) },
    { name: TOKENIZER_CONFIG_FILE, bytes: async () => Buffer.from(config) },
    ...others.map(({ name, hash }) => ({ name, bytes: () => blobs.read(hash) })),
  ];
}

/**
 * A tokenizer.json whose ids are the bytes of a text, so that a model of bytes loads like any other. Each byte is written
 * as GPT-2's letter for it: itself where that can be seen, else one from U+0100 on.
 */
const BYTES = 256;

/** GPT-2's bytes_to_unicode, in the order of the bytes. */
export function letters(): string[] {
  const isSeen = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let unseen = 0;
  return Array.from({ length: BYTES }, (_, byte) => String.fromCodePoint(isSeen(byte) ? byte : BYTES + unseen++));
}

/** Of a model that has fewer ids than there are bytes, those. */
export function byteTokenizer(vocabulary: number): string {
  const known = letters().slice(0, vocabulary);
  const vocab = Object.fromEntries(known.map((letter, byte) => [letter, byte]));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  return JSON.stringify({
    ...{ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null },
    ...{ pre_tokenizer: byteLevel, post_processor: null, decoder: byteLevel },
    model: {
      ...{ type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null },
      ...{ fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges: [] },
    },
  });
}
