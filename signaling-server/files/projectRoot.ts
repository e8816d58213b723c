/** The checkout: where the built pages and the files of the set-up are, from the sources and from the built command. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { invariant } from '../../swarm/base.ts';

function find(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'setup.mjs'))) return folder;
    invariant(folder !== dirname(folder), 'the sources lie under the folder of setup.mjs');
  }
}

const root = find();

/** For what is read as it stands there, not as it was built. */
export const SOURCES_FOLDER = join(root, 'signaling-server');
/** The built command. */
export const COMMAND_FILE = join(root, 'dist', 'server', 'cli.js');
/** Whether this is it, and not the sources as the tests run them. */
export const IS_BUILT = fileURLToPath(import.meta.url).startsWith(dirname(COMMAND_FILE));
export const PAGES_FOLDER = join(root, 'dist', 'web');
/** What commands keep between two starts; git ignores it. */
export const WORK_FOLDER = join(root, '.shoal');

/** Of package.json. */
export const projectVersion = (): string =>
  z.object({ version: z.string() }).parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))).version;
