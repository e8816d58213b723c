/**
 * A model that is asked while it trains, in real tabs: the loss is the oracle's at every step, greedy answers are those of
 * `sample` on the same weights, and donors may die meanwhile.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, type Json, jsonLines, runSwarm, shoal, temporaryFolder } from './product.ts';

const PROMPTS = ['The server', 'x', 'Hello, my name is', 'a'.repeat(20), 'It was a b'.repeat(6)];
const TOKENS = 8;

interface Answer {
  readonly id: number;
  readonly status: number;
  readonly text: string;
  readonly finishReason: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly fromStep: number;
  readonly toStep: number;
}

/** Each prompt at two steps, the last one after the run. */
function requestsFor(name: string, steps: number): { readonly requests: string; readonly answers: string } {
  const folder = temporaryFolder();
  const lines = [...PROMPTS, ...PROMPTS].map((prompt, id) => ({
    ...{ id, atStep: id === 2 * PROMPTS.length - 1 ? steps : 1 + id, model: name, prompt },
    ...{ max_tokens: TOKENS, temperature: 0 },
  }));
  const requests = join(folder, 'requests.jsonl');
  writeFileSync(requests, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  return { requests, answers: join(folder, 'answers.jsonl') };
}

const answersIn = (path: string): Answer[] => jsonLines(path) as Answer[];

test('questions change no loss, and each says of which steps its weights were', async () => {
  const run = copyOfRun('gpt2-tiny');
  const { requests, answers } = requestsFor('gpt2-tiny', 20);
  const { metrics } = await runSwarm(run, '--donors', '2', '--requests', requests, '--answers', answers);
  expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
  for (const { id, status, finishReason, promptTokens, completionTokens, fromStep, toStep } of answersIn(answers)) {
    expect([status, finishReason]).toEqual([200, 'length']);
    const prompt = PROMPTS[id % PROMPTS.length] ?? '';
    expect(promptTokens).toBe(prompt.length);
    expect(completionTokens).toBe(Math.min(TOKENS, 64 + 1 - prompt.length));
    expect(fromStep).toBeLessThanOrEqual(toStep);
    expect(toStep).toBeLessThanOrEqual(20);
  }
  // Asked at step 1, when nobody had saved anything since the beginning: so the donors answered.
  expect(answersIn(answers).at(0)?.fromStep).toBeGreaterThan(0);
});

test('with a rate of 0 greedy answers are those of sample, while a donor dies and another joins', async () => {
  const run = copyOfRun('gpt2-tiny', ({ train, ...file }) => {
    const { optimizer, ...rest } = train as Json & { optimizer: Json };
    return { ...file, train: { ...rest, optimizer: { ...optimizer, learningRate: 0 } } };
  });
  const { requests, answers } = requestsFor('gpt2-tiny', 20);
  const folder = join(mkdtempSync(join(temporaryFolder(), 'x')), 'export');
  const script = ['--chaos', 'kill:1@4,join@8', '--export', folder];
  await runSwarm(run, '--donors', '2', ...script, '--requests', requests, '--answers', answers);
  const found = answersIn(answers);
  expect(found.map(({ status }) => status)).toEqual(found.map(() => 200));
  for (const [index, prompt] of PROMPTS.entries()) {
    const count = String(found[index]?.completionTokens);
    const options = ['--weights', folder, '--prompt', prompt, '--tokens', count, '--temperature', '0', '--json'];
    const { stdout } = await shoal('sample', ...options);
    const { text } = JSON.parse(stdout);
    expect([found[index]?.text, found[index + PROMPTS.length]?.text], prompt).toEqual([text, text]);
  }
});
