/**
 * What a run's `evaluation.answers` asks: at each evaluation every prompt once, greedily, as anyone may ask the model, and how
 * many answers are letter by letter what was expected. Training goes on meanwhile: where the server keeps the checkpoint after
 * just as many steps, and its own processor can answer, that is asked, else the newest weights that there are. Where a newer
 * evaluation is there before all of an older one is answered, those between them are left out.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answerer, AnswerFault, type ModelAnswer, type Question } from '../answers/answerer.ts';
import { AnswerText } from '../answers/answerText.ts';
import type { RunText, RunTexts } from '../answers/runTexts.ts';
import type { ActiveRun } from '../run/run.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import type { RightAnswers } from '../store/stepStore.ts';
import type { KnownAnswer } from '../texts/tokens.ts';

/** The others, who ask too, keep their turns. */
const AT_ONCE = 4;
/** Tokens beyond the expected answer's bytes, in which a model shows that it goes on. */
const MORE_TOKENS = 16;
/** A question is asked again where nobody can answer: donors come and go. */
const TRIES = 12;
const PAUSE_MS = 5_000;

type Evaluated = Pick<
  ActiveRun,
  'name' | 'document' | 'kept' | 'unasked' | 'answered' | 'onChange' | 'warn' | 'failed'
>;

interface Asking {
  readonly run: Evaluated;
  readonly data: Pick<DataDirectory, 'store' | 'blobs'>;
  readonly texts: Pick<RunTexts, 'of'>;
  readonly answerer: Answerer;
}

/** Answers with what ends that. */
export function followEvaluations(asking: Asking): () => void {
  const { run } = asking;
  const end = new AbortController();
  let isAsking = false;
  const look = (): void => {
    const due = isAsking || isCheckpointComing(run) ? null : run.unasked;
    if (due === null) return;
    isAsking = true;
    void rightOf(asking, due, end.signal)
      .catch((error: unknown) => {
        if (!end.signal.aborted) run.failed(error);
        return null;
      })
      .then((answers) => {
        isAsking = false;
        if (!end.signal.aborted) answers === 'undone' ? look() : run.answered(due, answers);
      });
  };
  const forget = run.onChange(look);
  look();
  return () => {
    forget();
    end.abort();
  };
}

/** Of the evaluation's own step. */
function isCheckpointComing({ kept }: Evaluated): boolean {
  const { evaluatedSteps, pending, config, newestCheckpointStep } = kept;
  if (evaluatedSteps === null || newestCheckpointStep >= evaluatedSteps) return false;
  return evaluatedSteps >= config.steps || pending.some(({ step }) => step === evaluatedSteps);
}

/** Null: nobody could be asked. undone: the run went back meanwhile, and is evaluated again. */
async function rightOf(asking: Asking, due: number, signal: AbortSignal): Promise<RightAnswers | null | 'undone'> {
  const { run, data, texts } = asking;
  const { generation } = run.kept;
  const { answers = '' } = run.document;
  const known = JSON.parse(Buffer.from(await data.blobs.read(answers)).toString('utf8')) as readonly KnownAnswer[]; // the store's own words
  const text = await texts.of(run.name);
  const step = data.store.checkpoint(run.name, due) === null ? null : due;
  const left = known.values();
  const judged: Judged[] = [];
  const problems: string[] = [];
  const asker = async (): Promise<void> => {
    for (const question of left) {
      const one = await judge(asking, text, { question, step }, signal);
      if (typeof one === 'string') problems.push(one);
      else judged.push(one);
      if (signal.aborted || problems.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, asker));
  if (run.kept.generation !== generation) return 'undone';
  const [problem] = problems;
  if (problem === undefined)
    return {
      share: judged.filter(({ isRight }) => isRight).length / known.length,
      fromStep: Math.min(...judged.map(({ fromStep }) => fromStep)),
      toStep: Math.max(...judged.map(({ toStep }) => toStep)),
    };
  if (!signal.aborted) run.warn(`What evaluation.answers asks after ${due} steps was not answered: ${problem}.`);
  return null;
}

interface Judged extends Omit<RightAnswers, 'share'> {
  readonly isRight: boolean;
}

interface Asked {
  readonly question: KnownAnswer;
  /** Null: of the newest weights. */
  readonly step: number | null;
}

/** Or why it is not answered. */
async function judge(
  { run, answerer }: Asking,
  text: RunText,
  { question: { ids, answer: expected, tokens }, step }: Asked,
  signal: AbortSignal,
): Promise<Judged | string> {
  const { ends, model } = text;
  // A model without an end token writes on: it is let write as much as was expected.
  const wanted = ends.length === 0 ? tokens : Buffer.byteLength(expected) + MORE_TOKENS;
  const mostTokens = Math.min(wanted, model.positions - ids.length + 1);
  const question = { from: 'evaluation', run: run.name, step, ids, mostTokens, temperature: 0, topP: 1, seed: 0, ends };
  let problem = '';
  for (let tries = 0; tries < TRIES && !signal.aborted; tries++) {
    if (tries > 0) await sleep(PAUSE_MS, undefined, { signal });
    const enough = new AbortController();
    try {
      const answer = await begun(answerer, question, AbortSignal.any([signal, enough.signal]));
      if (answer.ok) {
        const writing = new AnswerText({ text, ids, stops: [] }, answer.tokens);
        let said = '';
        for await (const piece of writing.pieces()) {
          said += piece;
          if (!expected.startsWith(said.trim())) break;
        }
        const { fromStep, toStep } = writing.shoal;
        return { isRight: said.trim() === expected, fromStep, toStep };
      }
      problem = answer.refusal.of === 'busy' ? 'others are being answered' : answer.refusal.sentence;
    } catch (error) {
      if (!(error instanceof AnswerFault)) throw error;
      problem = error.message;
    } finally {
      enough.abort();
    }
  }
  return problem;
}

/** By the weights of a checkpoint, or else by the newest. */
async function begun(answerer: Answerer, question: Question, signal: AbortSignal): Promise<ModelAnswer> {
  const answer = await answerer.answer(question, signal);
  if (answer.ok || question.step === null || answer.refusal.of === 'busy') return answer;
  return answerer.answer({ ...question, step: null }, signal);
}
