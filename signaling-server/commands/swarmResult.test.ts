/** What a training ends with, by its exit code, its summary and the page of a CI job. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, expect, it, vi } from 'vitest';
import type { Trained } from '../headless/trainHeadless.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { storeOn } from '../store/store.ts';
import { conclude, type Wanted } from './swarmResult.ts';

const TRAINED: Trained = {
  ...{ outcome: 'finished', committedSteps: 2, seconds: 9, answers: [] },
  ...{ chaos: [], faults: [], memory: [], refused: [], convictions: [] },
};
const page = join(mkdtempSync(join(tmpdir(), 'shoal-')), 'page.md');
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(page, { force: true });
});

/** Of a run with two steps of 8 tokens and a second each, and held-out losses of 5 and 3. */
async function concluded(options: Wanted, trained: Partial<Trained> = {}) {
  const store = storeOn(new DatabaseSync(':memory:'));
  store.addRun('r', 'hash', '{}', 'zero', 0);
  const figures = { gradientNorm: 1, learningRate: 1, tokens: 8, seconds: 1, donors: 2, stages: 1 };
  for (const step of [0, 1]) {
    const record = { step, loss: 4 - step, ...figures, microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 };
    store.commitStep('r', record, []);
    store.saveEvaluation('r', 2 * step, 5 - 2 * step);
  }
  let said = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    said += text;
    return true;
  });
  vi.stubEnv('GITHUB_STEP_SUMMARY', page);
  const ended = { options, runName: 'r', eventsBefore: 0 };
  const end = conclude({ store } as unknown as DataDirectory, ended, { ...TRAINED, ...trained });
  const failure = await end.then(
    () => null,
    ({ exitCode, message }) => [exitCode, message],
  );
  return { failure, said };
}

it('a loss that was reached is a success, one that was not is code 3, time that is over code 4', async () => {
  expect((await concluded({ untilLoss: 3 }, { outcome: 'enough' })).failure).toBeNull();
  expect((await concluded({ untilLoss: 2.5 })).failure).toEqual([
    3,
    'no held-out loss of 2.5 or less after 2 steps: the lowest was 3.0000',
  ]);
  const late = { outcome: 'timeOver' } as const;
  expect((await concluded({ timeLimit: 9 }, late)).failure).toEqual([4, 'the time of 9 s is over after 2 steps']);
  expect((await concluded({ timeLimit: 9, untilLoss: 3 }, late)).failure).toBeNull();
  expect((await concluded({}, { outcome: 'interrupted' })).failure?.[0]).toBe(1);
  const chaos = [{ entry: 'kill:0@9', firedAtStep: null }];
  expect((await concluded({ untilLoss: 3 }, { chaos })).failure?.[0]).toBe(1);
});

it('the summary is one document, and CI’s page has it as a table', async () => {
  const { said } = await concluded({ json: true, untilLoss: 3, metrics: 'm.jsonl' }, { outcome: 'enough' });
  expect(JSON.parse(said)).toEqual({
    ...{ run: 'r', outcome: 'lossReached', steps: 2, seconds: 9, tokens: 16, tokensPerSecond: 8, losses: [4, 3] },
    evaluations: [
      { steps: 0, loss: 5 },
      { steps: 2, loss: 3 },
    ],
    files: { metrics: resolve('m.jsonl') },
    ...{ chaos: [], rollbacks: [], memory: [], faults: [], refused: [], convictions: [] },
  });
  expect(readFileSync(page, 'utf8')).toContain('| Held-out loss | 5.0000 → 3.0000 |');
});
