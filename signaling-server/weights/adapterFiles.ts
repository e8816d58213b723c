/**
 * An adapter's A and B as PEFT keeps them: a folder with adapter_model.safetensors and adapter_config.json, or a safetensors
 * file. The tensors are compared with the model table; the config, where there is one, with the run, and whatever it says
 * beyond the defaults of PEFT 0.21 is refused by name, since it would change the arithmetic.
 */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Adapter } from '../../swarm/model/adapter.ts';
import { shown } from '../../swarm/model/inputFields.ts';
import type { Model } from '../../swarm/model/model.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { readFault } from '../files/namedFile.ts';
import type { WeightFiles } from './weightFiles.ts';
import { type Naming, openFiles, type TensorNames, tensorsNamed, type Weights, whole } from './weights.ts';

export const ADAPTER_WEIGHTS = 'adapter_model.safetensors';
export const ADAPTER_CONFIG = 'adapter_config.json';
const PREFIX = 'base_model.model.';
const HEAD_A = 'lm_head.lora_A.weight';
/** PEFT keeps the base's head beside an adapter of it. */
const BASE_HEAD = `${PREFIX}lm_head.base_layer.weight`;

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

/** The adapter at `path`, of a model that has it. */
export async function openAdapter(path: string, model: Model, adapter: Adapter): Promise<Result<Weights>> {
  const files = await findAdapterFiles(path);
  if (!files.ok) return files;
  const { weights, config } = files.value;
  const fault = config === null ? null : await configFault(config, adapter);
  if (fault !== null) return refusal(fault);
  const hasHead = model.blocks.some(({ tensors }) => tensors.some(({ name }) => name === HEAD_A));
  const naming: Naming = {
    isAside: (fileName) => hasHead && fileName === BASE_HEAD,
    candidates: (fileName) => (fileName.startsWith(PREFIX) ? [fileName.slice(PREFIX.length)] : []),
  };
  return openFiles(weights, async (parts) => {
    const found = tensorsNamed(weights, parts, model, naming);
    return found.ok ? whole(weights, found.value, model) : found;
  });
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
