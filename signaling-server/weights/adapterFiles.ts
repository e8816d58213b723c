/**
 * An adapter's A and B as PEFT keeps them: a folder with adapter_model.safetensors and adapter_config.json, or a safetensors
 * file. The tensors are compared with the model table; the config, where there is one, with the run, and whatever it says
 * beyond the defaults of PEFT 0.21 is refused by name, since it would change the arithmetic.
 */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../../swarm/base.ts';
import type { Adapter } from '../../swarm/model/adapter.ts';
import { shown } from '../../swarm/model/inputFields.ts';
import { type BlockName, block, blockOf, type Model, type TensorSpec } from '../../swarm/model/model.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { readFault } from '../files/namedFile.ts';
import type { WeightFiles } from './weightFiles.ts';
import {
  type FileTensor,
  type Naming,
  openFiles,
  readElements,
  type TensorNames,
  tensorsNamed,
  type Weights,
  whole,
} from './weights.ts';

export const ADAPTER_WEIGHTS = 'adapter_model.safetensors';
export const ADAPTER_CONFIG = 'adapter_config.json';
const PREFIX = 'base_model.model.';
const HEAD_WEIGHT = 'lm_head.weight';
const HEAD_A = 'lm_head.lora_A.weight';
/** PEFT keeps the base's head beside an adapter of it. */
const BASE_HEAD = 'lm_head.base_layer.weight';
/** What halves of either kind round away, and a little more. */
const HEAD_TOLERANCE = 2 ** -7;
const COMPARED_ELEMENTS = 2 ** 20;

interface AdapterFiles {
  readonly weights: WeightFiles;
  /** Path of the adapter_config.json; null: there is none. */
  readonly config: string | null;
}

export async function findAdapterFiles(path: string): Promise<Result<AdapterFiles>> {
  try {
    const isFolder = (await stat(path)).isDirectory();
    const file = isFolder ? join(path, ADAPTER_WEIGHTS) : path;
    if (isFolder && !existsSync(file)) return refusal(`${path} has no ${ADAPTER_WEIGHTS}`);
    const config = join(dirname(file), ADAPTER_CONFIG);
    const isPeft = basename(file) === ADAPTER_WEIGHTS && existsSync(config);
    return success({ weights: { path: file, parts: [file], places: null }, config: isPeft ? config : null });
  } catch (error) {
    return refusal(
      `${path}: ${readFault(error)}: a folder with ${ADAPTER_WEIGHTS}, or a safetensors file, was expected`,
    );
  }
}

/** The model table's names of an adapter's tensors → PEFT's. */
export const peftNames = ({ blocks }: Pick<Model, 'blocks'>): TensorNames =>
  Object.fromEntries(blocks.flatMap(({ tensors }) => tensors.map(({ name }) => [name, PREFIX + name])));

/** The adapter at `path`, of a model that has it; `base`: the weights that stand beside it. */
export async function openAdapter(
  path: string,
  model: Model,
  adapter: Adapter,
  base: Weights,
): Promise<Result<Weights>> {
  const files = await findAdapterFiles(path);
  if (!files.ok) return files;
  const { weights, config } = files.value;
  const fault = config === null ? null : await configFault(config, adapter);
  if (fault !== null) return refusal(fault);
  const hasHead = model.blocks.some(({ tensors }) => tensors.some(({ name }) => name === HEAD_A));
  const beside = hasHead ? [blockOf('head', [{ ...headOf(base.model).tensor, name: BASE_HEAD }])] : [];
  return openFiles(weights, async (parts) => {
    const blocks = [...model.blocks, ...beside];
    const found = tensorsNamed(weights, parts, { blocks }, PEFT_NAMING);
    if (!found.ok) return found;
    const head = found.value.get(BASE_HEAD);
    found.value.delete(BASE_HEAD);
    if (head && !(await isHeadOf(base, head)))
      return refusal(`${path} has a ${BASE_HEAD} that is not the head of init: it is an adapter of another model`);
    return whole(weights, found.value, model);
  });
}

const PEFT_NAMING: Naming = {
  isAside: () => false,
  candidates: (fileName) => (fileName.startsWith(PREFIX) ? [fileName.slice(PREFIX.length)] : []),
};

/** A tied head is the token table. */
function headOf(model: Model): { readonly name: BlockName; readonly tensor: TensorSpec } {
  for (const { name, tensors } of model.blocks)
    for (const tensor of tensors) if (tensor.name === HEAD_WEIGHT) return { name, tensor };
  const tensor = block(model, 'embedding').tensors[0];
  invariant(tensor, 'the embedding block starts with the token table');
  return { name: 'embedding', tensor };
}

async function isHeadOf(base: Weights, head: FileTensor): Promise<boolean> {
  const { name, tensor } = headOf(base.model);
  for (let from = 0; from < tensor.elements; from += COMPARED_ELEMENTS) {
    const to = Math.min(tensor.elements, from + COMPARED_ELEMENTS);
    const own = await base.readBlock(name, tensor.offset + from, tensor.offset + to);
    const other = await readElements(head, 0, [from, to]);
    if (own.some((value, i) => !(Math.abs(value - (other[i] ?? 0)) <= HEAD_TOLERANCE * Math.abs(value)))) return false;
  }
  return true;
}

/** Fields that say nothing about the arithmetic, once the values are there. */
const FREE: ReadonlySet<string> = new Set([
  ...['auto_mapping', 'base_model_name_or_path', 'inference_mode', 'peft_version', 'revision', 'runtime_config'],
  ...['fan_in_fan_out', 'megatron_core', 'qalora_group_size'],
]);
/** What else a field may say than nothing, null, false, 0 or an empty list or object. */
const ALLOWED: Readonly<Record<string, readonly unknown[]>> = {
  peft_type: ['LORA'],
  task_type: ['CAUSAL_LM'],
  bias: ['none'],
  init_lora_weights: [true, 'gaussian'],
};

/** Why a config is not that of the run's adapter, in a sentence; null: it is. */
async function configFault(path: string, adapter: Adapter): Promise<string | null> {
  const json = await readJsonFile(path, 'an adapter_config.json of PEFT');
  if (!json.ok) return json.reason;
  const parsed = z.record(z.string(), z.unknown()).safeParse(json.value);
  if (!parsed.success) return `${path} is no adapter_config.json of PEFT: an object was expected`;
  const { r = 8, lora_alpha = 8, use_rslora = false, target_modules = null, ...others } = parsed.data;
  const { rank, alpha, targets, rslora } = adapter;
  if (r !== rank) return `${path} has r ${shown(r)}, and the run train.adapter.rank ${rank}`;
  if (lora_alpha !== alpha)
    return `${path} has lora_alpha ${shown(lora_alpha)}, and the run train.adapter.alpha ${alpha}`;
  if (use_rslora !== rslora)
    return `${path} has use_rslora ${shown(use_rslora)}, and the run train.adapter.rslora ${rslora}`;
  if (target_modules !== null && !areSame(target_modules, targets))
    return `${path} has target_modules ${shown(target_modules)}, and the run train.adapter.targets ${shown(targets)}`;
  for (const [name, value] of Object.entries(others))
    if (!FREE.has(name) && !isEmpty(value) && !ALLOWED[name]?.includes(value))
      return `${path} has ${name} ${shown(value)}: adapters are trained as PEFT's defaults have them, and nothing else`;
  return null;
}

const areSame = (given: unknown, targets: readonly string[]): boolean =>
  Array.isArray(given) && new Set(given).size === targets.length && targets.every((name) => given.includes(name));

const isEmpty = (value: unknown): boolean => !value || (typeof value === 'object' && Object.keys(value).length === 0);

/** As PEFT 0.10 and later read it. */
export function adapterConfig({ family, config }: Model, adapter: Adapter): Readonly<Record<string, unknown>> {
  const { _name_or_path: base } = config;
  return {
    ...{ auto_mapping: null, base_model_name_or_path: typeof base === 'string' && base !== '' ? base : null },
    ...{ bias: 'none', fan_in_fan_out: family === 'gpt2', inference_mode: true, init_lora_weights: true },
    ...{ layers_pattern: null, layers_to_transform: null, lora_alpha: adapter.alpha, lora_dropout: 0 },
    ...{ modules_to_save: null, peft_type: 'LORA', r: adapter.rank, revision: null },
    ...{ target_modules: adapter.targets, task_type: 'CAUSAL_LM', use_rslora: adapter.rslora },
  };
}
