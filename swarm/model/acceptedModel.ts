/** The model of a run that was accepted: worked out once for each config.json, whoever asks. */
import { modelFromConfig } from './families.ts';
import type { Model } from './model.ts';

type Config = Readonly<Record<string, unknown>>;

const models = new WeakMap<Config, Model>();

export function acceptedModel({ model: config }: { readonly model: Config }): Model {
  const known = models.get(config);
  if (known) return known;
  const model = modelFromConfig(config);
  if (!model.ok) throw new Error(`the run was accepted with this model: ${model.reason}`);
  models.set(config, model.value);
  return model.value;
}
