/** Reads a run file: from a path to a parsed run, or one sentence. */
import { readFile, stat } from 'node:fs/promises';
import { type Result, refusal } from '../swarm/base.ts';
import { parseRunFile, type RunFile } from '../swarm/runFile.ts';

export async function readRunFile(path: string): Promise<Result<RunFile>> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a run file was expected`);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return refusal(`${path} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  return parseRunFile(json, path);
}

/** Size of a file that will be read; an error where it may have no end, or be read only once: a device, a pipe. */
export async function fileBytes(path: string): Promise<number> {
  const found = await stat(path);
  // A folder's own error comes with the reading.
  if (!found.isFile() && !found.isDirectory()) throw new Error('this is a device or a pipe, not a file');
  return found.size;
}

/** Why a file could not be read, in words. */
export function readFault(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'there is no such file';
  if (code === 'EISDIR') return 'this is a folder, not a file';
  if (code === 'EACCES' || code === 'EPERM') return 'this file may not be read by you';
  return error instanceof Error ? error.message : String(error);
}
