import { expect, test } from 'vitest';
import type { DraftExamples } from '../../../swarm/run/draftExamples.ts';
import { leftOutTexts, readAsText, timesSeenText, totalsText } from './draftExamples.tsx';
import { draftProblem } from './draftFields.ts';
import { broughtText, freeName } from './draftText.tsx';

const NONE = { count: 0, lines: [] };
const TOTALS = {
  examples: 1_590,
  windows: 134,
  tokens: 4_821,
  counted: 1_402,
  lines: { cut: NONE, late: NONE, empty: NONE },
};
const SEEN: DraftExamples = {
  ...{ format: 'completion', isOfBytes: true, templateFile: null, sequenceLength: 40, first: [] },
  ...{ trained: TOTALS, heldOut: { ...TOTALS, examples: 1 } },
};

test('examples are told by kind, reader and numbers', () => {
  expect(readAsText(SEEN, 'tiny')).toBe('Prompts with completions, read as bytes, as tiny reads its own.');
  expect(readAsText({ ...SEEN, format: 'chat', isOfBytes: false, templateFile: 'tokenizer_config.json' }, 'tiny')).toBe(
    'Chats, read by the tokenizer of tiny. The chat template came with tiny’s tokenizer (tokenizer_config.json).',
  );
  expect(totalsText(SEEN)).toBe(
    '1,590 examples in 134 windows of 40 tokens: 4,821 tokens, of which the loss counts 1,402. The last one is held out to test with.',
  );
  expect(broughtText({ name: 'sums', format: 'chat', bytes: 9 }, 10)).toBe(
    'sums is uploaded and chosen. Its first line says that it has chats: each line is one example.',
  );
  expect(freeName('sea', [{ name: 'sea' }, { name: 'sea-2' }])).toBe('sea-3');
});

test.each([
  [300, 8, '300 steps of 8 samples see each example about 18 times.'],
  [16, 8, '16 steps of 8 samples see 96 % of the examples.'],
  [17, 8, '17 steps of 8 samples see each example about once.'],
])('how often examples are seen: %i steps of %i', (steps, globalBatchSize, text) => {
  expect(timesSeenText(SEEN, { steps, globalBatchSize })).toBe(text);
});

test('what is left out is told with its lines and why', () => {
  expect(leftOutTexts(SEEN)).toEqual(['Nothing is left out.']);
  const late = { count: 5, lines: [2, 3] };
  const lines = { late, empty: { count: 1, lines: [7] }, cut: { count: 2, lines: [8, 9] } };
  expect(leftOutTexts({ ...SEEN, trained: { ...TOTALS, lines } })).toEqual([
    'Left out, since nothing counts within the first 41 tokens: lines 2, 3 and 3 others. More tokens a sample would keep them.',
    'Left out, since nothing in it counts: line 7.',
    'Cut behind the first 41 tokens: lines 8 and 9.',
  ]);
});

test.each([
  [
    'the draft: data.files[0] a.jsonl line 3: prompt must be a text, not []',
    'Text, line 3: prompt must be a text, not [].',
  ],
  ['the draft: evaluation.files[0] a.held-out line 40: no', 'Text, line 40: no.'],
  [
    'the draft: evaluation.files has no example of which a token counts within train.sequenceLength, 8: expected one at least',
    'Text: what is held out of it to test with has no example of which anything counts within 8 tokens: choose more tokens a sample.',
  ],
  [
    'the draft: data.files has 3 tokens, but one window of train.sequenceLength needs at least 11',
    'Text: it has 3 tokens, but one window of train.sequenceLength needs at least 11.',
  ],
])('what a server says of a file is said of the text: %s', (reason, sentence) => {
  expect(draftProblem(`Refused: ${reason}.`)).toEqual({ field: 'text', sentence });
});
