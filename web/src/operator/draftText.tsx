/** What a draft is trained on: the text of a run, or a text or examples that an operator brings along as a file or pasted. */
import type { ComponentProps } from 'preact';
import { useState } from 'preact/hooks';
import { z } from 'zod';
import { type ListedRun, type ListedText, listedTextSchema, type RunDraft } from '../../../swarm/run/runDraft.ts';
import { Choice, TextArea, Tick } from '../page/fields.tsx';
import { countText } from '../page/format.ts';
import { type Act, Answer } from './act.tsx';
import { query, upload } from './api.ts';
import { DraftExamplesView, useDraftExamples } from './draftExamples.tsx';

const broughtSchema = z.object({ value: listedTextSchema });

/** What a text has, in words. */
const KINDS: Readonly<Record<ListedText['format'], string>> = {
  text: 'a text',
  completion: 'prompts with completions',
  chat: 'chats',
};

interface TextProps {
  readonly draft: RunDraft;
  readonly set: (part: Partial<RunDraft>) => void;
  readonly runs: readonly ListedRun[];
  readonly texts: readonly ListedText[];
  readonly isOff: boolean;
  readonly bringing: Act;
  /** There is a text more. */
  readonly onAdded: () => void;
  readonly select: ComponentProps<'select'>;
}

export function TextFields(props: TextProps) {
  const { draft, set, runs, texts, isOff, bringing, onAdded, select } = props;
  const choices = choicesOf(runs, texts);
  const chosen = choices.findIndex(({ kind, name }) =>
    draft.text === null ? kind === 'run' && name === draft.source : kind === 'text' && name === draft.text,
  );
  const choose = (place: number): void => {
    const choice = choices[place];
    if (choice) set(textOf(choice));
  };
  /** Whether it is there. */
  const bring = async (content: Blob, wished: string, isOfExamples: boolean): Promise<boolean> => {
    const name = freeName(wished, texts);
    const isThere = await bringing.run(
      () =>
        upload(query('/api/operator/texts', { name, ...(isOfExamples && { examples: 1 }) }), content, broughtSchema),
      ({ value }) => broughtText(value, content.size),
    );
    onAdded();
    if (isThere) set(textOf({ kind: 'text', name }));
    return isThere;
  };
  return (
    <>
      <Choice
        class="wide"
        label="Text"
        value={chosen}
        options={choices.map(({ words }, place) => [place, words] as const)}
        choose={choose}
        select={select}
      />
      <label class="wide">
        <span>
          Bring your own text or examples <span class="note">.txt or .jsonl</span>
        </span>
        <input
          type="file"
          accept="text/*,.txt,.md,.csv,.json,.jsonl,.ndjson"
          disabled={isOff}
          onChange={({ currentTarget }) => {
            const [file] = currentTarget.files ?? [];
            if (file) void bring(file, textNameOf(file.name), /\.(jsonl|ndjson)$/i.test(file.name));
            currentTarget.value = '';
          }}
        />
      </label>
      <PastedExamples isOff={isOff} bring={(text) => bring(new Blob([text]), 'pasted', true)} />
      <Answer answer={bringing.answer} />
      <ExampleFields draft={draft} set={set} text={texts.find(({ name }) => name === draft.text)} />
    </>
  );
}

const choicesOf = (
  runs: readonly ListedRun[],
  texts: readonly ListedText[],
): readonly (TextChoice & { readonly words: string })[] => [
  ...runs.map(({ name, dataTokens }) => ({
    ...{ kind: 'run' as const, name },
    words: `that of ${name}, ${countText(dataTokens)} tokens`,
  })),
  ...texts.map(({ name, format, bytes }) => ({
    ...{ kind: 'text' as const, name },
    words:
      format === 'text'
        ? `${name}, ${countText(bytes)} tokens`
        : `${name}: ${KINDS[format]}, ${countText(bytes)} bytes`,
  })),
];

/** What came of it; the rest of the form stays. */
export function broughtText({ name, format, bytes }: ListedText, size: number): string {
  if (format !== 'text')
    return `${name} is uploaded and chosen. Its first line says that it has ${KINDS[format]}: each line is one example.`;
  return `Text ${name} is uploaded and chosen: ${countText(bytes)} bytes to train on and ${countText(size - bytes)} to test with. It is read as bytes, or by the tokenizer of a model from a folder; nothing else in the form has changed.`;
}

interface PastedProps {
  readonly isOff: boolean;
  readonly bring: (text: string) => Promise<boolean>;
}

const FORMS_ID = 'draft-forms';

/** What is refused stays in the field. */
function PastedExamples({ isOff, bring }: PastedProps) {
  const [text, write] = useState('');
  return (
    <details class="whole">
      <summary>Paste examples</summary>
      <p class="note" id={FORMS_ID}>
        {'{"prompt": "…", "completion": "…"}'} or{' '}
        {'{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'}
      </p>
      <TextArea
        label="Examples, one a line"
        value={text}
        onInput={write}
        area={{ rows: 6, spellcheck: false, wrap: 'off', 'aria-describedby': FORMS_ID }}
      />
      <div class="buttons">
        <button
          type="button"
          disabled={isOff || text.trim() === ''}
          onClick={() => void bring(text).then((isThere) => isThere && write(''))}
        >
          Use these examples
        </button>
      </div>
    </details>
  );
}

interface ExampleProps extends Pick<TextProps, 'draft' | 'set'> {
  /** The one that was brought along and is chosen. */
  readonly text: ListedText | undefined;
}

/** How examples are read, and what the model sees of them. */
function ExampleFields({ draft, set, text }: ExampleProps) {
  const isOfExamples = text !== undefined && text.format !== 'text';
  const seen = useDraftExamples(draft, isOfExamples);
  if (!isOfExamples) return null;
  return (
    <div class="whole">
      <Tick checked={draft.packing} onChange={(packing) => set({ packing })}>
        Pack: several examples in a window, as many as fit whole; they do not see each other
      </Tick>
      <DraftExamplesView seen={seen} draft={draft} />
    </div>
  );
}

/** A name that the server takes, out of the file's. */
const textNameOf = (fileName: string): string =>
  fileName
    .replace(/\.[^.]*$/, '')
    .replaceAll(/[^A-Za-z0-9_]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, 56) || 'text';

/** `sea`, `sea-2`, `sea-3`. */
export function freeName(wished: string, texts: readonly Pick<ListedText, 'name'>[]): string {
  const isTaken = (name: string): boolean => texts.some((text) => text.name === name);
  let name = wished;
  for (let number = 2; isTaken(name); number++) name = `${wished}-${number}`;
  return name;
}

/** A run's text, whose model and weights may be taken too, or one that was brought along. */
interface TextChoice {
  readonly kind: 'run' | 'text';
  readonly name: string;
}

/** What the choice of a text changes in a draft: the model stays. */
const textOf = ({ kind, name }: TextChoice): Partial<RunDraft> =>
  kind === 'run' ? { source: name, text: null, checkpoint: null } : { text: name };
