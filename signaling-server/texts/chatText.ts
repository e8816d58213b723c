/**
 * A chat as the text that a model reads up to where its answer begins: by the chat template beside its tokenizer. A message
 * that holds the text of a special token is refused, since it could speak for another role.
 */
import { z } from 'zod';
import { invariant, type Result, refusal } from '../../swarm/base.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import { chatTemplateOf } from './template/chatTemplate.ts';
import { pythonValue } from './template/jsonText.ts';

export const CHAT_TEMPLATE_FILE = 'chat_template.jinja';

const tokenizerSchema = z.looseObject({
  added_tokens: z.array(z.looseObject({ content: z.string(), special: z.boolean() })),
});

/** Texts of files; null: there is none. */
interface ChatFiles {
  readonly template: string | null;
  readonly config: string | null;
  readonly specialTokens: string | null;
  readonly tokenizer: string | null;
}

/** Null: the model has no chat template. `date`: what a template that asks is told. */
export type ChatText = (messages: readonly Readonly<Record<string, unknown>>[]) => Result<string>;

export function chatTextOf({ tokenizer, ...files }: ChatFiles, date: Date): ChatText | null {
  const found = chatTemplateOf(files);
  if (!found.ok) return () => found;
  if (found.value === null) return null;
  const { plain, specialTokens } = found.value;
  const special = new Set([...specialTexts(tokenizer), ...Object.values(specialTokens)]);
  special.delete('');
  return (messages) => {
    for (const [index, message] of messages.entries()) {
      const spoken = [...special].find((text) => holds(message, text));
      if (spoken !== undefined)
        return refusal(`messages.${index} has the text of a special token, ${JSON.stringify(spoken)}`);
    }
    const data = pythonValue(messages);
    if (!data.ok) return refusal(`messages: ${data.reason}`);
    return plain.render({ ...specialTokens, messages: data.value, add_generation_prompt: true }, { date });
  };
}

/** Anywhere in it. */
function holds(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value.includes(text);
  return typeof value === 'object' && value !== null && Object.values(value).some((part) => holds(part, text));
}

function specialTexts(tokenizer: string | null): string[] {
  if (tokenizer === null) return [];
  const json = parseJson(tokenizer);
  invariant(json.ok, 'a tokenizer was read before it was stored');
  const parsed = tokenizerSchema.safeParse(json.value);
  return parsed.success ? parsed.data.added_tokens.filter(({ special }) => special).map(({ content }) => content) : [];
}
