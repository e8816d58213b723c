/**
 * The fields of a draft as the form names them, and what is wrong with them: found here, or told by the server in the words
 * of a run file, of which the person in front of the form knows nothing. Pure.
 */
import { folderOf, type RunDraft, runDraftSchema } from '../../../swarm/run/runDraft.ts';

type NumberField = {
  [Key in keyof RunDraft]-?: RunDraft[Key] extends number ? Key : never;
}[keyof RunDraft];

/** Its name, its unit, and the least that it may be. */
export const NUMBERS: readonly (readonly [NumberField, string, string, number])[] = [
  ['steps', 'Steps', '', 1],
  ['globalBatchSize', 'Samples a step', '', 1],
  ['sequenceLength', 'Tokens a sample', '', 1],
  ['learningRate', 'Learning rate', '', 0],
  ['warmupSteps', 'Warm-up', 'steps', 0],
  ['checkpointEvery', 'Checkpoint every', 'steps', 1],
  ['seed', 'Seed', 'of weights and order', 0],
];

export type DraftField = NumberField | keyof typeof LABELS;

export interface DraftProblem {
  /** Null: it is about no field of the form. */
  readonly field: DraftField | null;
  readonly sentence: string;
}

/** The element of the form, for who is led there. */
export const fieldId = (field: DraftField): string => `draft-${field}`;

/** Paths of a run file that a draft becomes. */
const FIELD_OF_PATH: Readonly<Record<string, DraftField>> = {
  name: 'name',
  'data.files': 'text',
  'data.files[0]': 'text',
  'evaluation.files': 'text',
  'evaluation.files[0]': 'text',
  init: 'model',
  'data.tokenizer': 'model',
  'train.adapter.rank': 'rank',
  'train.adapter.alpha': 'alpha',
  'train.adapter.targets': 'targets',
  'train.steps': 'steps',
  'train.globalBatchSize': 'globalBatchSize',
  'train.sequenceLength': 'sequenceLength',
  'train.optimizer.learningRate': 'learningRate',
  'train.schedule.warmupSteps': 'warmupSteps',
  'checkpoint.everySteps': 'checkpointEvery',
  'evaluation.everySteps': 'checkpointEvery',
  'init.seed': 'seed',
  'data.seed': 'seed',
};

/** Refusals that name no path, by the words in which they end. */
const FIELD_OF_WORDS: readonly (readonly [RegExp, DraftField])[] = [
  [/choose another name\.?$/, 'name'],
  [/or bring prompts with completions\.?$|bring a text or examples along\.?$/, 'text'],
  [/choose the same model, or new weights\.?$|choose a model of the list\.?$/, 'model'],
  [/is not kept any more\.?$|choose new weights\.?$/, 'checkpoint'],
];

const LABELS = {
  ...{ name: 'Name', text: 'Text', model: 'Model', checkpoint: 'Weights' },
  ...{ rank: 'Rank', alpha: 'Alpha', targets: 'Modules' },
} as const;

function labelOf(field: DraftField): string {
  if (field in LABELS) return LABELS[field as keyof typeof LABELS]; // it has just been looked at
  return NUMBERS.find(([each]) => each === field)?.[1] ?? '';
}

/** Of the examples' files a person knows one, and its lines; which part of it is held out has been settled by the server. */
function textWords(path: string, rest: string): string {
  const [, line, what] = /^\S+ (line \d+): (.*)$/s.exec(rest) ?? [];
  if (line !== undefined && what !== undefined) return `, ${line}: ${what}`;
  const own = path === 'data.files' ? 'it' : 'what is held out of it to test with';
  const [, tokens] = /no example of which a token counts within train\.sequenceLength, (\d+)/.exec(rest) ?? [];
  return tokens === undefined
    ? `: ${own} ${rest}`
    : `: ${own} has no example of which anything counts within ${tokens} tokens: choose more tokens a sample.`;
}

/** A refusal of the draft itself, which no donors would mend; null: it is about something else. */
export function draftProblem(reason: string): DraftProblem | null {
  const [, path, rest] = /\bthe draft: ([\w.[\]]+) (.*)$/s.exec(reason) ?? [];
  if (path !== undefined && rest !== undefined) {
    const field = FIELD_OF_PATH[path];
    if (field === 'text') return { field, sentence: `Text${textWords(path, rest)}` };
    if (field !== undefined) return { field, sentence: `${labelOf(field)} ${rest}` };
    if (path.startsWith('model.')) return { field: 'model', sentence: `Model: ${path.slice(6)} ${rest}` };
    return { field: null, sentence: reason };
  }
  const field = FIELD_OF_WORDS.find(([words]) => words.test(reason))?.[1];
  return field === undefined ? null : { field, sentence: `${labelOf(field)}: ${reason.replace(/^Refused: /, '')}` };
}

const isField = (draft: RunDraft, field: keyof RunDraft): boolean =>
  runDraftSchema.shape[field].safeParse(draft[field]).success;

/** What is wrong with a draft, a sentence a field. */
export function wrongFields(draft: RunDraft): DraftProblem[] {
  const numbers = NUMBERS.flatMap(([field, label, , least]) =>
    isField(draft, field) && draft[field] >= least
      ? []
      : {
          field,
          sentence: `${label}: enter ${field === 'learningRate' ? 'a number above 0' : `a whole number, at least ${least}`}.`,
        },
  );
  const isNamed = draft.name.trim() !== '';
  const name = isNamed ? [] : [{ field: 'name' as const, sentence: 'Name: give the run a name.' }];
  return [...name, ...numbers, ...wrongInFolder(draft)];
}

/** Of a model from a folder. */
function wrongInFolder({ model, text, adapter }: RunDraft): DraftProblem[] {
  if (folderOf(model) === null) return [];
  const problems: readonly (readonly [isWrong: boolean, field: DraftField, what: string])[] = [
    [text === null, 'text', 'bring a text or examples along, which are read by the tokenizer of the model'],
    [
      adapter !== null && !(Number.isInteger(adapter.rank) && adapter.rank >= 1),
      'rank',
      'enter a whole number, at least 1',
    ],
    [adapter !== null && !(adapter.alpha > 0), 'alpha', 'enter a number above 0'],
    [adapter?.targets.length === 0, 'targets', 'choose one at least'],
  ];
  return problems.flatMap(([isWrong, field, what]) =>
    isWrong ? [{ field, sentence: `${labelOf(field)}: ${what}.` }] : [],
  );
}
