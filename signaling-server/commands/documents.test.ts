/** The documents say what the program does, no more and no less: commands, options, files, messages, calls. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { peerMessageSchema, serverMessageSchema } from '../../swarm/messages/messages.ts';
import { REFUSAL_REASONS, retrySeconds } from '../../swarm/messages/refusals.ts';
import { parameters } from '../../swarm/model/model.ts';
import { parseCluster } from '../../swarm/planner/cluster.ts';
import { parseRunFile, wholeModelOf } from '../../swarm/run/runFile.ts';
import { parseSimulateProblem } from '../../swarm/simulate/problem.ts';
import { program } from './program.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const jsonOf = (path: string): unknown => JSON.parse(read(path));
const DOCUMENTS = [
  ...['README.md', 'ARCHITECTURE.md', 'BENCHMARKS.md', 'CONTRIBUTING.md'],
  ...readdirSync(join(ROOT, 'docs')).flatMap((name) => (name.endsWith('.md') ? [`docs/${name}`] : [])),
];
/** Options of npx vite, npx vitest, npm test and every command. */
const OPTIONS_OF_OTHERS = ['--config', '--project', '--testTimeout', '--long', '--help', '--version', '--external-ip'];

const OPTION = /(?<![\w-])--[a-zA-Z][\w-]*/g;
const withoutBlocks = (text: string): string => text.replaceAll(/```[^`]*```/g, '');
const inBackticks = (text: string): string[] =>
  [...withoutBlocks(text).matchAll(/`([^`]+)`/g)].flatMap(([, code]) => code ?? []);
const optionsIn = (text: string): string[] => text.match(OPTION) ?? [];

/** Every command by its words, with its long options. */
const options = new Map<string, ReadonlySet<string>>();
const scripts = (jsonOf('package.json') as { scripts: Readonly<Record<string, string>> }).scripts;

function collect(command: Command, words: string): void {
  const own = command.options.flatMap(({ long }) => (long == null || long === '--version' ? [] : [long]));
  options.set(words, new Set(own));
  for (const sub of command.createHelp().visibleCommands(command))
    if (sub.name() !== 'help') collect(sub, `${words} ${sub.name()}`);
}

/** Loading every command takes a busy machine a while. */
const LOADING_LIMIT_MS = 120_000;
beforeAll(async () => collect(await program(), 'shoal'), LOADING_LIMIT_MS);

/** Sections of a document: heading and what stands under it. */
const sections = (path: string): (readonly [heading: string, body: string])[] =>
  read(path)
    .split(/^#{1,4} /m)
    .map((section) => {
      const end = section.indexOf('\n');
      return [section.slice(0, end), section.slice(end)];
    });
const section = (path: string, heading: string): string =>
  sections(path).find(([own]) => own === heading)?.[1] ?? expect.fail(`${path} has no section "${heading}"`);
/** Cells of a section's tables, without their heads. */
const rows = (body: string): string[][] =>
  body.split(/\n\| ?-.*\n/).flatMap((table, index) =>
    index === 0
      ? []
      : table
          .split('\n')
          .slice(
            0,
            table.split('\n').findIndex((line) => !line.startsWith('|')),
          )
          .map((line) => line.split('|').slice(1, -1)),
  );

describe('docs/commands.md', () => {
  it('has a section for each command, with its options and no other', () => {
    const described = new Map(
      sections('docs/commands.md').flatMap(([heading, body]) => {
        const [, words] = /^`(shoal[\w -]*)`$/.exec(heading) ?? [];
        if (words === undefined) return [];
        return [[words, new Set(rows(body).flatMap(([first = '']) => optionsIn(first)))] as const];
      }),
    );
    // `shoal` itself has none, and `shoal test` is npm test.
    const expected = new Map([...options].filter(([words]) => words !== 'shoal' && words !== 'shoal test'));
    expect(described).toEqual(expected);
  });
});

/** Commands as they are typed: lines of sh blocks, and code that begins with one. */
const typed = (text: string): string[] => [
  ...[...text.matchAll(/```sh\n([^`]*)```/g)].flatMap(([, block = '']) => block.trim().split('\n')),
  ...inBackticks(text).filter((code) => /^(npm (run|start|test)|shoal) /.test(code)),
];

describe.each(DOCUMENTS)('%s', (path) => {
  it('types commands that there are, with options that they have', () => {
    for (const line of typed(read(path))) {
      const words = line.replace(/ #.*$/, '').replaceAll('\n', ' ');
      const [, script, direct] = /^npm (?:run (?:-s )?([\w-]+)|(start|test))/.exec(words) ?? [];
      const named = script ?? direct;
      if (named !== undefined) expect(scripts, line).toHaveProperty(named);
      const rest = words.replace(/^npm run -s shoal --/, 'shoal').replace(/^npm start( --)?/, 'shoal serve');
      if (!rest.startsWith('shoal ') || rest.startsWith('shoal COMMAND')) continue;
      const [, name = '', sub] = /^shoal ([\w-]+)(?: ([\w-]+))?/.exec(rest) ?? [];
      const known = options.get(`shoal ${name} ${sub}`) ?? options.get(`shoal ${name}`);
      expect(known, line).toBeDefined();
      for (const option of optionsIn(rest)) expect([...(known ?? []), '--help'], line).toContain(option);
    }
  });

  it('names options that some command has', () => {
    const known = new Set([...OPTIONS_OF_OTHERS, ...[...options.values()].flatMap((own) => [...own])]);
    const named = inBackticks(read(path)).flatMap(optionsIn);
    expect(named.filter((option) => !known.has(option))).toEqual([]);
  });
});

describe('docs/run-file.md', () => {
  it('shows a run file that is one', () => {
    const [, json = ''] = /```json\n([^`]*)```/.exec(read('docs/run-file.md')) ?? [];
    expect(parseRunFile(JSON.parse(json), 'it')).toMatchObject({ ok: true });
  });

  it('says every field, those with a default too', () => {
    const parsed = parseRunFile(jsonOf('docs/examples/run.json'), 'it');
    if (!parsed.ok) return expect.fail(parsed.reason);
    const fieldsOf = (value: unknown): string[] =>
      typeof value !== 'object' || value === null || Array.isArray(value)
        ? []
        : Object.entries(value).flatMap(([name, inner]) => [name, ...(name === 'model' ? [] : fieldsOf(inner))]);
    const said = new Set(inBackticks(read('docs/run-file.md')).flatMap((code) => code.match(/\w+/g) ?? []));
    expect(fieldsOf(parsed.value).filter((name) => !said.has(name))).toEqual([]);
  });
});

test('the example files are what they are called', () => {
  for (const name of ['run', 'gpt2-small', 'questions'])
    expect(parseRunFile(jsonOf(`docs/examples/${name}.json`), name)).toMatchObject({ ok: true });
  expect(parseCluster(jsonOf('docs/examples/cluster.json'), 'it')).toMatchObject({ ok: true });
  expect(parseCluster(jsonOf('docs/examples/fine-tune/four-homes.json'), 'it')).toMatchObject({ ok: true });
  for (const name of ['schedule', 'shared-line'])
    expect(parseSimulateProblem(jsonOf(`docs/examples/${name}.json`))).toMatchObject({ ok: true });
});

// Sizes as the models' cards have them.
test.each([
  ['smollm2-135m', 134_515_008],
  ['smollm2-360m', 361_821_120],
  ['gemma-3-270m', 268_098_176],
  ['qwen3-0.6b', 596_049_920],
  ['llama-3.2-1b', 1_235_814_400],
])('docs/examples/fine-tune/%s.json is of that model', (name, size) => {
  const parsed = parseRunFile(jsonOf(`docs/examples/fine-tune/${name}.json`), name);
  expect(parsed.ok ? parameters(wholeModelOf(parsed.value)) : parsed.reason).toBe(size);
});

describe('docs/protocol.md', () => {
  const path = 'docs/protocol.md';
  it.each([
    ['From a donor', peerMessageSchema],
    ['From the server to a donor', serverMessageSchema],
  ] as const)('%s: every message with its fields', (heading, schema) => {
    const described = rows(section(path, heading)).flatMap(([types = '', fields = '']) =>
      inBackticks(types).map((type) => [type, fields] as const),
    );
    expect(described.map(([type]) => type).sort()).toEqual(schema.options.map(({ shape }) => shape.type.value).sort());
    const words = new Map(described.map(([type, fields]) => [type, fields.match(/\w+/g) ?? []]));
    for (const { shape } of schema.options)
      for (const field of Object.keys(shape))
        if (field !== 'type') expect(words.get(shape.type.value), `${shape.type.value}.${field}`).toContain(field);
  });

  it('has every reason of a refusal', () => {
    const reasons = rows(section(path, 'Refusals')).flatMap(([first = '']) => inBackticks(first));
    expect(reasons.sort()).toEqual([...REFUSAL_REASONS].sort());
  });
  it('says after what time each refused one may ask again', () => {
    for (const [first = '', , again] of rows(section(path, 'Refusals')))
      for (const reason of REFUSAL_REASONS.filter((one) => inBackticks(first).includes(one))) {
        const seconds = retrySeconds(reason, () => 0);
        expect(again?.trim(), reason).toBe(seconds === null ? 'never' : `${seconds} s`);
      }
  });

  it('has every call that the server answers', () => {
    const PATH = /(?<=^|['` ])\/(?:api\/[\w/:-]+|healthz|readyz|metrics)/g;
    const plain = (call: string): string => call.replaceAll(/:\w+|\b[A-Z]{2,}\b/g, '*');
    const sources = readdirSync(join(ROOT, 'signaling-server'), { recursive: true, encoding: 'utf8' }).filter(
      (name) => /\.ts$/.test(name) && !/\.test\.ts$|(^|\/)(testing|bench)\//.test(name),
    );
    const served = sources.flatMap((name) => read(`signaling-server/${name}`).match(PATH) ?? []).map(plain);
    const said = (read(path).match(PATH) ?? []).map(plain);
    expect([...new Set(said)].sort()).toEqual([...new Set(served)].sort());
  });
});
