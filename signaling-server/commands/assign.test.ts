import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Captured } from '../testing/captured.ts';
import { runCommand } from './program.ts';

const command = new Captured();
beforeEach(() => command.begin());
afterEach(() => command.end());

const golden = (name: string) => fileURLToPath(new URL(`../../e2e/golden/assign/${name}.json`, import.meta.url));

interface Golden {
  readonly objectiveMs: number;
  readonly samplesPerSecond: number;
  readonly maxMicroBatch: readonly number[];
  readonly maxMicroBatchEvenState: readonly number[];
}

interface Answer {
  readonly objectiveMs: number;
  readonly samplesPerSecond: number;
  readonly peers: readonly Readonly<Record<string, number>>[];
}

const PROBLEM = JSON.parse(readFileSync(golden('four-peers'), 'utf8'));
const [PEER, ...OTHERS] = PROBLEM.peers;
const withPeer = (change: object) => ({ ...PROBLEM, peers: [{ ...PEER, ...change }, ...OTHERS] });

function write(problem: unknown): string {
  const path = join(command.folder, 'problem.json');
  writeFileSync(path, typeof problem === 'string' ? problem : JSON.stringify(problem));
  return path;
}

describe('the golden problems', () => {
  it.each(['four-peers', 'four-peers-small-batch', 'four-peers-hidden-communication'])('%s', async (name) => {
    expect(await runCommand(['assign', golden(name), '--json'])).toBe(0);
    expect(command.errors).toBe('');
    const answer: Answer = JSON.parse(command.out);
    const problem: typeof PROBLEM = JSON.parse(readFileSync(golden(name), 'utf8'));
    const expected: Golden = JSON.parse(readFileSync(golden(`${name}.expected`), 'utf8'));
    expect(answer.objectiveMs / expected.objectiveMs).toBeCloseTo(1, 9);
    expect(answer.samplesPerSecond / expected.samplesPerSecond).toBeCloseTo(1, 9);
    const column = (field: string) => answer.peers.map((peer) => peer[field] ?? Number.NaN);
    const sum = (field: string) => column(field).reduce((total, value) => total + value, 0);
    expect(column('maxMicroBatch')).toEqual(expected.maxMicroBatch);
    expect(column('maxMicroBatchEvenState')).toEqual(expected.maxMicroBatchEvenState);
    expect(sum('samples')).toBe(problem.globalBatch);
    expect(sum('stateGiB')).toBeCloseTo(problem.stateGiB, 6);
    expect(sum('stateShare')).toBeCloseTo(1, 9);
    for (const [index, peer] of answer.peers.entries()) {
      expect(Object.keys(peer)).toEqual([
        ...['id', 'microBatch', 'count', 'samples', 'stateGiB', 'stateShare', 'maxMicroBatch'],
        'maxMicroBatchEvenState',
      ]);
      expect(peer.id).toBe(problem.peers[index].id);
    }
  });

  it('prints a table for people', async () => {
    expect(await runCommand(['assign', golden('four-peers')])).toBe(0);
    expect(command.out.split('\n').map((line) => line.replace(/ {2,}/g, ' | '))).toEqual([
      '342.30 ms a layer (the least possible), 10.953 s for 32 layers, 5.843 samples a second',
      'peer | samples a step | micro-batches | ms a layer | keeps of the state | memory used | most at once | with equal shares',
      'l4-0 | 13 | 1 of 13 | 342.30 | 9.303 GiB, 22.5 % | 16.88 of 16.88 GiB | 38 | 10',
      'l4-1 | 12 | 1 of 12 | 316.52 | 9.674 GiB, 23.4 % | 16.88 of 16.88 GiB | 38 | 10',
      'a6000-2 | 34 | 1 of 34 | 340.06 | 11.154 GiB, 27.0 % | 26.52 of 35.99 GiB | 89 | 61',
      'p40-3 | 5 | 1 of 5 | 306.60 | 11.154 GiB, 27.0 % | 15.76 of 16.88 GiB | 38 | 10',
      expect.stringMatching(/^micro-batches: how many, /),
      expect.stringMatching(/^most at once: the largest /),
      '',
    ]);
  });

  it('names the peers that compute beside less than an even share of the state', async () => {
    const small = { ...PEER, memoryGiB: 10 };
    expect(await runCommand(['assign', write({ ...PROBLEM, peers: [small, ...OTHERS] })])).toBe(0);
    expect(command.out).toContain(
      'l4-0 computes although an even share of the state (10.321 GiB) leaves no room for a sample there.\n',
    );
  });

  it('has no largest micro-batch where every one fits', async () => {
    const problem = withPeer({ activationGiB: { table: [1, 1] } });
    expect(await runCommand(['assign', write(problem), '--json'])).toBe(0);
    expect(JSON.parse(command.out).peers[0]).toMatchObject({ maxMicroBatch: null, maxMicroBatchEvenState: null });
    command.out = '';
    expect(await runCommand(['assign', write(problem)])).toBe(0);
    expect(command.out).toMatch(/l4-0 .* any +any\n/);
  });
});

describe('bad input ends with 2 and one sentence', () => {
  const time = { table: [], slope: 1, intercept: 0 };

  it.each<[string, unknown, RegExp]>([
    ['no JSON', '{', /problem\.json is not valid JSON: .*; a problem for assign was expected$/],
    ['NaN', '{"globalBatch": NaN}', /problem\.json is not valid JSON/],
    [
      'a bottomless file',
      `{"peers":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
      /is nested more than 64 levels deep$/,
    ],
    ['no object', [], /problem\.json: the problem must be an object, not \[\]$/],
    ['nothing in it', {}, /globalBatch is missing: it must be a positive integer up to 1000000$/],
    ['an unknown field', { ...PROBLEM, epochs: 3 }, /epochs is unknown: expected one of globalBatch, layers, /],
    ['a missing field', { ...PROBLEM, recompute: undefined }, /recompute is missing: it must be true or false$/],
    ['a negative number', { ...PROBLEM, stateGiB: -1 }, /stateGiB must be a number of 0 or more, not -1$/],
    [
      'an infinite number',
      JSON.stringify(PROBLEM).replace('64', '1e999'),
      /globalBatch must be a positive integer up to/,
    ],
    [
      'half a sample',
      { ...PROBLEM, globalBatch: 6.5 },
      /globalBatch must be a positive integer up to 1000000, not 6\.5$/,
    ],
    ['no layer', { ...PROBLEM, layers: 0 }, /layers must be a positive integer, not 0$/],
    [
      'a fraction above 1',
      { ...PROBLEM, usableFraction: 1.5 },
      /usableFraction must be a number above 0 and at most 1/,
    ],
    ['a factor below 1', { ...PROBLEM, unevenFactor: 0.5 }, /unevenFactor must be a number of 1 or more, not 0\.5$/],
    [
      'memory past all numbers',
      withPeer({ activationGiB: { table: [1e308, 1, 1, 1] } }),
      /peers\[0\]\.activationGiB\.table\[0\] must be at most 1000000000000000, not 1e\+308$/,
    ],
    ['zero peers', { ...PROBLEM, peers: [] }, /peers must be a list of one peer or more, not \[\]$/],
    [
      'fewer samples than peers',
      { ...PROBLEM, globalBatch: 3 },
      /globalBatch must be at least the number of peers \(4\)/,
    ],
    [
      'a peer of no memory',
      withPeer({ memoryGiB: null }),
      /peers\[0\]\.memoryGiB must be a number of 0 or more, not null$/,
    ],
    ['a peer’s unknown field', withPeer({ speed: 2 }), /peers\[0\]\.speed is unknown: expected one of id, memoryGiB, /],
    ['a nameless peer', withPeer({ id: '' }), /peers\[0\]\.id must be a name, not ""$/],
    [
      'two peers of a name',
      withPeer({ id: 'p40-3' }),
      /peers\[3\]\.id must be a name of its own, not "p40-3" as peers\[0\]/,
    ],
    [
      'no activations',
      withPeer({ activationGiB: { table: [] } }),
      /peers\[0\]\.activationGiB\.table must be a list of one/,
    ],
    [
      'a negative entry',
      withPeer({ activationGiB: { table: [1, -2] } }),
      /activationGiB\.table\[1\] must be a number of 0/,
    ],
    [
      'a text for a number',
      withPeer({ forwardMs: { ...time, slope: '7' } }),
      /peers\[0\]\.forwardMs\.slope must be a number/,
    ],
    [
      'a falling line',
      withPeer({ backwardMs: { ...time, slope: -1 } }),
      /backwardMs\.slope must be a number of 0 or more/,
    ],
    [
      'a negative time',
      withPeer({ backwardMs: { table: [1, 2], slope: 1, intercept: -4 } }),
      /peers\[0\]\.backwardMs must be no negative time, not -1 ms for 3 samples$/,
    ],
    [
      'a state that does not fit',
      { ...PROBLEM, stateGiB: 90 },
      /no sizing fits, 15\.864496536 GiB of usable memory are/,
    ],
    ['a peer that holds nothing', withPeer({ memoryGiB: 4 }), /no sizing fits, 0\.120499134 GiB of usable memory are/],
  ])('%s', async (_, problem, sentence) => {
    expect(await runCommand(['assign', write(problem), '--json'])).toBe(2);
    expect(command.errors.trimEnd()).toMatch(sentence);
    expect(command.errors).toContain(join(command.folder, 'problem.json'));
    expect(command.errors.trim().split('\n')).toHaveLength(1);
    expect(command.out).toBe('');
  });

  it('names a file that is not there, and asks for one', async () => {
    expect(await runCommand(['assign', join(command.folder, 'none.json')])).toBe(2);
    expect(command.errors).toMatch(/none\.json: there is no such file: a problem for assign was expected\n$/);
    expect(await runCommand(['assign'])).toBe(2);
    expect(command.errors).toMatch(/missing required argument 'problem\.json'/);
  });

  it('takes a line that meets the axis below 0, where its times are above', async () => {
    expect(await runCommand(['assign', write(withPeer({ forwardMs: { table: [1], slope: 2, intercept: -1 } }))])).toBe(
      0,
    );
  });
});

it('the sample file beside the documents is a problem', async () => {
  const path = fileURLToPath(new URL('../../docs/examples/assign.json', import.meta.url));
  expect(await runCommand(['assign', path])).toBe(0);
  expect(command.out).toMatch(/^peer /m);
});
