/**
 * `shoal bench size`: how large the TypeScript of a checkout is, by folder. What counts is tokens without comments and
 * imports, so that neither a long name, a line break nor a comment changes the figure.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Command } from 'commander';
import { SOURCES_FOLDER } from '../files/projectRoot.ts';

const LEFT_OUT = new Set(['node_modules', 'dist', 'golden']);
/** What only tests and measurements run. */
const IS_TEST = /\.(test|spec|gpu)\.|(^|\/)(testing|bench)\/|^e2e\//;
/** Each of its subfolders counts by itself. */
const DIVIDED = 'swarm';

const IMPORT = /^import [\s\S]*?;\n/gm;
const TOKEN_KINDS = [
  /\/\/[^\n]*|\/\*[\s\S]*?\*\//u, // a comment
  /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`/u, // a text; a template with what stands in it
  /[\p{ID_Start}_$#@][\p{ID_Continue}$]*|\d[\w.]*/u, // a word, a number
  /=>|\.\.\.|[=!]==?|[<>]=|&&=?|\|\|=?|\?\?=?|\?\.|\*\*|[-+*/%]=|\+\+|--|[^\s]/u, // a sign
];
const TOKEN = new RegExp(TOKEN_KINDS.map(({ source }) => source).join('|'), 'gu');

/** Tokens of a file's text, but for its comments and imports. */
export const tokensOf = (text: string): readonly string[] =>
  (text.replace(IMPORT, '').match(TOKEN) ?? []).filter((token) => !/^\/[/*]/.test(token));

interface Size {
  readonly tokens: number;
  readonly files: number;
}

export function addSizeBench(bench: Command): void {
  bench
    .command('size')
    .description("how large this checkout's TypeScript is, by folder: tokens without comments and imports")
    .option('--json', 'one JSON document on standard output')
    .action(({ json }: { readonly json?: boolean }) => {
      const root = dirname(SOURCES_FOLDER);
      const sizes = { product: sizesOf(root, false), tests: sizesOf(root, true) };
      if (json) console.log(JSON.stringify(sizes));
      else for (const [name, folders] of Object.entries(sizes)) print(name, folders);
    });
}

function sizesOf(root: string, areTests: boolean): Record<string, Size> {
  const sizes: Record<string, Size> = { all: { tokens: 0, files: 0 } };
  for (const path of typeScriptIn(root)) {
    const name = relative(root, path);
    if (IS_TEST.test(name) !== areTests) continue;
    const [top = '', below = ''] = dirname(name).split('/');
    const folder = top === DIVIDED && below !== '' ? join(top, below) : top;
    const tokens = tokensOf(readFileSync(path, 'utf8')).length;
    for (const each of ['all', folder]) {
      const before = sizes[each] ?? { tokens: 0, files: 0 };
      sizes[each] = { tokens: before.tokens + tokens, files: before.files + 1 };
    }
  }
  return sizes;
}

const typeScriptIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (LEFT_OUT.has(entry.name) || entry.name.startsWith('.')) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return typeScriptIn(path);
    return /\.tsx?$/.test(entry.name) ? [path] : [];
  });

function print(name: string, folders: Readonly<Record<string, Size>>): void {
  console.log(name);
  for (const [folder, { tokens, files }] of Object.entries(folders).sort(([, a], [, b]) => b.tokens - a.tokens))
    console.log(`  ${folder.padEnd(24)} ${String(tokens).padStart(8)} tokens ${String(files).padStart(5)} files`);
}
