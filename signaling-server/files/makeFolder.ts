/**
 * A folder with those above it, one at a time. Node's own way (`recursive`, seen in 20.20) never returns where the system
 * lets nothing be made and says that the place is not there, as below /proc.
 */
import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Nothing happens where it is there; an error says which one cannot be made. */
export function makeFolder(path: string): void {
  const folder = resolve(path);
  const missing: string[] = [];
  let above = folder;
  for (; !statSync(above, { throwIfNoEntry: false }); above = dirname(above)) missing.unshift(above);
  if (!isFolder(above)) throw new Error(`${above} is not a folder`);
  for (const one of missing) makeOne(one);
}

function makeOne(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    if (!isFolder(folder)) throw error; // else another process has just made it
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
