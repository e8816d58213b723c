/** The families of models, by the `model_type` of their Hugging Face config.json: the only place that lists them. */
import { type Result, refusal } from '../base.ts';
import { type Config, fieldReason } from './configFields.ts';
import { gpt2Model } from './gpt2.ts';
import { isTooDeep, TOO_DEEP } from './inputFields.ts';
import { gemma3Model, llamaModel, qwen2Model, qwen3Model, smollm3Model } from './llama.ts';
import { type Model, parameters } from './model.ts';

interface Family {
  readonly model: (config: Config) => Result<Model>;
  /** Fields that turn dropout on. */
  readonly dropout: readonly string[];
}

const FAMILIES: Readonly<Record<Model['family'], Family>> = {
  gpt2: { model: gpt2Model, dropout: ['resid_pdrop', 'embd_pdrop', 'attn_pdrop'] },
  llama: { model: llamaModel, dropout: ['attention_dropout'] },
  qwen2: { model: qwen2Model, dropout: ['attention_dropout'] },
  qwen3: { model: qwen3Model, dropout: ['attention_dropout'] },
  smollm3: { model: smollm3Model, dropout: ['attention_dropout'] },
  gemma3_text: { model: gemma3Model, dropout: ['attention_dropout'] },
};

export const FAMILY_NAMES = Object.keys(FAMILIES) as readonly Model['family'][];

/** Four tebibytes of weights: no cluster that this plans for has them. */
const MODEL_ELEMENTS_LIMIT = 2 ** 40;
/** Elements of a block are numbered in 32 bits, in frames and messages. */
const BLOCK_ELEMENTS_LIMIT = 0xffffffff;

const isFamily = (name: unknown): name is Model['family'] => typeof name === 'string' && Object.hasOwn(FAMILIES, name);

/**
 * The model of a config.json; a refusal starts with the field's name. Dropout changes the arithmetic of training alone:
 * for inference the configs of published models are read as they are.
 */
export function modelFromConfig(json: unknown, use: 'training' | 'inference' = 'training'): Result<Model> {
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    return refusal('config.json must be a JSON object');
  const config: Config = { ...json };
  const { model_type: name } = config;
  if (isTooDeep(config)) return refusal(`config.json ${TOO_DEEP}`);
  if (isFamily(name)) {
    const fault = use === 'training' ? dropoutFault(config, FAMILIES[name].dropout) : null;
    return fault === null ? withinBounds(FAMILIES[name].model(config), config) : refusal(fault);
  }
  const names = FAMILY_NAMES.map((family) => `"${family}"`);
  const expected = `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
  return refusal(fieldReason('model_type', expected, config) + hintOf(config));
}

/** What people try that is near to a family. */
function hintOf({ model_type: name, text_config: text, num_experts, num_local_experts }: Config): string {
  if (typeof text === 'object' && text !== null)
    return ': it wraps a text model; give the config and the weights of that one alone';
  const hasExperts = num_experts !== undefined || num_local_experts !== undefined || /moe|mixtral/.test(String(name));
  return hasExperts ? ': mixtures of experts are not computed here' : '';
}

/** All fields to change are named at once. */
function dropoutFault(config: Config, dropout: readonly string[]): string | null {
  const others = dropout.filter((field) => config[field] !== undefined && config[field] !== 0);
  const [first] = others;
  if (first === undefined) return null;
  return `${fieldReason(first, '0', config)}: training here is without dropout; write 0 for ${others.join(', ')}`;
}

function withinBounds(model: Result<Model>, config: Config): Result<Model> {
  if (!model.ok) return model;
  const large = model.value.blocks.find(({ elements }) => elements > BLOCK_ELEMENTS_LIMIT);
  if (large) {
    const sizes = Object.entries(config).flatMap(([field, size]) =>
      typeof size === 'number' ? [[field, size] as const] : [],
    );
    const [field, size] = sizes.reduce((most, each) => (each[1] > most[1] ? each : most), ['model_type', 0]);
    return refusal(tooLarge(field, size, large.name, large.elements, BLOCK_ELEMENTS_LIMIT));
  }
  const all = parameters(model.value);
  if (all <= MODEL_ELEMENTS_LIMIT) return model;
  const field = Object.keys(config).find((name) => /layers?$/.test(name)) ?? 'model_type';
  return refusal(tooLarge(field, model.value.layers, 'the model', all, MODEL_ELEMENTS_LIMIT));
}

const tooLarge = (field: string, size: number, what: string, elements: number, most: number): string =>
  `${field} is too large, ${size}: ${what} would have ${elements} elements, at most ${most} were expected`;
