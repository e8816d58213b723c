/**
 * What not every browser with WebGPU has, and how the pages see whether it is there. A row for each: whatever names it is
 * guarded in the same file. What docs/troubleshooting.md says of Safari and Firefox is this table in words.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..', '..');

interface Feature {
  readonly name: string;
  readonly use: RegExp;
  /** Null: nothing here may use it. */
  readonly guard: RegExp | null;
}

/** Caught where it is refused; what a missing object throws is caught there too. */
const CAUGHT = /\} catch( \(\w+(: unknown)?\))? \{/;

const FEATURES: readonly Feature[] = [
  // Neither Safari nor Firefox has these.
  { name: 'deviceMemory', use: /navigator\.deviceMemory/, guard: /'deviceMemory' in navigator/ },
  { name: 'idle detection', use: /new globalThis\.IdleDetector/, guard: /globalThis\.IdleDetector === undefined/ },
  { name: 'battery', use: /navigator\.getBattery/, guard: /navigator\.getBattery\?\.\(/ },
  { name: 'subgroups and halves', use: /requiredFeatures:/, guard: /adapter\.features\.has\(/ },
  { name: 'channels that go to a worker', use: /structuredClone\(channel/, guard: CAUGHT },
  { name: 'network information', use: /navigator\.connection\b/, guard: null },
  { name: 'user agent data', use: /navigator\.userAgentData/, guard: null },
  { name: 'memory of the page', use: /performance\.memory|measureUserAgentSpecificMemory/, guard: null },
  { name: 'file pickers', use: /show(Save|Open)FilePicker|showDirectoryPicker/, guard: null },
  // Safari alone lacks it, or names fewer permissions, or allows less.
  { name: 'idle callbacks', use: /requestIdleCallback/, guard: null },
  { name: 'tasks with priorities', use: /\bscheduler\.(postTask|yield)/, guard: null },
  { name: 'permissions', use: /navigator\.permissions\.query/, guard: CAUGHT },
  {
    name: 'notifications',
    use: /new Notification\(|Notification\.(permission|request)/,
    guard: /'Notification' in globalThis/,
  },
  { name: 'a lock on the screen', use: /navigator\.wakeLock/, guard: CAUGHT },
  // Firefox on a computer lacks it.
  { name: 'sharing', use: /navigator\.share\(/, guard: /'share' in navigator/ },
  // Lacking on a page that is neither https nor localhost, which then says so.
  { name: 'the clipboard', use: /navigator\.clipboard/, guard: CAUGHT },
  {
    name: 'WebGPU',
    use: /requestAdapter\(/,
    guard: /if \(!gpu\) return refusal|\(gpu as GPU \| undefined\) === undefined/,
  },
];

function sources(folder: string, kind: RegExp): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'testing' ? [] : sources(path, kind);
    return kind.test(entry.name) && !/\.test\.tsx?$/.test(entry.name) ? [path] : [];
  });
}

const PAGES = sources(join(ROOT, 'web', 'src'), /\.tsx?$/).map((path) => ({
  path: relative(ROOT, path),
  text: readFileSync(path, 'utf8'),
}));

test.each(FEATURES)('$name: no use without its check', ({ use, guard }) => {
  const unguarded = PAGES.filter(({ text }) => use.test(text) && !guard?.test(text)).map(({ path }) => path);
  expect(unguarded).toEqual([]);
});

test('a table of what is used: each row with a guard has a use', () => {
  const idle = FEATURES.filter(({ use, guard }) => guard !== null && !PAGES.some(({ text }) => use.test(text)));
  expect(idle.map(({ name }) => name)).toEqual([]);
});

test('no shader asks for a feature of the language: Firefox has three of them', () => {
  const asking = sources(join(ROOT, 'shaders'), /\.(ts|wgsl)$/).filter((path) =>
    /^\s*['"`]?requires \w+/m.test(readFileSync(path, 'utf8')),
  );
  expect(asking).toEqual([]);
});
