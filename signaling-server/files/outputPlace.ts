/**
 * Where a command is to write its result: looked at before the work begins, so that hours of training never end with a
 * sentence about a folder. Each fault is one sentence that begins with the path.
 */
import { accessSync, constants, existsSync, mkdtempSync, rmdirSync, statfsSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { bytesText } from '../../swarm/quantityText.ts';
import { messageOf } from './errorWords.ts';
import { makeFolder } from './makeFolder.ts';

/** What is wrong with the place of a file that is written or replaced; null: nothing. */
export function filePlaceFault(path: string): string | null {
  if (path === '') return 'an empty path: a file to write was expected';
  return orFault(path, () => {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found?.isDirectory()) return `${path} is a folder: a file to write was expected`;
    // Replacing a file by its new content would put an ordinary file where the device was.
    if (found && !found.isFile()) return `${path} is a device or a pipe: a file to write was expected`;
    if (found) accessSync(path, constants.W_OK);
    return parentFault(path);
  });
}

/** The same of a folder that is made, or written beside its place and renamed. */
export function folderPlaceFault(path: string): string | null {
  return path === '' ? 'an empty path: a folder was expected' : orFault(path, () => parentFault(path));
}

/** Into such a place. Its folder is made, and then it is said which. */
export async function saveText(path: string, text: string): Promise<string | null> {
  const folder = dirname(resolve(path));
  const isThere = existsSync(folder);
  makeFolder(folder);
  await writeFile(path, text);
  return isThere ? null : folder;
}

/** That the disk of such a place has no room for so many bytes; null: it has, or the system does not say. */
export function roomFault(path: string, bytes: number): string | null {
  let free: number;
  try {
    const { bavail, bsize } = statfsSync(nearestAbove(path));
    free = bavail * bsize;
  } catch {
    return null;
  }
  return bytes <= free ? null : `${path} needs ${bytesText(bytes)}, but its disk has ${bytesText(free)} free`;
}

/** The nearest folder above that exists takes what is made in it. */
function parentFault(path: string): string | null {
  const folder = nearestAbove(path);
  if (!statSync(folder).isDirectory()) return `${path} cannot be made: ${folder} is not a folder`;
  return takesFiles(folder) ? null : `${path} cannot be made: nothing can be written in ${folder}`;
}

/** What is written to `path` is written beside it first, so it is the folder around that counts. */
function nearestAbove(path: string): string {
  let folder = dirname(resolve(path));
  while (statSync(folder, { throwIfNoEntry: false }) === undefined) folder = dirname(folder);
  return folder;
}

/** By trying: permissions do not tell of a system that lets nobody write there, as in /proc. */
function takesFiles(folder: string): boolean {
  try {
    rmdirSync(mkdtempSync(join(folder, '.shoal-')));
    return true;
  } catch {
    return false;
  }
}

function orFault(path: string, look: () => string | null): string | null {
  try {
    return look();
  } catch (error) {
    return `${path} cannot be written: ${messageOf(error)}`;
  }
}
