import { expect, test } from 'vitest';
import { testWordsProblem } from './testWords.mjs';

const LANES = ['types', 'lint', 'unit', 'e2e'];

test.each([
  [[], null],
  [['unit', '--long'], null],
  [['unti'], 'test: unknown lane "unti", expected types, lint, unit, e2e or --long (Did you mean unit?)'],
  [['types', 'e2'], 'test: unknown lane "e2", expected types, lint, unit, e2e or --long (Did you mean e2e?)'],
  [['--lnog'], 'test: unknown option "--lnog", expected types, lint, unit, e2e or --long (Did you mean --long?)'],
  [['browser'], 'test: unknown lane "browser", expected types, lint, unit, e2e or --long'],
])('words that npm test does not know are guessed at as commands are: %j', async (words, sentence) => {
  expect(await testWordsProblem(words, LANES)).toBe(sentence);
});
