/** The examples of a draft as the model would see them, before there is a run. */
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { DraftExamples, DraftExamplesQuestion } from '../../swarm/run/draftExamples.ts';
import { INITIAL_DRAFT, runFileOfDraft } from '../../swarm/run/runDraft.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { textPieces } from '../texts/countedPieces.ts';
import { surveyExamples } from '../texts/exampleSurvey.ts';
import type { LineExample } from '../texts/examples.ts';
import { fateOf } from '../texts/exampleWindows.ts';
import { withTokenizer } from '../texts/tokens.ts';
import { draftSource, draftText, withTextFiles } from './draftText.ts';

/** So many are shown, and of a long piece of one its beginning and its end. */
const FIRST_EXAMPLES = 5;
const PIECE_CHARACTERS = 400;
const MOST_PIECES = 16;

/** `signal`: nobody waits for the answer any more. */
export async function draftExamples(
  data: DataDirectory,
  models: string | null,
  question: DraftExamplesQuestion,
  date: Date,
  signal: AbortSignal,
): Promise<Result<DraftExamples>> {
  const source = await draftSource(data, models, question);
  if (!source.ok) return source;
  const text = await draftText(data, question.text, source.value);
  if (!text.ok) return text;
  const { format, templateFile, tokenizer } = text.value;
  if (format === 'text') return refusal(`"${question.text}" is a text, which has no examples`);
  const file = runFileOfDraft({ ...INITIAL_DRAFT, name: 'draft', ...question }, source.value.file, text.value);
  if (!file.ok) return file;
  const { sequenceLength } = file.value.train;
  return withTextFiles(data, text.value, (path) =>
    withTokenizer(file.value, path, date, async (job) => {
      if (job.examples === null) return refusal('these are no examples');
      const survey = await surveyExamples(job, job.examples, FIRST_EXAMPLES, signal);
      if (!survey.ok) return survey;
      const { trained, heldOut, first } = survey.value;
      return success({
        ...{ format, templateFile, sequenceLength, isOfBytes: tokenizer === 'bytes' },
        ...{ trained, heldOut },
        first: first.map((example) => seenExample(example, sequenceLength)),
      });
    }),
  );
}

const shortened = (text: string): string => {
  const characters = [...text];
  const half = PIECE_CHARACTERS / 2;
  return characters.length <= PIECE_CHARACTERS
    ? text
    : `${characters.slice(0, half).join('')} […] ${characters.slice(-half).join('')}`;
};

function seenExample(example: LineExample, sequenceLength: number): DraftExamples['first'][number] {
  const { line, ids, places } = example;
  const characters = [...example.text];
  const room = sequenceLength + 1;
  const end = ids.length > room ? (places[2 * room - 1] ?? characters.length) : characters.length;
  const counted = example.counted.filter((place) => place < room);
  const pieces = textPieces({ text: characters.slice(0, end).join(''), counted, places });
  return {
    ...{ line, tokens: ids.length, counted: counted.length, fate: fateOf(example, sequenceLength) },
    cut: shortened(characters.slice(end).join('')),
    pieces: pieces.slice(0, MOST_PIECES).map(({ text, isCounted }) => ({ text: shortened(text), isCounted })),
    piecesLeft: Math.max(0, pieces.length - MOST_PIECES),
  };
}
