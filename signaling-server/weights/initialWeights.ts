/**
 * The first weights of a run file, and the model that they make of its config: a head of their own unties it (FI12). With
 * an adapter these are its own, and the model's weights stand beside them.
 */
import { dirname, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { modelOf, type RunFile, wholeModelOf } from '../../swarm/run/runFile.ts';
import { openAdapter } from './adapterFiles.ts';
import { openWeights, seededWeights, type Weights } from './weights.ts';

interface InitialWeights {
  /** The run with the model that its weights are of. */
  readonly file: RunFile;
  /** What is trained. */
  readonly trained: Weights;
  /** What stands; null: nothing does. */
  readonly base: Weights | null;
  close(): Promise<void>;
}

export async function openInitialWeights(file: RunFile, path: string): Promise<Result<InitialWeights>> {
  const whole = await openInit(file, wholeModelOf(file), path);
  if (!whole.ok) return whole;
  const own: RunFile = { ...file, model: whole.value.model.config };
  const { adapter } = file.train;
  if (adapter === undefined)
    return success({ file: own, trained: whole.value, base: null, close: () => whole.value.close() });
  const trained = await openTrained(own, adapter, path);
  if (!trained.ok) {
    await whole.value.close();
    return refusal(`${path}: train.adapter.init ${trained.reason}`);
  }
  const close = async (): Promise<void> => {
    await Promise.all([whole.value.close(), trained.value.close()]);
  };
  return success({ file: own, trained: trained.value, base: whole.value, close });
}

async function openInit({ init }: RunFile, model: Model, path: string): Promise<Result<Weights>> {
  if (typeof init !== 'string') return success(seededWeights(model, init.seed));
  const weights = await openWeights(resolve(dirname(path), init), model);
  return weights.ok ? weights : refusal(`${path}: init ${weights.reason}`);
}

async function openTrained(
  file: RunFile,
  adapter: NonNullable<RunFile['train']['adapter']>,
  path: string,
): Promise<Result<Weights>> {
  const model = modelOf(file);
  if (adapter.init === undefined) return success(seededWeights(model, adapter.seed));
  return openAdapter(resolve(dirname(path), adapter.init), model, adapter);
}

/** The run with the model that will be trained, for whoever judges it before its weights are stored. */
export async function trainedRun(file: RunFile, path: string): Promise<Result<RunFile>> {
  const model = wholeModelOf(file);
  if (typeof file.init !== 'string' || !model.tied) return success(file);
  const weights = await openInit(file, model, path);
  if (!weights.ok) return weights;
  await weights.value.close();
  return success({ ...file, model: weights.value.model.config });
}
