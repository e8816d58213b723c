/**
 * Texts as earlier versions kept those that operators brought along: files in a folder of the data directory. They are
 * taken into the blobs and the store, where a copy of a data directory has them too, and the files go.
 */
import { createReadStream } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { heldOutOf, TEXT_NAME, textFile } from '../../swarm/run/runDraft.ts';
import type { BlobStore } from '../files/blobs.ts';
import type { Store } from './store.ts';

const FOLDER = 'texts';

export async function takeInTexts(directory: string, store: Store, blobs: BlobStore): Promise<void> {
  const folder = join(directory, FOLDER);
  const files: readonly string[] = await readdir(folder).catch(() => []); // there is none
  for (const file of files) {
    const name = file.slice(0, -textFile('').length);
    const heldOut = heldOutOf(name);
    // What was written first is the end; without both it never was a text.
    if (textFile(name) !== file || !TEXT_NAME.test(name) || !files.includes(heldOut)) continue;
    if (!store.texts().some((text) => text.name === name)) {
      const { size: bytes } = await stat(join(folder, file));
      const hash = await blobs.putStream(createReadStream(join(folder, file)));
      const heldOutHash = await blobs.putStream(createReadStream(join(folder, heldOut)));
      store.saveText({ name, bytes, hash, heldOutHash });
      await store.kept();
    }
    for (const done of [file, heldOut]) await rm(join(folder, done));
  }
}
