/**
 * Texts that operators brought along, to train runs on: files beside the store, each with its end cut off to be held
 * out. They are read as bytes: whatever an operator has is a text.
 */
import { mkdir, readdir, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Result, refusal, success } from '../swarm/base.ts';
import { heldOutOf, type ListedText, TEXT_NAME, textFile } from '../swarm/runDraft.ts';
import type { DataDirectory } from './dataDirectory.ts';

export const TEXT_BYTES_LIMIT = 64 * 1024 * 1024;
/** Less is no text to train on. */
const LEAST_BYTES = 2_000;
const MOST_TEXTS = 100;
/** Small: a held-out loss should cost few steps' time. */
const HELD_OUT_SHARE = 0.02;
const HELD_OUT_BYTES = 8_000;

const folderOf = ({ directory }: Pick<DataDirectory, 'directory'>): string => join(directory, 'texts');

/** Where a draft's run file would be: its paths begin here. */
export const draftPath = (data: Pick<DataDirectory, 'directory'>): string => join(folderOf(data), 'draft');

export async function saveText(data: DataDirectory, name: string, bytes: Buffer): Promise<Result<string>> {
  if (bytes.length < LEAST_BYTES)
    return refusal(`${bytes.length} bytes are too few to train on: expected ${LEAST_BYTES} or more`);
  const known = await listedTexts(data);
  if (known.some((text) => text.name === name)) return refusal(`there is a text "${name}" already`);
  if (known.length >= MOST_TEXTS) return refusal(`the server keeps at most ${MOST_TEXTS} texts`);
  const folder = folderOf(data);
  await mkdir(folder, { recursive: true });
  const cut = bytes.length - Math.min(HELD_OUT_BYTES, Math.ceil(bytes.length * HELD_OUT_SHARE));
  await writeFile(join(folder, heldOutOf(name)), bytes.subarray(cut));
  // The list has a text when it is whole.
  const unfinished = join(folder, `.${textFile(name)}`);
  await writeFile(unfinished, bytes.subarray(0, cut));
  await rename(unfinished, join(folder, textFile(name)));
  return success(name);
}

export async function listedTexts(data: Pick<DataDirectory, 'directory'>): Promise<ListedText[]> {
  const folder = folderOf(data);
  const files = await readdir(folder).catch(() => []); // none was brought yet
  const names = files.flatMap((file) => {
    const name = file.slice(0, -textFile('').length);
    return textFile(name) === file && TEXT_NAME.test(name) ? name : [];
  });
  return Promise.all(
    names.sort().map(async (name) => ({ name, bytes: (await stat(join(folder, textFile(name)))).size })),
  );
}
