/** [CO54] What is finite is committed, however unusual it is. In Firefox: firefox.spec.ts. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { copyOfRun, type Json, jsonLines, runSwarm, temporaryFolder } from './product.ts';
import { expectUnusual } from './unusual.ts';

const IS_LONG = process.env.SHOAL_LONG === '1';

test.each([
  ...(IS_LONG ? ([['dashes', 'one donor', ['--donors', '1']]] as const) : []),
  ['dashes', 'two donors', ['--donors', '2']],
  ['dashes', 'four donors that are planned for', ['--donors', '4', '--schedule', 'auto']],
  ['islands', 'two islands', ['--donors', '2']],
  ['repeats', 'two donors', ['--donors', '2']],
] as const)('[CO54] %s, %s: no step is done twice', async (name, _who, options) => {
  await expectUnusual(name, ...options);
});

// Chaotic: no trainer agrees with another on its last steps.
test.runIf(IS_LONG)(
  '[CO54] the smallest run of the documents learns a poem by heart, and no step is done twice',
  { timeout: 1_800_000 },
  async () => {
    const path = copyOfRun('unusual', (run) => ({
      ...run,
      model: { model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 64, vocab_size: 256 },
      data: { files: ['poem.txt'], tokenizer: 'bytes' },
      train: {
        ...(run.train as Json),
        ...{ steps: 400, globalBatchSize: 16, sequenceLength: 64 },
        optimizer: { type: 'adamw', learningRate: 0.004, betas: [0.9, 0.95], epsilon: 1e-8 },
      },
    }));
    const report = join(temporaryFolder(), 'report.json');
    const { metrics } = await runSwarm(path, '--donors', '2', '--report', report);
    expect(metrics.map(({ step }) => step)).toEqual(Array.from({ length: 400 }, (_, step) => step));
    expect(metrics.every(({ plan }) => plan === metrics[0]?.plan)).toBe(true);
    expect(jsonLines(report)).toMatchObject([{ rollbacks: [], refused: [] }]);
  },
);
