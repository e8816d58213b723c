/** What the documents name is there: every file and folder of this repository in backticks, in a command or behind a link. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const NAMED =
  /`([\w@./-]+\.(?:ts|tsx|mjs|sh|wgsl|md|json|html|css|png|svg|yml)|[\w-]+(?:\/[\w-]+)*\/)`|\]\(([^):#]+)\)|(?<=[\s`])((?:docs|e2e|shaders|signaling-server|swarm|web)\/[\w./-]*\w)/g;
/** Files of a model, of a machine or of a run, and the shape of a name. */
const NOT_OURS =
  /^(((generation|adapter)_)?config\.json|tokenizer\.json|tokenizer_config\.json|model\.safetensors\.index\.json|lvp_icd\.json|(.*\/)?gpuFigures\.mjs|exports\/|(.*\/)?x\.(ts|wgsl))$/;
const NOT_LOOKED_INTO = new Set(['node_modules', 'dist']);

const FILES = readdirSync(ROOT, { withFileTypes: true }).flatMap((entry) => {
  const { name } = entry;
  if (name.startsWith('.') || NOT_LOOKED_INTO.has(name)) return [];
  if (!entry.isDirectory()) return [name];
  return [name, ...readdirSync(join(ROOT, name), { recursive: true }).map((below) => `${name}/${below}`)];
});
const DOCUMENTS = FILES.filter((file) => file.endsWith('.md'));

/** From the root, from the document's own folder, or the end of a path in a row about its folder. */
const isThere = (name: string, document: string): boolean =>
  existsSync(join(ROOT, name)) ||
  existsSync(join(ROOT, dirname(document), name)) ||
  FILES.some((file) => `/${file}/`.endsWith(`/${name.replace(/\/$/, '')}/`));

test.each(DOCUMENTS)('%s names files that are there', (document) => {
  const text = readFileSync(join(ROOT, document), 'utf8');
  const named = [...text.matchAll(NAMED)].map(([, quoted, linked, typed]) => quoted ?? linked ?? typed ?? '');
  expect(named.length, 'files named').toBeGreaterThan(0);
  expect(named.filter((name) => !NOT_OURS.test(name) && !isThere(name, document))).toEqual([]);
});

/** What a person reads between the code: blocks, and lines from `//` on that is no part of an address. */
const COMMENT = /\/\*[\s\S]*?\*\/|(?<![:'"`\w])\/\/.*/g;
const ADDRESS = /https?:\S+/g;
const FILE = /(?<![\w./@-])(?!\.)[\w./-]*\w\.(?:tsx?|mjs|mts|wgsl|md|yml)\b(?!\w)/g;

test('comments cite files that are there', () => {
  const sources = FILES.filter((file) => /\.(tsx?|mjs|mts|wgsl)$/.test(file));
  const cited = sources.flatMap((file) => {
    const comments = readFileSync(join(ROOT, file), 'utf8').replaceAll(ADDRESS, '').match(COMMENT)?.join('\n') ?? '';
    return [...new Set(comments.match(FILE))].map((name) => [file, name] as const);
  });
  expect(cited.length).toBeGreaterThan(100);
  expect(cited.filter(([file, name]) => !NOT_OURS.test(name) && !isThere(name, file))).toEqual([]);
});

test('comments cite rules and documents of this repository, no section of another', () => {
  const sources = FILES.filter((file) => /\.(tsx?|mjs|mts|wgsl)$/.test(file));
  const cited = sources.filter((file) => /\b[A-Z]{5,} §/.test(readFileSync(join(ROOT, file), 'utf8')));
  expect(cited).toEqual([]);
});

/** A string that begins with one rule or more in brackets, or with the first and the last of some. */
const TITLE = /(?<=['"`])(?:\[[A-Z]{2}\d+(?:–[A-Z]{2}\d+)?\] ?)+/g;
const CITED = /\[([A-Z]{2})(\d+)(?:–[A-Z]{2}(\d+))?\]/g;

const citedRules = ([, area, from, to = from]: RegExpExecArray): string[] =>
  Array.from({ length: Number(to) - Number(from) + 1 }, (_, index) => `${area}${Number(from) + index}`);

describe('swarm/SPEC.md', () => {
  const rules = [...readFileSync(join(ROOT, 'swarm/SPEC.md'), 'utf8').matchAll(/^- \*\*([A-Z]{2}\d+)\*\* /gm)].map(
    ([, id]) => id ?? '',
  );

  test('has each rule once', () => {
    expect(rules.filter((id, index) => rules.indexOf(id) !== index)).toEqual([]);
  });

  test('has no rule that no test names in its title', () => {
    const tests = FILES.filter((file) => /\.(test|spec)\.tsx?$|\/testing\/\w+\.ts$/.test(file));
    const titles = tests.flatMap((file) => readFileSync(join(ROOT, file), 'utf8').match(TITLE) ?? []);
    const named = new Set(titles.flatMap((title) => [...title.matchAll(CITED)].flatMap(citedRules)));
    expect(rules.filter((id) => !named.has(id))).toEqual([]);
  });

  test('has every rule that the code, its tests or a document names', () => {
    const areas = [...new Set(rules.map((id) => id.slice(0, 2)))].join('|');
    const rule = new RegExp(`\\b(?:${areas})\\d{1,3}\\b`, 'g');
    const texts = FILES.filter((file) => /\.(tsx?|mjs|wgsl|md)$/.test(file));
    const missing = texts.flatMap((file) => {
      const named = readFileSync(join(ROOT, file), 'utf8').match(rule) ?? [];
      return named.flatMap((id) => (rules.includes(id) ? [] : [`${file}: ${id}`]));
    });
    expect(texts.length).toBeGreaterThan(100);
    expect(missing).toEqual([]);
  });
});
