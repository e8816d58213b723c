/**
 * A trained model as a folder that `transformers` loads, or an adapter as one that PEFT loads. It is written beside its place and renamed, so that the folder
 * is there whole or not at all; tensors are streamed from a reader, never held together.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { type Model, parameters } from '../../swarm/model/model.ts';
import { encodeHeader } from '../../swarm/model/safetensors.ts';
import { makeFolder } from '../files/makeFolder.ts';
import { folderPlaceFault, roomFault } from '../files/outputPlace.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { ADAPTER_CONFIG, ADAPTER_WEIGHTS } from './adapterFiles.ts';
import type { TensorNames, Weights } from './weights.ts';

/** Elements that are in memory at once. */
const CHUNK_ELEMENTS = 1 << 20;
const FLOAT_BYTES = 4;
const ARCHITECTURES: Readonly<Record<Model['family'], string>> = {
  gpt2: 'GPT2LMHeadModel',
  llama: 'LlamaForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  smollm3: 'SmolLM3ForCausalLM',
  gemma3_text: 'Gemma3ForCausalLM',
};

export interface OtherFile {
  readonly name: string;
  readonly bytes: () => Promise<Uint8Array>;
}

interface Export {
  readonly model: Model;
  /** What config.json says of the model, adapter_config.json says of an adapter; absent: it is a model. */
  readonly adapter?: Readonly<Record<string, unknown>>;
  /** The init file's names; null: Hugging Face's. */
  readonly tensorNames: TensorNames | null;
  readonly read: Weights['readBlock'];
  /** What stands beside the weights: the tokenizer's files, a model card. */
  readonly others?: readonly OtherFile[];
  /** Strings for the safetensors header, such as the step. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Why `directory` cannot take an export, before anything is trained for it: it may be absent or empty. */
export async function exportTarget(directory: string): Promise<Result<{ readonly exists: boolean }>> {
  const fault = folderPlaceFault(directory);
  if (fault !== null) return refusal(fault);
  try {
    const entries = await readdir(directory);
    if (entries.length === 0) return success({ exists: true });
    return refusal(`${directory} is not empty: an export needs a new or an empty folder`);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') return success({ exists: false });
    if (code === 'ENOTDIR') return refusal(`${directory} is not a folder: an export needs a new or an empty folder`);
    throw error;
  }
}

/** That the disk has no room for the model's weights, which is known before they are trained; null: it has. */
export const exportRoomFault = (directory: string, model: Model): string | null =>
  roomFault(directory, parameters(model) * FLOAT_BYTES);

/** Writes the folder: a config, weights (F32), and what is to stand beside them. */
export async function exportFolder(directory: string, content: Export): Promise<Result<string>> {
  const place = resolve(directory);
  const target = await exportTarget(place);
  if (!target.ok) return target;
  const noRoom = exportRoomFault(place, content.model);
  if (noRoom !== null) return refusal(noRoom);
  const unfinished = join(dirname(place), `.${basename(place)}.unfinished-${randomUUID()}`);
  makeFolder(unfinished);
  try {
    const [configName, weightsName] = content.adapter
      ? [ADAPTER_CONFIG, ADAPTER_WEIGHTS]
      : ['config.json', 'model.safetensors'];
    const said = content.adapter ?? config(content.model);
    await writeFile(join(unfinished, configName), `${JSON.stringify(said, null, 2)}\n`);
    for (const { name, bytes } of content.others ?? []) await writeFile(join(unfinished, name), await bytes());
    await writeTensors(join(unfinished, weightsName), content);
    if (target.value.exists) await rmdir(place);
    await rename(unfinished, place);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    const problem = storageProblem(error);
    if (problem === null) throw error;
    return refusal(`${place} could not be written: ${problem}`);
  }
  return success(place);
}

/** The run's own, and the class that loads it where the run names none. */
function config({ config: given, family }: Model): Readonly<Record<string, unknown>> {
  return 'architectures' in given ? given : { architectures: [ARCHITECTURES[family]], ...given };
}

async function writeTensors(path: string, content: Export): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await writeAll(file, content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, { model, tensorNames, read, metadata }: Export): Promise<void> {
  // A tied head is no tensor of the table, so it is not repeated here.
  const specs = model.blocks.flatMap(({ tensors }) => tensors);
  await file.writeFile(
    encodeHeader(
      specs.map(({ name, shape }) => ({ name: tensorNames?.[name] ?? name, shape })),
      metadata,
    ),
  );
  for (const { name, elements } of model.blocks)
    for (let from = 0; from < elements; from += CHUNK_ELEMENTS) {
      const values = await read(name, from, Math.min(elements, from + CHUNK_ELEMENTS));
      await file.writeFile(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    }
}
