import { expect, test } from 'vitest';
import { INITIAL_DRAFT, runFileOfDraft } from '../../../swarm/run/runDraft.ts';
import { parseRunFile } from '../../../swarm/run/runFile.ts';
import { draftProblem, wrongFields } from './draftFields.ts';

const OPTIMIZER = { type: 'adamw', learningRate: 0.003, betas: [0.9, 0.95], epsilon: 1e-8 };
const SOURCE = {
  name: 'source',
  model: {
    ...{ model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 32, n_positions: 64, vocab_size: 256 },
    ...{ activation_function: 'gelu_new', resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0 },
    ...{ layer_norm_epsilon: 1e-5, initializer_range: 0.02, tie_word_embeddings: true },
  },
  init: { seed: 1 },
  data: { files: ['text.txt'], tokenizer: 'bytes' },
  train: { steps: 10, globalBatchSize: 4, sequenceLength: 16, optimizer: OPTIMIZER },
};
const DRAFT = { ...INITIAL_DRAFT, source: 'source', name: 'mine' };

test.each([
  [{ sequenceLength: 5_000 }, 'sequenceLength', 'Tokens a sample must be at most the model'],
  [{ globalBatchSize: 1e9 }, 'globalBatchSize', 'Samples a step must be'],
  [{ learningRate: 1e60 }, 'learningRate', 'Learning rate must be'],
  [{ name: 'a\u0007' }, 'name', 'Name must be'],
])('what a run file refuses is said of the form’s own field: %j', (part, field, begin) => {
  const source = parseRunFile(SOURCE, 'source');
  if (!source.ok) throw new Error(source.reason);
  const file = runFileOfDraft({ ...DRAFT, ...part }, source.value);
  const problem = draftProblem(file.ok ? '' : `Refused: ${file.reason}.`);
  expect(problem?.field).toBe(field);
  expect(problem?.sentence.slice(0, begin.length)).toBe(begin);
});

test('a text of one’s own keeps the model that was chosen: its shape for bytes, but not its weights', () => {
  const model = { ...SOURCE.model, vocab_size: 5_000, eos_token_id: 4_999 };
  const source = parseRunFile({ ...SOURCE, model }, 'source');
  if (!source.ok) throw new Error(source.reason);
  const own = { ...DRAFT, text: 'mine' };
  const file = runFileOfDraft(own, source.value);
  expect(file.ok && file.value.model).toEqual(SOURCE.model);
  const weights = runFileOfDraft({ ...own, checkpoint: 10 }, source.value);
  expect(draftProblem(weights.ok ? '' : weights.reason)?.field).toBe('checkpoint');
});

test('examples lie in windows of their run: a draft on them has the same length', () => {
  const source = parseRunFile({ ...SOURCE, data: { ...SOURCE.data, format: 'completion' } }, 'source');
  if (!source.ok) throw new Error(source.reason);
  const file = runFileOfDraft({ ...DRAFT, sequenceLength: 16 }, source.value);
  expect(file.ok && file.value.data.format).toBe('completion');
  const other = runFileOfDraft({ ...DRAFT, sequenceLength: 8 }, source.value);
  expect(other).toMatchObject({
    ok: false,
    reason: 'the examples of source lie in windows of 16 tokens: choose the same length',
  });
});

test('other refusals lead to their field too, and what donors would mend to none', () => {
  expect(draftProblem('Refused: there is a run "a" already: choose another name.')).toEqual({
    field: 'name',
    sentence: 'Name: there is a run "a" already: choose another name.',
  });
  expect(draftProblem('Refused: the draft: model.n_embd must be a multiple of n_head (2), not 33.')).toEqual({
    field: 'model',
    sentence: 'Model: n_embd must be a multiple of n_head (2), not 33.',
  });
  expect(draftProblem('Refused: the model does not fit.')).toBe(null);
});

test('what is wrong with a draft, a sentence a field', () => {
  expect(wrongFields(DRAFT)).toEqual([]);
  expect(wrongFields({ ...DRAFT, name: ' ', steps: 0.5 }).map(({ field }) => field)).toEqual(['name', 'steps']);
});
