/** Files that a person named: how large one is, and why one could not be read, in words. */
import { stat } from 'node:fs/promises';
import { messageOf } from './errorWords.ts';

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
  return messageOf(error);
}
