/** Answers in the forms of OpenAI's API: whole, and as server-sent events. */
import { randomUUID } from 'node:crypto';
import { wallMs } from '../monitoring/clock.ts';
import type { AnswerText } from './answerText.ts';
import type { AnswerRequest, Kind } from './apiBody.ts';

const OBJECTS = {
  completion: { prefix: 'cmpl-', whole: 'text_completion', part: 'text_completion' },
  chat: { prefix: 'chatcmpl-', whole: 'chat.completion', part: 'chat.completion.chunk' },
} as const;

type Form = Pick<AnswerRequest, 'model' | 'includeUsage'> & { readonly kind: Kind };

const head = ({ kind, model }: Form, object: 'whole' | 'part') => ({
  id: `${OBJECTS[kind].prefix}${randomUUID().replaceAll('-', '')}`,
  object: OBJECTS[kind][object],
  created: Math.floor(wallMs() / 1_000),
  model,
});

export async function wholeAnswer(form: Form, writing: AnswerText) {
  let text = '';
  for await (const piece of writing.pieces()) text += piece;
  const body = form.kind === 'chat' ? { message: { role: 'assistant', content: text, refusal: null } } : { text };
  return {
    ...head(form, 'whole'),
    choices: [{ index: 0, ...body, logprobs: null, finish_reason: writing.finishReason }],
    usage: writing.usage,
    shoal: writing.shoal,
  };
}

/** One after the other, without the end. */
export async function* answerEvents(form: Form, writing: AnswerText): AsyncGenerator<string> {
  const shared = head(form, 'part');
  const isChat = form.kind === 'chat';
  const usage = form.includeUsage ? { usage: null } : {};
  const chunk = (part: object, finish: 'stop' | 'length' | null = null) => ({
    ...shared,
    choices: [{ index: 0, ...part, logprobs: null, finish_reason: finish }],
    ...usage,
  });
  if (isChat) yield event(chunk({ delta: { role: 'assistant', content: '' } }));
  for await (const piece of writing.pieces())
    yield event(chunk(isChat ? { delta: { content: piece } } : { text: piece }));
  const { shoal, finishReason } = writing;
  yield event({ ...chunk(isChat ? { delta: {} } : { text: '' }, finishReason), shoal });
  if (form.includeUsage) yield event({ ...shared, choices: [], usage: writing.usage, shoal });
}

export const event = (data: object | '[DONE]'): string =>
  `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
