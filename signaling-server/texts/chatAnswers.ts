/**
 * A line of chats as the text that a model is trained on, and where the answers stand in it. An answer begins where the
 * template, asked to let the assistant speak, leaves off: by the longer of what it then writes, with and without thinking,
 * that the whole chat begins with. It ends where the whole chat first differs, from its end, from the same chat with a
 * letter more in that answer.
 */
import { z } from 'zod';
import { at, type Range, type Result, refusal, success } from '../../swarm/base.ts';
import { expecting, sentence } from '../../swarm/model/inputFields.ts';
import { parseJsonLine } from './jsonLines.ts';
import type { ChatTemplate } from './template/chatTemplate.ts';
import { fieldsOf, parseJsonValue } from './template/jsonText.ts';
import { Dict, type PythonValue } from './template/values.ts';

interface RenderedChat {
  readonly text: string;
  /** Code points of the text. */
  readonly answers: readonly Range[];
  /** The last one, as the line has it; empty: there is none. */
  readonly answer: string;
}

const MESSAGE = z
  .looseObject(
    {
      role: z.string({ error: expecting('a text') }),
      content: z.string({ error: expecting('a text') }).nullish(),
    },
    { error: expecting('an object of role and content') },
  )
  .superRefine(({ content, tool_calls }, context) => {
    if (typeof content === 'string' || tool_calls !== undefined) return;
    context.addIssue({ code: 'custom', path: ['content'], message: expecting('a text')({ input: content }) });
  });
const CHAT = z.looseObject(
  {
    messages: z
      .array(MESSAGE, { error: expecting('a list of messages') })
      .min(1, { error: expecting('a list of one message or more') }),
  },
  { error: expecting('an object with messages') },
);

/** Its messages. Reasons go on from the line's number. */
export function chatIn(line: string): Result<readonly z.output<typeof MESSAGE>[]> {
  const json = parseJsonLine(line);
  if (!json.ok) return json;
  const parsed = CHAT.safeParse(json.value);
  return parsed.success ? success(parsed.data.messages) : refusal(sentence(parsed.error.issues[0], 'it'));
}

/** Reasons go on from the line's number. `date`: what a template that asks is told. */
export function renderedChat(line: string, template: ChatTemplate, date: Date): Result<RenderedChat> {
  const chat = chatIn(line);
  if (!chat.ok) return chat;
  // Once more, with what a template can tell apart: ints and floats, and the order of keys.
  const values = parseJsonValue(line);
  if (!values.ok) return values;
  const fields = fieldsOf(values.value);
  const messages = (fields?.get('messages') ?? []) as readonly PythonValue[]; // the schema has seen that it is a list
  const tools = fields?.get('tools') ?? null;
  const documents = fields?.get('documents') ?? null;
  const { render } = tools === null ? template.plain : template.withTools;
  const rendered = (of: readonly PythonValue[], more: Readonly<Record<string, PythonValue>> = {}): string => {
    const text = render({ ...template.specialTokens, messages: of, tools, documents, ...more }, { date });
    if (!text.ok) throw new Unrendered(text.reason);
    return text.value;
  };
  try {
    const text = rendered(messages);
    const answers = chat.value.flatMap(({ role, content }, index): Range[] => {
      if (role !== 'assistant') return [];
      const before = messages.slice(0, index);
      const asked = { add_generation_prompt: true };
      const begun = [rendered(before, asked), rendered(before, { ...asked, enable_thinking: false })];
      const longer = withContent(at(messages, index), `${content ?? ''}${otherLetter(content ?? '')}`);
      return [[startOf(text, begun), text.length - sharedEnd(text, rendered(messages.with(index, longer)))]];
    });
    const last = chat.value.findLast(({ role }) => role === 'assistant');
    return success({
      text,
      answer: last?.content ?? '',
      answers: answers.map(([from, to]) => [codePoints(text, from), codePoints(text, to)]),
    });
  } catch (error) {
    if (error instanceof Unrendered) return refusal(error.message);
    throw error;
  }
}

/** By the template. */
class Unrendered extends Error {}

/** Another one than the last that is to be seen: a template may leave out the blanks after it. */
const otherLetter = (content: string): string => (content.trimEnd().endsWith('a') ? 'b' : 'a');

const withContent = (message: PythonValue, content: string): PythonValue =>
  message instanceof Dict ? new Dict([...message.entries(), ['content', content]]) : message;

function startOf(text: string, begun: readonly string[]): number {
  const whole = begun.filter((one) => text.startsWith(one));
  return Math.max(
    ...(whole.length > 0 ? whole.map(({ length }) => length) : begun.map((one) => sharedStart(text, one))),
  );
}

/** In UTF-16 units, as lengths are; never half a character. */
function sharedStart(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one.charCodeAt(length) === other.charCodeAt(length)) length++;
  return /[\ud800-\udbff]/.test(one.charAt(length - 1)) ? length - 1 : length;
}

function sharedEnd(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one.charCodeAt(one.length - 1 - length) === other.charCodeAt(other.length - 1 - length))
    length++;
  return /[\udc00-\udfff]/.test(one.charAt(one.length - length)) ? length - 1 : length;
}

/** How many a text has in its first so many units. */
function codePoints(text: string, units: number): number {
  let count = units;
  for (let unit = 0; unit < units; unit++) if ((text.charCodeAt(unit) & 0xfc00) === 0xdc00) count--;
  return count;
}
