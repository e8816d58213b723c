import { expect, test } from 'vitest';
import type { RunFile } from '../../swarm/run/runFile.ts';
import { modelCard } from './modelCard.ts';

const NONE = { licence: [], samples: [] };

const file = {
  name: 'whale',
  model: {},
  data: { files: ['a.txt'], tokenizer: 'bytes' },
  train: { steps: 300, globalBatchSize: 24, sequenceLength: 32 },
} as unknown as RunFile; // what is asked for
const text = { tokens: 0, shardTokens: 1, bytesPerToken: 1, shards: [] } as const;

test('a model card says what was trained, how far, and how well; nobody’s words become markup', () => {
  const bare = modelCard({
    file,
    data: text,
    step: 200,
    parameters: 98_304,
    positions: 32,
    loss: 2.05,
    heldOutLoss: null,
    card: null,
    ...NONE,
  });
  expect(bare).toContain('- Steps: 200 of 300, 153,600 tokens of text in all');
  expect(bare).toContain('- Loss, in nats a token: 2.050 on the text it learns from\n');
  expect(bare).toContain('- Text: 1 file, read as bytes');
  expect(bare).toContain('- Licence: not said by who trained it');
  const card = {
    purpose: 'For\n# fun <b>',
    by: 'class *7b*',
    text: 'Moby Dick',
    licence: 'CC0',
    link: 'https://example.org/a>b',
  };
  const said = modelCard({
    file,
    data: text,
    step: 200,
    parameters: 1,
    positions: 1024,
    loss: null,
    heldOutLoss: 2,
    card,
    ...NONE,
  });
  expect(said).toContain('\nFor \\# fun \\<b\\>\n');
  expect(said).toContain('\n- By: class \\*7b\\*\n');
  expect(said).toContain('- More: <https://example.org/ab>');
  expect(said.startsWith('---\nlibrary_name: transformers\n')).toBe(true);
});

test('its example asks for no more tokens than the model has positions beside the prompt', () => {
  const example = (positions: number, tokenizer = 'bytes'): string[] => {
    const of = { ...file, data: { ...file.data, tokenizer } };
    const card = modelCard({
      file: of,
      data: text,
      step: 1,
      parameters: 1,
      positions,
      loss: null,
      heldOutLoss: null,
      card: null,
      ...NONE,
    });
    return [...(/tokenizer\("(.*?)".*max_new_tokens=(\d+)/s.exec(card) ?? [])].slice(1);
  };
  expect(example(1024)).toEqual(['The ', '80']);
  expect(example(32)).toEqual(['The ', '28']);
  expect(example(32, 'tokenizer.json')).toEqual(['The ', '24']);
  expect(example(3)).toEqual(['T', '2']);
  expect(example(1)).toEqual(['T', '1']);
});

test('where the config says halves its example asks for the float32 that the weights are: transformers 5 goes by the config', () => {
  const loads = (model: object): string | undefined => {
    const of = { ...file, model } as RunFile;
    const facts = {
      file: of,
      data: text,
      step: 1,
      parameters: 1,
      positions: 32,
      loss: null,
      heldOutLoss: null,
      card: null,
      ...NONE,
    };
    return /from_pretrained\((.*)\)/.exec(modelCard(facts))?.[1];
  };
  // As transformers 4 and 5 name it in config.json.
  for (const config of [{ torch_dtype: 'bfloat16' }, { dtype: 'float16' }])
    expect(loads(config)).toBe('".", torch_dtype="float32"');
  for (const config of [{}, { torch_dtype: 'float32' }, { dtype: null }]) expect(loads(config)).toBe('"."');
});

test('what was tuned from somebody’s weights stands under their terms, named as these want it', () => {
  const bare = { data: text, step: 300, parameters: 1, positions: 32, loss: null, heldOutLoss: null, card: null };
  const of = (licence: readonly string[], model: object): string => {
    const facts = { ...bare, file: { ...file, model, init: 'weights' } as RunFile, licence };
    return modelCard({ ...facts, samples: [{ prompt: 'Say *it*', before: 'xx', after: 'it' }] });
  };
  const llama = of(['license: llama3.2', 'license_link: LICENSE.txt'], { _name_or_path: 'meta-llama/Llama-3.2-1B' });
  expect(llama).toContain('base_model: meta-llama/Llama-3.2-1B\nlicense: llama3.2\nlicense_link: LICENSE.txt\n---\n');
  expect(llama).toContain('\n# Llama-whale\n');
  expect(llama).toContain('; of the weights that it began with: llama3.2\n- Built with Llama\n');
  expect(llama).toContain('After “Say \\*it\\*” it writes, before the training and after it:\n\n- xx\n- it\n');
  const other = of([], {});
  expect(other).toContain('\n# whale\n');
  expect(other).toContain('- Licence: not said by who trained it\n');
  expect(of(['license: gemma'], {})).toContain('subject to the Gemma Terms of Use');
  const linked = of(['license_link: https://a.example/Llama', 'license: other', 'license_name: mine'], {});
  expect(linked).toContain('\n# whale\n');
  expect(linked).toContain('; of the weights that it began with: mine\n');
});
