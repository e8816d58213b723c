/** The examples of a draft as the model sees them: how many there are, what is left out, and the first of them. */
import { useContext, useEffect, useState } from 'preact/hooks';
import { counted } from '../../../swarm/quantityText.ts';
import {
  type DraftExamples,
  type DraftExamplesQuestion,
  draftExamplesQuestionSchema,
  draftExamplesSchema,
  type ExampleTotals,
} from '../../../swarm/run/draftExamples.ts';
import { folderOf, type RunDraft } from '../../../swarm/run/runDraft.ts';
import { countText } from '../page/format.ts';
import { RoleContext } from './act.tsx';
import { tell } from './api.ts';
import { draftProblem } from './draftFields.ts';

/** So long after the last change the server is asked. */
const ASK_MS = 500;

type Seen =
  | { readonly state: 'nothing' | 'asked' }
  | { readonly state: 'refused'; readonly sentence: string }
  | { readonly state: 'seen'; readonly examples: DraftExamples };

/** Asked again where something changes that the examples are read by. A viewer is told nothing. */
export function useDraftExamples(draft: RunDraft, isOfExamples: boolean): Seen {
  const [seen, show] = useState<Seen>({ state: 'nothing' });
  const isAsked = useContext(RoleContext) !== 'viewer' && isOfExamples;
  const question = isAsked ? draftExamplesQuestionSchema.safeParse(draft) : null;
  const asked = question?.success ? JSON.stringify(question.data satisfies DraftExamplesQuestion) : null;
  useEffect(() => {
    show({ state: asked === null ? 'nothing' : 'asked' });
    if (asked === null) return;
    const over = new AbortController();
    const timer = setTimeout(async () => {
      const answer = await tell('/api/operator/examples', JSON.parse(asked), draftExamplesSchema, over.signal);
      if (over.signal.aborted) return;
      if (answer.ok) show({ state: 'seen', examples: answer.value });
      else show({ state: 'refused', sentence: draftProblem(answer.reason)?.sentence ?? answer.reason });
    }, ASK_MS);
    return () => {
      over.abort();
      clearTimeout(timer);
    };
  }, [asked]);
  return seen;
}

const FORMATS: Readonly<Record<DraftExamples['format'], string>> = {
  completion: 'Prompts with completions',
  chat: 'Chats',
};

/** By what the examples become tokens. `source`: the run whose tokenizer it is. */
export function readAsText({ format, isOfBytes, templateFile }: DraftExamples, source: string): string {
  const tokens = isOfBytes ? `as bytes, as ${source} reads its own` : `by the tokenizer of ${source}`;
  const template = templateFile === null ? '' : ` The chat template came with ${source}’s tokenizer (${templateFile}).`;
  return `${FORMATS[format]}, read ${tokens}.${template}`;
}

/** What is trained on, in numbers. */
export function totalsText({ sequenceLength, trained, heldOut }: DraftExamples): string {
  const { examples, windows, tokens } = trained;
  const own = `${counted(examples, 'example')} in ${counted(windows, 'window')} of ${countText(sequenceLength)} tokens: ${counted(tokens, 'token')}, of which the loss counts ${countText(trained.counted)}.`;
  return heldOut === null
    ? own
    : `${own} The last ${heldOut.examples === 1 ? 'one is' : `${countText(heldOut.examples)} are`} held out to test with.`;
}

/** How often a draft's run sees them. */
export function timesSeenText(
  { trained }: Pick<DraftExamples, 'trained'>,
  { steps, globalBatchSize }: Pick<RunDraft, 'steps' | 'globalBatchSize'>,
): string {
  const times = (steps * globalBatchSize) / trained.windows;
  const seen = `${counted(steps, 'step')} of ${counted(globalBatchSize, 'sample')} see`;
  if (times < 1) return `${seen} ${countText(Math.round(times * 100))} % of the examples.`;
  return `${seen} each example about ${times < 1.5 ? 'once' : `${countText(Math.round(times))} times`}.`;
}

/** A sentence for each reason, with the numbers of lines. */
export function leftOutTexts({ sequenceLength, trained, heldOut }: DraftExamples): string[] {
  const of = (fate: keyof ExampleTotals['lines']) => {
    const parts = [trained, ...(heldOut === null ? [] : [heldOut])].map(({ lines }) => lines[fate]);
    // Of many only the first are known: no later one follows them.
    const next = parts.findIndex(({ count, lines }) => count > lines.length) + 1 || parts.length;
    const lines = parts.slice(0, next).flatMap((part) => part.lines);
    return { count: parts.reduce((sum, { count }) => sum + count, 0), lines };
  };
  const room = `${countText(sequenceLength + 1)} tokens`;
  const [late, empty, cut] = [of('late'), of('empty'), of('cut')];
  return [
    late.count + empty.count === 0 && 'Nothing is left out.',
    late.count > 0 &&
      `Left out, since nothing counts within the first ${room}: ${linesText(late)}. More tokens a sample would keep them.`,
    empty.count > 0 && `Left out, since nothing in it counts: ${linesText(empty)}.`,
    cut.count > 0 && `Cut behind the first ${room}: ${linesText(cut)}.`,
  ].filter((text) => text !== false);
}

/** `line 3`, `lines 3, 5 and 7`, `lines 3, 5, 7 and 12 others`. */
function linesText({ count, lines }: ExampleTotals['lines']['cut']): string {
  if (count === 1) return `line ${lines.join()}`;
  const rest = count - lines.length;
  const named = rest > 0 ? [...lines.map(String), counted(rest, 'other')] : lines.map(String);
  return `lines ${named.slice(0, -1).join(', ')} and ${named.at(-1)}`;
}

interface ViewProps {
  readonly seen: Seen;
  readonly draft: RunDraft;
}

export function DraftExamplesView({ seen, draft }: ViewProps) {
  return (
    <>
      <div class="told" role="status">
        {seen.state === 'asked' && <p class="soft">Reading the examples as the model would…</p>}
        {seen.state === 'refused' && (
          <p class="answer">
            <span aria-hidden="true">✕ </span>
            {seen.sentence}
          </p>
        )}
        {seen.state === 'seen' && (
          <>
            <p>{readAsText(seen.examples, folderOf(draft.model) ?? draft.source)}</p>
            <p>
              <b>{totalsText(seen.examples)}</b>
            </p>
            <p>{timesSeenText(seen.examples, draft)}</p>
            {leftOutTexts(seen.examples).map((text) => (
              <p key={text}>{text}</p>
            ))}
          </>
        )}
      </div>
      {seen.state === 'seen' && <FirstExamples examples={seen.examples} />}
    </>
  );
}

type SeenExample = DraftExamples['first'][number];

/** What becomes of one that does not fit whole. */
const FATES: Readonly<Record<SeenExample['fate'], (room: string) => string>> = {
  whole: () => '',
  cut: (room) => `; cut behind its first ${room}`,
  late: (room) => `; left out: nothing counts within its first ${room}`,
  empty: () => '; left out: nothing in it counts',
};

function FirstExamples({ examples: { first, sequenceLength } }: { readonly examples: DraftExamples }) {
  return (
    <section class="examples" aria-labelledby="first-examples">
      <h3 id="first-examples">The first as the model sees {first.length === 1 ? 'it' : 'them'}</h3>
      <p class="note">
        <mark class="counted">Underlined</mark>: what the loss counts.{' '}
        {first.some(({ cut }) => cut !== '') && (
          <>
            <s class="cut">Struck out</s>: what a window has no room for.{' '}
          </>
        )}
        ↵ is the end of a line.
      </p>
      <ol class="rows">
        {first.map((example) => (
          <li key={example.line}>
            <p class="note">
              Line {example.line}: {counted(example.tokens, 'token')}, {countText(example.counted)} of them counted
              {FATES[example.fate](`${countText(sequenceLength + 1)} tokens`)}
            </p>
            <ExampleText example={example} />
          </li>
        ))}
      </ol>
    </section>
  );
}

/** Of what counts a screen reader says so. */
function ExampleText({ example: { pieces, piecesLeft, cut } }: { readonly example: SeenExample }) {
  return (
    <div class="example" dir="auto">
      {pieces.map(({ text, isCounted }, place) =>
        isCounted ? (
          <mark key={place} class="counted">
            <span class="hidden"> counted: </span>
            <WithLineEnds text={text} />
            <span class="hidden"> until here. </span>
          </mark>
        ) : (
          <WithLineEnds key={place} text={text} />
        ),
      )}
      {piecesLeft > 0 && ` […] and ${counted(piecesLeft, 'more part')}`}
      {cut !== '' && (
        <s class="cut">
          <span class="hidden"> cut away: </span>
          <WithLineEnds text={cut} />
        </s>
      )}
    </div>
  );
}

/** The end of a line is a token like others. */
function WithLineEnds({ text }: { readonly text: string }) {
  return (
    <>
      {text.split(/(?<=\n)/).map((line, place) =>
        line.endsWith('\n') ? (
          <span key={place}>
            {line.slice(0, -1)}
            <span class="line-end" aria-hidden="true">
              ↵
            </span>
            {'\n'}
          </span>
        ) : (
          line
        ),
      )}
    </>
  );
}
