import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Captured } from '../testing/captured.ts';
import { runCommand } from './program.ts';

const command = new Captured();
beforeEach(() => command.begin());
afterEach(() => command.end());

const STAGES = [0, 1].map(() => ({ forwardSeconds: 1, backwardSeconds: 2 }));
/** Every field there, as docs/commands.md has them. */
const PROBLEM = {
  schedule: '1f1b',
  microBatches: 8,
  stages: STAGES,
  chunks: 1,
  pairs: 1,
  warmup: 'normal',
  link: { latencySeconds: 0, bytesPerSecond: null, windowBytes: null, streams: 1 },
  activationBytes: 0,
  gradientBytes: 0,
  jitter: { computeSeconds: 0, linkSeconds: 0, seed: 1 },
};

function write(content: unknown): string {
  const path = join(command.folder, 'problem.json');
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

test('--json prints one document and nothing else', async () => {
  expect(await runCommand(['simulate', write(PROBLEM), '--json'])).toBe(0);
  const { timeline, ...totals } = JSON.parse(command.out);
  expect(totals).toEqual({
    makespanSeconds: 27,
    bubbleRatio: 1 - 48 / 54,
    peers: [
      { busySeconds: 24, idleSeconds: 3, peakInFlight: 2 },
      { busySeconds: 24, idleSeconds: 3, peakInFlight: 1 },
    ],
  });
  expect(timeline).toHaveLength(32);
  expect(timeline[0]).toEqual({ peer: 0, action: '0F0', start: 0, end: 1 });
});

test('without it a person reads how long it takes and who idles', async () => {
  expect(await runCommand(['simulate', write({ schedule: 'gpipe', microBatches: 2, stages: STAGES })])).toBe(0);
  expect(command.out).toBe(
    [
      "gpipe, 2 peers, 2 micro-batches: 9 s, 33.33 % of the peers' time idle",
      'peer  busy  idle  most in flight',
      '   0   6 s   3 s               2',
      '   1   6 s   3 s               2',
      '',
    ].join('\n'),
  );
});

test('requests in the idle time: how many pieces, how busy, and the timeline as without them', async () => {
  const problem = { ...PROBLEM, requests: { pieceSeconds: 1, guardSeconds: 0 } };
  expect(await runCommand(['simulate', write(PROBLEM), '--json'])).toBe(0);
  const { timeline } = JSON.parse(command.out);
  command.clear();
  const svg = join(command.folder, 'served.svg');
  expect(await runCommand(['simulate', write(problem), '--json', '--svg', svg])).toBe(0);
  const answered = JSON.parse(command.out);
  expect(answered.served).toEqual({ pieces: 6, busyRatio: 1 });
  expect(answered.timeline).toEqual(timeline);
  const drawing = readFileSync(svg, 'utf8');
  expect(drawing.match(/<g><title>1 piece of requests on peer [01]: /g)).toHaveLength(6);
  expect(drawing).toContain('>requests</text>');
  command.clear();
  expect(await runCommand(['simulate', write({ ...problem, requests: { pieceSeconds: 0.0001 } }), '--svg', svg])).toBe(
    0,
  );
  expect(command.out).toMatch(
    /\nrequests: 60,000 pieces of 0\.1 ms in the idle time, 100 % of the peers' time busy\n$/,
  );
  expect(readFileSync(svg, 'utf8')).toContain('pieces of requests on peer 1');
  command.clear();
  expect(await runCommand(['simulate', write({ ...problem, requests: { pieceSeconds: 0 } }), '--json'])).toBe(2);
  expect(command.errors).toMatch(/problem\.json: requests\.pieceSeconds must be a number above 0, not 0\n$/);
});

test('--svg draws a bar for each action, each with its name', async () => {
  const svg = join(command.folder, 'pictures', 'timeline.svg');
  expect(await runCommand(['simulate', write({ ...PROBLEM, schedule: 'varuna' }), '--json', '--svg', svg])).toBe(0);
  const drawing = readFileSync(svg, 'utf8');
  expect(drawing).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" width="\d+" height="\d+"/);
  const names = [...drawing.matchAll(/<g><title>(\S+) on peer/g)].map(([, name]) => name);
  expect(names.toSorted()).toEqual(
    JSON.parse(command.out)
      .timeline.map((bar: { action: string }) => bar.action)
      .toSorted(),
  );
});

test.each([
  ['no file', null, /problem\.json: there is no such file/],
  ['no JSON', '{"microBatches": NaN}', /problem\.json is not valid JSON: line 1 has NaN where a value belongs/],
  ['an unknown field', { ...PROBLEM, colour: 'red' }, /problem\.json: colour is unknown: expected one of schedule/],
  ['a pipeline that cannot be', { ...PROBLEM, schedule: 'chimera', microBatches: 7 }, /chimera needs microBatches/],
])('%s: exit 2 and one sentence', async (_, content, sentence) => {
  const path = content === null ? join(command.folder, 'problem.json') : write(content);
  expect(await runCommand(['simulate', path, '--json'])).toBe(2);
  expect(command.errors).toMatch(sentence);
  expect(command.errors.trim().split('\n')).toHaveLength(1);
  expect(command.out).toBe('');
});

test('a drawing that has no place is refused before anything is simulated', async () => {
  expect(await runCommand(['simulate', write(PROBLEM), '--svg', command.folder])).toBe(2);
  expect(command.errors).toMatch(/--svg: .* is a folder: a file to write was expected/);
  expect(command.out).toBe('');
});
