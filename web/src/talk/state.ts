/**
 * What the page `/talk` knows: the model, what somebody typed, and the answers so far. A reducer makes each state from the one
 * before, and pure functions say what the page may ask next.
 */
import { arrayOf, assertNever } from '../../../swarm/base.ts';
import type { TalkFacts } from '../../../swarm/messages/talk.ts';
import type { AnswerFailure, AnswerOrigin, AnswerTold } from './answerStream.ts';

/** How an answer ended; waiting: it is not asked yet, coming: it is being written. */
type AnswerEnd =
  | { readonly type: 'waiting' }
  | { readonly type: 'coming' }
  | { readonly type: 'stopped' }
  | {
      readonly type: 'whole';
      readonly origin: AnswerOrigin;
      readonly finish: 'stop' | 'length';
      readonly seconds: number;
    }
  | { readonly type: 'failed'; readonly failure: AnswerFailure };

export interface ShownAnswer {
  readonly text: string;
  readonly end: AnswerEnd;
}

/** What was asked, and what the newest weights answered. */
export interface TalkExchange {
  readonly words: string;
  readonly answer: ShownAnswer;
}

/** What a saved state answers to the newest question. */
export interface OlderAnswer {
  readonly step: number;
  readonly answer: ShownAnswer;
}

/** How an answer is asked for. */
interface AskedHow {
  readonly tokens: number;
  readonly temperature: number;
}

export interface TalkState {
  /** Null: not known yet. */
  readonly facts: TalkFacts | null;
  /** Why they are not, in a sentence. */
  readonly problem: string | null;
  /** In the box. */
  readonly typed: string;
  readonly how: AskedHow;
  /** With what the newest question was asked, so that older states are asked the same. */
  readonly asked: AskedHow & { readonly seed: number };
  /** Of a model that reads turns the whole conversation; else the newest alone. */
  readonly exchanges: readonly TalkExchange[];
  /** The oldest first. */
  readonly older: readonly OlderAnswer[];
}

export const EXAMPLES = ['Once upon a time', 'The old captain', 'My dear friends,'] as const;
/** Tokens of an answer. */
export const LENGTHS = [40, 120, 300] as const;
export const TEMPERATURES = [0, 0.7, 1, 1.3] as const;

const HOW: AskedHow = { tokens: 120, temperature: 0.7 };

export const FIRST_TALK: TalkState = {
  ...{ facts: null, problem: null, typed: '', how: HOW, asked: { ...HOW, seed: 0 }, exchanges: [], older: [] },
};

export type TalkEvent =
  | { readonly type: 'factsCame'; readonly facts: TalkFacts }
  | { readonly type: 'factsRefused'; readonly reason: string }
  | { readonly type: 'typed'; readonly text: string }
  | { readonly type: 'chosen'; readonly how: AskedHow }
  | { readonly type: 'asked'; readonly words: string; readonly seed: number }
  | { readonly type: 'olderAsked'; readonly steps: readonly number[] }
  /** `step`: of a saved state; null: the newest weights. */
  | { readonly type: 'begun'; readonly step: number | null }
  | { readonly type: 'told'; readonly step: number | null; readonly told: AnswerTold; readonly seconds: number }
  | { readonly type: 'stopped' }
  | { readonly type: 'begunAnew' };

const WAITING: ShownAnswer = { text: '', end: { type: 'waiting' } };

export function nextTalk(state: TalkState, event: TalkEvent): TalkState {
  switch (event.type) {
    case 'factsCame':
      return withFacts(state, event.facts);
    case 'factsRefused':
      return { ...state, problem: event.reason };
    case 'typed':
      return { ...state, typed: event.text };
    case 'chosen':
      return { ...state, how: event.how };
    case 'asked': {
      const isTurns = state.facts?.reads === 'turns';
      // What was refused is no part of a conversation.
      const before = isTurns ? state.exchanges.filter(({ answer }) => answer.end.type !== 'failed') : [];
      return {
        ...state,
        ...{ typed: isTurns ? '' : event.words, asked: { ...state.how, seed: event.seed }, older: [] },
        exchanges: [...before, { words: event.words, answer: WAITING }],
      };
    }
    case 'olderAsked':
      return { ...state, older: event.steps.map((step) => ({ step, answer: WAITING })) };
    case 'begun':
      return changed(state, event.step, () => ({ text: '', end: { type: 'coming' } }));
    case 'told':
      return changed(state, event.step, (answer) => continued(answer, event.told, event.seconds));
    case 'stopped':
      return {
        ...state,
        exchanges: state.exchanges.map((each) => ({ ...each, answer: stopped(each.answer) })),
        older: state.older
          .filter(({ answer }) => answer.end.type !== 'waiting')
          .map((each) => ({ ...each, answer: stopped(each.answer) })),
      };
    case 'begunAnew':
      return { ...state, exchanges: [], older: [] };
    default:
      return assertNever(event);
  }
}

/** An empty box of a model that goes on with texts has an example in it, to begin with. */
function withFacts(state: TalkState, facts: TalkFacts): TalkState {
  const isFirst = state.facts === null && state.typed === '' && facts.reads === 'text';
  const isOther = state.facts !== null && state.facts.run !== facts.run;
  const kept = isOther ? { ...state, exchanges: [], older: [] } : state;
  return { ...kept, facts, problem: null, typed: isFirst ? EXAMPLES[0] : state.typed };
}

function changed(state: TalkState, step: number | null, change: (answer: ShownAnswer) => ShownAnswer): TalkState {
  if (step !== null)
    return {
      ...state,
      older: state.older.map((each) => (each.step === step ? { ...each, answer: change(each.answer) } : each)),
    };
  const last = state.exchanges.length - 1;
  return {
    ...state,
    exchanges: state.exchanges.map((each, index) => (index === last ? { ...each, answer: change(each.answer) } : each)),
  };
}

function continued({ text, end }: ShownAnswer, told: AnswerTold, seconds: number): ShownAnswer {
  switch (told.type) {
    case 'wrote':
      return { text: text + told.text, end };
    case 'whole':
      return { text, end: { ...told, seconds } };
    case 'failed':
      return { text, end: told };
    default:
      return assertNever(told);
  }
}

const isOpen = ({ end }: ShownAnswer): boolean => end.type === 'waiting' || end.type === 'coming';
const stopped = (answer: ShownAnswer): ShownAnswer =>
  isOpen(answer) ? { ...answer, end: { type: 'stopped' } } : answer;

const answersOf = ({ exchanges, older }: TalkState): readonly ShownAnswer[] =>
  [...exchanges, ...older].map(({ answer }) => answer);

/** Something is being asked. */
export const isAsking = (state: TalkState): boolean => answersOf(state).some(isOpen);

/** Letters of an answer are shown a few times a second; every other change is shown at once. */
export function isAtOnce(before: TalkState, after: TalkState): boolean {
  const kinds = (state: TalkState): string =>
    answersOf(state)
      .map(({ end }) => end.type)
      .join();
  const { facts, problem, typed, how } = after;
  const isSame = before.facts === facts && before.problem === problem && before.typed === typed && before.how === how;
  return !isSame || kinds(before) !== kinds(after);
}

/** The box holds more than spaces, the operator allows questions, and no answer is on its way. */
export const mayAsk = (state: TalkState): boolean =>
  state.facts !== null && !state.facts.isOff && !isAsking(state) && state.typed.trim() !== '';

const MOST_OLDER = 4;

/**
 * Saved states to ask beside an answer of the newest weights, the oldest first: older than it is, the first and the last of
 * those and others evenly between.
 */
export function olderSteps({ facts, exchanges }: TalkState): readonly number[] {
  const end = exchanges.at(-1)?.answer.end;
  if (facts === null || end?.type !== 'whole') return [];
  const steps = facts.checkpoints.filter((step) => step < end.origin.fromStep).toSorted((a, b) => a - b);
  const most = Math.min(MOST_OLDER, steps.length);
  const places = arrayOf(most, (index) => (most === 1 ? 0 : Math.round((index * (steps.length - 1)) / (most - 1))));
  return steps.filter((_, place) => places.includes(place));
}

/** The call that asks this state of the model the newest question; null: the newest weights. */
export function questionOf(
  { facts, exchanges, asked }: TalkState,
  step: number | null,
): { readonly path: string; readonly body: object } | null {
  const newest = exchanges.at(-1);
  if (facts === null || newest === undefined) return null;
  const { tokens, temperature, seed } = asked;
  const model = step === null ? facts.run : `${facts.run}@${step}`;
  const how = { model, max_tokens: tokens, temperature, seed, stream: true };
  if (facts.reads === 'text') return { path: '/talk/completions', body: { ...how, prompt: newest.words } };
  const messages = exchanges.flatMap(({ words, answer }, index) => [
    { role: 'user', content: words },
    ...(index < exchanges.length - 1 ? [{ role: 'assistant', content: answer.text }] : []),
  ]);
  return { path: '/talk/chat/completions', body: { ...how, messages } };
}
