/** The first weights of a run file, and the model that they make of its config: a head of their own unties it (FI12). */
import { dirname, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { openWeights, seededWeights, type Weights } from './weights.ts';

export async function openInitialWeights(file: RunFile, path: string): Promise<Result<Weights>> {
  const [{ init }, model] = [file, modelOf(file)];
  if (typeof init !== 'string') return success(seededWeights(model, init.seed));
  const weights = await openWeights(resolve(dirname(path), init), model);
  return weights.ok ? weights : refusal(`${path}: init ${weights.reason}`);
}

/** The run with the model that will be trained, for whoever judges it before its weights are stored. */
export async function trainedRun(file: RunFile, path: string): Promise<Result<RunFile>> {
  if (typeof file.init !== 'string' || !modelOf(file).tied) return success(file);
  const weights = await openInitialWeights(file, path);
  if (!weights.ok) return weights;
  await weights.value.close();
  return success({ ...file, model: weights.value.model.config });
}
