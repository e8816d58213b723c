/**
 * What a run's `evaluation.answers` asks: at each evaluation every prompt once, greedily, as anyone may ask the model, and how
 * many answers are letter by letter what was expected. Training goes on meanwhile. The first checkpoint from the evaluation's
 * step on is asked, by the server's own processor; donors, who have the newest weights alone, are where that cannot. An evaluation
 * that a newer one overtakes before its turn is left out.
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
/** Of all questions together: donors who are never idle may leave a question without an answer. */
const LIMIT_MS = 30 * 60_000;

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
    const due = isAsking ? null : run.unasked;
    if (due === null) return;
    isAsking = true;
    void rightOf(asking, due, AbortSignal.any([end.signal, AbortSignal.timeout(LIMIT_MS)]))
      .catch((error: unknown) => {
        if (!end.signal.aborted) run.failed(error);
        return null;
      })
      .then((answers) => {
        isAsking = false;
        if (end.signal.aborted) return;
        if (answers === 'undone') return look();
        if (answers !== null && 'problem' in answers)
          run.warn(`What evaluation.answers asks after ${due} steps was not answered: ${answers.problem}.`);
        run.answered(due, answers !== null && 'share' in answers ? answers : null);
      });
  };
  const forget = run.onChange(look);
  look();
  return () => {
    forget();
    end.abort();
  };
}

type Found = RightAnswers | { readonly problem: string } | 'undone';

/** undone: the run went back meanwhile, and is evaluated again. */
async function rightOf(asking: Asking, due: number, signal: AbortSignal): Promise<Found> {
  const { run, data, texts } = asking;
  const { store, blobs } = data;
  const { generation } = run.kept;
  const { answers = '' } = run.document;
  const known = JSON.parse(Buffer.from(await blobs.read(answers)).toString('utf8')) as readonly KnownAnswer[]; // the store's own words
  const text = await texts.of(run.name);
  const step = store.checkpoint(run.name, due) === null ? store.newestCheckpoint(run.name)?.committedSteps : due;
  const left = known.values();
  const judged: Judged[] = [];
  const problems: string[] = [];
  const asker = async (): Promise<void> => {
    for (const question of left) {
      const one = await judge(asking, text, { question, step: step ?? null }, signal);
      if (typeof one === 'string') problems.push(one);
      else judged.push(one);
      if (signal.aborted || problems.length > 0) return;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, asker));
  if (run.kept.generation !== generation) return 'undone';
  const [problem] = problems;
  if (problem !== undefined) return { problem };
  return {
    share: judged.filter(({ isRight }) => isRight).length / known.length,
    fromStep: Math.min(...judged.map(({ fromStep }) => fromStep)),
    toStep: Math.max(...judged.map(({ toStep }) => toStep)),
  };
}

interface Judged extends Omit<RightAnswers, 'share'> {
  readonly isRight: boolean;
}

interface Asked {
  readonly question: KnownAnswer;
  /** Of which checkpoint; null: of the newest weights. */
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
    if (tries > 0) await sleep(PAUSE_MS, undefined, { signal }).catch(() => {}); // it is over
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
        if (signal.aborted) break;
        const { fromStep, toStep } = writing.shoal;
        return { isRight: said.trim() === expected, fromStep, toStep };
      }
      problem = answer.refusal.of === 'busy' ? 'others are being answered' : answer.refusal.sentence;
    } catch (error) {
      if (signal.aborted) break; // whatever that ended
      if (!(error instanceof AnswerFault)) throw error;
      problem = error.message;
    } finally {
      enough.abort();
    }
  }
  return problem || 'it took too long';
}

/** By the weights of a checkpoint, or else by the newest. */
async function begun(answerer: Answerer, question: Question, signal: AbortSignal): Promise<ModelAnswer> {
  const answer = await answerer.answer(question, signal);
  if (answer.ok || question.step === null || answer.refusal.of === 'busy') return answer;
  return answerer.answer({ ...question, step: null }, signal);
}
