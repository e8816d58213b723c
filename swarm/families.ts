/** The families of models, by the `model_type` of their Hugging Face config.json: the only place that lists them. */
import { type Result, refusal } from './base.ts';
import { type Config, fieldReason } from './configFields.ts';
import { gpt2Model } from './gpt2.ts';
import { llamaModel } from './llama.ts';
import type { Model } from './model.ts';

const FAMILIES: Readonly<Record<Model['family'], (config: Config) => Result<Model>>> = {
  gpt2: gpt2Model,
  llama: llamaModel,
};

const isFamily = (name: unknown): name is Model['family'] => typeof name === 'string' && Object.hasOwn(FAMILIES, name);

/** The model of a config.json; a refusal starts with the field's name. */
export function modelFromConfig(json: unknown): Result<Model> {
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    return refusal('config.json must be a JSON object');
  const config: Config = { ...json };
  const { model_type: name } = config;
  if (isFamily(name)) return FAMILIES[name](config);
  const names = Object.keys(FAMILIES).map((family) => `"${family}"`);
  return refusal(fieldReason('model_type', names.join(' or '), config));
}
