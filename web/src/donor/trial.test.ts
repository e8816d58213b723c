import { expect, test } from 'vitest';
import type { About } from '../../../swarm/messages/about.ts';
import { aloneSeconds, pagesPerMinute } from './trial.ts';

const about = (vocabulary: number): About => ({
  name: 'r',
  model: { vocab_size: vocabulary },
  train: { steps: 10 } as About['train'], // what is asked for
  stepTargets: 400,
  parameters: 1,
  card: null,
});

test('a speed is told in pages of a book and in the time that the rest of the run would take alone', () => {
  expect(pagesPerMinute(30, about(256))).toBe(1);
  expect(pagesPerMinute(30, about(50_257))).toBe(4);
  expect(aloneSeconds(40, about(256), 5)).toBe(50);
  expect(aloneSeconds(40, about(256), 11)).toBe(0);
});
