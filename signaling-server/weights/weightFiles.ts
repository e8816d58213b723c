/**
 * Which files a model's weights are in: one safetensors file, the parts that a model.safetensors.index.json names, or a
 * folder with either. Looked up before a tensor is read, each fault one sentence that begins with the path.
 */
import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { readFault } from '../files/namedFile.ts';

const WHOLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';

export interface WeightFiles {
  /** What the sentences about the whole begin with. */
  readonly path: string;
  /** Paths of the safetensors files. */
  readonly parts: readonly string[];
  /** The index's word: tensor → path of its part; null: there is none. */
  readonly places: ReadonlyMap<string, string> | null;
}

export async function findWeightFiles(path: string): Promise<Result<WeightFiles>> {
  try {
    if ((await stat(path)).isDirectory()) return await filesOfFolder(path);
    return path.endsWith('.json') ? await filesOfIndex(path) : success({ path, parts: [path], places: null });
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a safetensors file, its index or a folder with either was expected`);
  }
}

/** As transformers: the one file goes before an index. */
async function filesOfFolder(folder: string): Promise<Result<WeightFiles>> {
  const names = new Set(await readdir(folder));
  const whole = join(folder, WHOLE);
  if (names.has(WHOLE)) return success({ path: whole, parts: [whole], places: null });
  if (names.has(INDEX)) return filesOfIndex(join(folder, INDEX));
  return refusal(`${folder} has neither ${WHOLE} nor ${INDEX}`);
}

const INDEX_SCHEMA = z.object({ weight_map: z.record(z.string(), z.string()) });

async function filesOfIndex(path: string): Promise<Result<WeightFiles>> {
  const json = await readJsonFile(path, 'an index of weights');
  if (!json.ok) return json;
  const parsed = INDEX_SCHEMA.safeParse(json.value);
  if (!parsed.success)
    return refusal(`${path} is not an index of weights: an object with a weight_map from tensor to file was expected`);
  const folder = dirname(path);
  const known = new Map((await readdir(folder)).map((name) => [name, join(folder, name)]));
  const places = new Map<string, string>();
  for (const [tensor, name] of Object.entries(parsed.data.weight_map)) {
    const part = known.get(name);
    if (part === undefined) return refusal(`${path} puts ${tensor} into ${name}, but there is no such file beside it`);
    places.set(tensor, part);
  }
  return success({ path, parts: [...new Set(places.values())].sort(), places });
}
