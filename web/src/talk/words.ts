/** The page `/talk` in words: what the model is, where an answer is from, why there is none, and what a screen reader hears. */
import type { TalkFacts } from '../../../swarm/messages/talk.ts';
import { counted, durationText } from '../../../swarm/quantityText.ts';
import { UNREACHABLE } from '../page/ask.ts';
import { aboutText, countText } from '../page/format.ts';
import type { AnswerFailure, AnswerOrigin } from './answerStream.ts';

/** Share of a run before which what a model writes is mostly noise. */
const NOISE_SHARE = 0.05;

export const OFF_SENTENCE = 'Whoever runs this server lets nobody talk to its model.';

/** What somebody talks to. */
export function modelSentence({ parameters, committedSteps, steps, wasTrained }: TalkFacts): string {
  const size = `A small language model (${aboutText(parameters)} parameters)`;
  const done = `${countText(committedSteps)} of ${countText(steps)} steps`;
  if (wasTrained)
    return committedSteps >= steps
      ? `${size} that browsers have fine-tuned together. It makes things up.`
      : `${size} being fine-tuned, after ${done}. It makes things up.`;
  if (committedSteps === 0) return `${size} that has not begun to learn: what it writes is noise.`;
  if (committedSteps >= steps) return `${size} that browsers have trained together. It makes things up.`;
  return committedSteps < NOISE_SHARE * steps
    ? `${size} in training, after ${done}: it has only begun to learn, and writes mostly noise.`
    : `${size} in training, after ${done}. It makes things up.`;
}

export const PRIVACY_SENTENCE =
  'Donors who compute its first or last part could read what you type and what it answers. This server keeps none of it.';

/** Whose GPUs made an answer, of which steps, in what time. */
export function originSentence({ fromStep, toStep, donors }: AnswerOrigin, seconds: number): string {
  const steps =
    fromStep === toStep
      ? `From step ${countText(toStep)}`
      : `From steps ${countText(fromStep)} to ${countText(toStep)}`;
  const by =
    donors === 0 ? 'by the server' : donors === 1 ? 'by one donor’s GPU' : `by ${counted(donors, 'donor')}’ GPUs`;
  return `${steps}, ${by}, in ${seconds < 10 ? `${seconds.toFixed(1)} s` : durationText(seconds)}.`;
}

const again = (seconds: number | null): string =>
  seconds === null ? 'Try again later.' : `Try again in ${durationText(seconds)}.`;

const TOO_MUCH: Readonly<Record<'now' | 'older', string>> = {
  now: 'No donor can answer right now, and for the server alone this is too much. Try again when somebody trains, or ask for a shorter answer.',
  older: 'The model is too large for the server, which alone has its older states.',
};

/** What to tell who asked; `step`: of a saved state, null: the newest weights. */
export function failureSentence(failure: AnswerFailure, step: number | null, reads: TalkFacts['reads']): string {
  const { status, code, type, message, retrySeconds } = failure;
  if (status === 0) return UNREACHABLE;
  if (status === 429 && type === 'tokens')
    return `Your network address has asked for as much as one may in an hour. ${again(retrySeconds)} A shorter answer may do sooner.`;
  if (status === 429 && retrySeconds !== null) return `Others are asking, too. ${again(retrySeconds)}`;
  if (code === 'context_length_exceeded')
    return reads === 'turns'
      ? 'This conversation is too long for the model. Begin anew.'
      : 'This text is too long for the model. Shorten it.';
  if (code === 'api_off') return OFF_SENTENCE;
  if (code === 'model_too_large') return step === null ? TOO_MUCH.now : TOO_MUCH.older;
  if (code === 'model_not_found')
    return step === null ? 'The server has another run now. Reload this page.' : 'It is gone by now.';
  if (status === 503) return 'No donor can answer right now. Try again in a minute.';
  if (status >= 500 || message === '') return 'The answer broke off. Ask again.';
  // The server's own words: a sentence, or only the end of one.
  const words = `${message.replace(/\.$/, '')}.`;
  return /^\p{Lu}/u.test(words) ? words : `Refused: ${words}`;
}

/** A piece that no sentence ends is read out when it has so many characters. */
const LONG_PIECE = 120;

/**
 * A text that grows, cut for a screen reader: sentences and lines, or what would take long to be one. Pieces that are there
 * stay as they are; what follows them is not read out yet.
 */
export function spokenPieces(text: string): { readonly pieces: readonly string[]; readonly rest: string } {
  const pieces: string[] = [];
  let rest = text;
  for (;;) {
    const sentence = /^[\s\S]*?(?:[.!?…]["'”’)]*\s+|\n+)(?=\S)/.exec(rest)?.[0];
    const long = new RegExp(`^[\\s\\S]{${LONG_PIECE},}?\\s+(?=\\S)`).exec(rest)?.[0];
    const piece = [sentence, long].reduce((a, b) =>
      a !== undefined && b !== undefined && b.length < a.length ? b : (a ?? b),
    );
    if (piece === undefined) return { pieces, rest };
    pieces.push(piece);
    rest = rest.slice(piece.length);
  }
}
