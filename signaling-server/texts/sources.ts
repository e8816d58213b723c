/**
 * What a run was made of, as hashes of its files' bytes: a run that is given again is known by them at reading speed,
 * without being tokenised again.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { findAdapterFiles } from '../weights/adapterFiles.ts';
import { findWeightFiles } from '../weights/weightFiles.ts';
import { type FileProgress, textFiles } from './tokens.ts';

const CHUNK_BYTES = 1_048_576;

/** Hashes of every file that the run file names, in its order; `runPath` opens a sentence. */
export async function hashSources(run: RunFile, runPath: string, progress: FileProgress): Promise<Result<string[]>> {
  const inFolder = (name: string): string => resolve(dirname(runPath), name);
  const init = typeof run.init === 'string' ? await findWeightFiles(inFolder(run.init)) : null;
  if (init?.ok === false) return refusal(`${runPath}: init ${init.reason}`);
  const { init: own } = run.train.adapter ?? {};
  const adapter = own === undefined ? null : await findAdapterFiles(inFolder(own));
  if (adapter?.ok === false) return refusal(`${runPath}: train.adapter.init ${adapter.reason}`);
  const lists = [
    run.data.files.map(inFolder),
    (run.evaluation?.files ?? []).map(inFolder),
    (await textFiles(run, runPath)).map(({ path }) => path),
    init?.value.parts ?? [],
    ...(adapter === null ? [] : [adapter.value.weights.parts]),
    ...(run.evaluation?.answers === undefined ? [] : [[inFolder(run.evaluation.answers)]]),
  ];
  const hashes: string[] = [];
  for (const paths of lists) {
    hashes.push(String(paths.length)); // so that no file changes from one list to the next unseen
    for (const path of paths) {
      try {
        hashes.push(await hashFile(path, progress));
      } catch (error) {
        return refusal(`${runPath}: ${path}: ${readFault(error)}`);
      }
    }
  }
  return success(hashes);
}

async function hashFile(path: string, progress: FileProgress): Promise<string> {
  const hash = createHash('sha256');
  const size = await fileBytes(path);
  let read = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
    const bytes: Uint8Array = chunk;
    hash.update(bytes);
    read += bytes.length;
    progress('checking', path, Math.min(1, read / size));
  }
  return hash.digest('hex');
}
