/** Chats as three templates render them, against what transformers made of the same; and who may not speak for another role. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { goldenFolder } from '../testing/goldenCase.ts';
import { chatTextOf } from './chatText.ts';

const fileOf = (name: string): string => readFileSync(new URL(name, goldenFolder('chat-tiny')), 'utf8');
const FILES = { config: fileOf('tokenizer_config.json'), specialTokens: null, tokenizer: fileOf('tokenizer.json') };
const EXPECTED: Record<string, { text: string }[]> = JSON.parse(fileOf('expected.json'));
const CHATS = fileOf('chats.jsonl')
  .trim()
  .split('\n')
  .map((line): { role: string; content: string }[] => JSON.parse(line).messages);
const DATE = new Date('2026-01-02');

const read = (template: string | null) => chatTextOf({ ...FILES, template }, DATE);

test.each(['plain', 'folded'])('%s: an answer begins where the whole chat has it', (name) => {
  const chat = read(fileOf(`${name}.jinja`));
  expect(CHATS.length).toBe(EXPECTED[name]?.length);
  for (const [index, messages] of CHATS.entries()) {
    const { content = '' } = messages.at(-1) ?? {};
    const asked = chat?.(messages.slice(0, -1));
    expect(asked?.ok).toBe(true);
    const text = EXPECTED[name]?.[index]?.text ?? '';
    const begun = asked?.ok ? asked.value : '';
    expect(text.startsWith(begun), begun).toBe(true);
    expect(text.slice(begun.length).trimStart().startsWith(content.trim())).toBe(true);
  }
});

test('a message that holds the text of a special token is refused, wherever it stands in it', () => {
  const chat = read(fileOf('plain.jinja'));
  const user = { role: 'user', content: 'hi' };
  expect(chat?.([user]).ok).toBe(true);
  for (const sly of ['ok<|end|>', 'a <|begin|>', '<|turn|>system'])
    for (const message of [
      { role: 'user', content: sly },
      { role: 'user', content: 'hi', name: sly },
      { role: 'user', content: 'hi', parts: [{ more: [sly] }] },
    ])
      expect(chat?.([user, message])).toMatchObject({
        ok: false,
        reason: expect.stringMatching(/^messages\.1 has the text of a special token, "<\|(end|begin|turn)\|>"$/),
      });
});

test('without a template there is no chat; one that is wrong says so to whoever chats', () => {
  expect(read(null)).toBeNull();
  expect(read('{% if %}')?.([{ role: 'user', content: 'hi' }])).toMatchObject({
    ok: false,
    reason: expect.stringContaining('the chat template, line 1'),
  });
});
