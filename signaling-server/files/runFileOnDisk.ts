/** Reads a run file: from a path to a parsed run, or one sentence. */
import type { Result } from '../../swarm/base.ts';
import { parseRunFile, type RunFile } from '../../swarm/run/runFile.ts';
import { RUN_FILE } from './fileKinds.ts';
import { readJsonFile } from './jsonFile.ts';

export async function readRunFile(path: string): Promise<Result<RunFile>> {
  const json = await readJsonFile(path, RUN_FILE);
  return json.ok ? parseRunFile(json.value, path) : json;
}
