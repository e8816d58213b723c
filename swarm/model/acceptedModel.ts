/** The model of a run that was accepted: worked out once for each config.json, whoever asks. */
import { type Adapter, adapterModel } from './adapter.ts';
import { modelFromConfig } from './families.ts';
import { type OptimizerType, trainedModel } from './matrices.ts';
import type { Model } from './model.ts';

type Config = Readonly<Record<string, unknown>>;

interface AcceptedRun {
  readonly model: Config;
  readonly batch?: { readonly optimizer?: OptimizerType; readonly adapter?: Adapter };
}

const models = new WeakMap<Config, Model>();

export function acceptedModel({ model: config, batch }: AcceptedRun): Model {
  const known = models.get(config);
  if (known) return known;
  const whole = modelFromConfig(config);
  const model = whole.ok && batch?.adapter ? adapterModel(whole.value, batch.adapter) : whole;
  if (!model.ok) throw new Error(`the run was accepted with this model: ${model.reason}`);
  const trained = trainedModel(model.value, batch?.optimizer);
  models.set(config, trained);
  return trained;
}
