/** What a person can get wrong with a benchmark: one sentence before any device is opened, exit code 2. */

import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { totalOf } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { encodeHeader } from '../../swarm/model/safetensors.ts';
import { runCommand } from '../commands/program.ts';
import { Captured } from '../testing/captured.ts';
import { softwareProblem } from './benchDawn.ts';
import { gpuBench } from './benchGpu.ts';

const captured = new Captured();
beforeEach(() => captured.begin());
afterEach(() => captured.end());

const SHAPE = { layers: 1, width: 4, heads: 2, sequence: 3, vocabulary: 5 };
const STEP = [
  'bench',
  'step',
  '--batch',
  '2',
  ...Object.entries(SHAPE).flatMap(([name, size]) => [`--${name}`, `${size}`]),
];

async function refuses(words: readonly string[], sentence: string): Promise<void> {
  expect(await runCommand(words)).toBe(2);
  expect(captured.out).toBe('');
  expect(captured.errors).toBe(`${sentence}\n`);
}

function write(content: string | Uint8Array): string {
  const path = join(captured.folder, 'given');
  writeFileSync(path, content);
  return path;
}

describe('tokens of a step', () => {
  it.each([
    ['{}', 'it holds {}'],
    ['[[0, 1, 2, 3]]', 'it holds 1'],
    ['[[0, 1, 2, 3], null]', 'list 2 is null'],
    ['[[0, 1, 2, 3], [0, 1, 2]]', 'list 2 has 3'],
    ['[[0, 1, 2, 5], [0, 1, 2, 3]]', 'list 1 has 5 at its place 4'],
    ['[[0, 1, 2, 3], [-1, 1, 2, 3]]', 'list 2 has -1 at its place 1'],
    ['[[0, 1, 2, 3], [0, 0.5, 2, 3]]', 'list 2 has 0.5 at its place 2'],
    ['[[0, 1, 2, 3], [0, 1, "2", 3]]', 'list 2 has "2" at its place 3'],
  ])('%s', async (json, what) => {
    const path = write(json);
    await refuses([...STEP, '--tokens', path], `${path} must hold 2 lists of 4 token ids below 5 each, but ${what}`);
  });

  it('which are no JSON, and which are not there', async () => {
    const path = write('[[');
    const expected = 'a list of token lists was expected';
    await refuses(
      [...STEP, '--tokens', path],
      `${path} is not valid JSON: it ends in line 1 where a value or ] belongs; ${expected}`,
    );
    captured.clear();
    const other = `${path}.json`;
    await refuses([...STEP, '--tokens', other], `${other}: there is no such file: ${expected}`);
  });
});

it.each([Number.NaN, Infinity, -Infinity])('%s among the weights', async (wrong) => {
  const { layers: n_layer, width: n_embd, heads: n_head, sequence: n_positions, vocabulary: vocab_size } = SHAPE;
  const model = modelFromConfig({ model_type: 'gpt2', n_layer, n_embd, n_head, n_positions, vocab_size });
  if (!model.ok) throw new Error(model.reason);
  const tensors = model.value.blocks.flatMap((block) => block.tensors);
  const values = new Float32Array(totalOf(tensors, ({ elements }) => elements));
  values[20 + 7] = wrong; // behind the token table of 5·4
  const path = write(Buffer.concat([encodeHeader(tensors), new Uint8Array(values.buffer)]));
  const sentence = `${path} has ${wrong} in ${tensors[1]?.name}, at its element 7: finite numbers were expected`;
  await refuses([...STEP, '--init', path], sentence);
});

it.each([
  [['step', '--width', '5'], '--width must be a multiple of --heads (4), not 5'],
  [['step', '--layers', '65536'], '--layers must be a positive integer up to 256, not 65536'],
  [['step', '--learning-rate', '1e39'], '--learning-rate must be a number above 0 that float32 can hold, not "1e39"'],
  [['kernels', '--step', 'toString'], '--step: "toString" is unknown: expected xs, s, m'],
  [['server', '--donors', '5'], '--donors needs --servers'],
  [['gpu', '--adapter', 'amd'], '--adapter must be gpu or dawn, not "amd"'],
  [['transport', 'extra'], 'transport takes no arguments, and 1 was given'],
  [['gpu', '--size', 'toString'], '--size: "toString" is unknown: expected xs, s, m, distilgpt2, gpt2-small'],
  [
    ['plan', '--plans', 'equal+1,equal+4'],
    '--plans: "equal+4" is unknown: expected equal, stages, lanes, mixed, pair, 1f1b, overlap, eager, eager-overlap, varuna, interleaved, breadth-first, chimera, gathered, layered, auto, alone 0, alone 1 and so on, and each with +0 to +3 replicas',
  ],
])('bench %j', async (words, sentence) => {
  await refuses(['bench', ...words], sentence);
});

test('the GPU’s figures by themselves: options of a command without a name of its own, defaults as they are typed', () => {
  const help = gpuBench(new Command('gpuFigures')).helpInformation();
  expect(help).toMatch(/^Usage: gpuFigures \[options\]\n/);
  expect(help.replaceAll(/\s+/g, ' ')).toContain('(default: distilgpt2,gpt2-small)');
});

test('a software adapter where the GPU was asked for', () => {
  const profile = { vendor: 'mesa', architecture: '', description: 'llvmpipe', software: true, browser: 'Node' };
  expect(softwareProblem('gpu', profile)).toBe(
    'there is no GPU here, only a software adapter (llvmpipe): --adapter dawn measures it',
  );
  expect(softwareProblem('dawn', profile)).toBeNull();
  expect(softwareProblem('gpu', { ...profile, software: false })).toBeNull();
});

test('the GPU’s figures by themselves take no browser with them: what they import needs none', () => {
  const outside = new Set<string>();
  const seen = new Set<string>();
  const walk = (file: string): void => {
    if (seen.has(file) || !file.endsWith('.ts')) return;
    seen.add(file);
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(/^(?:import (?!type)|\} )[^;]*?from '([^']+)'/gm)) {
      if (name.startsWith('.')) walk(resolve(dirname(file), name));
      else if (!name.startsWith('node:')) outside.add(name);
    }
  };
  walk(resolve(import.meta.dirname, 'gpuFigures.ts'));
  expect(seen.size).toBeGreaterThan(50);
  expect([...outside].filter((name) => /playwright|puppeteer|ws|werift/.test(name))).toEqual([]);
  expect(outside).toContain('commander');
});
