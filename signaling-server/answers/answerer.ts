/**
 * The port between those who ask a model something and those who compute the answer. A question is token ids and how to
 * go on from them; an answer is tokens, one after another, each with the weights that it was made with. Who computes
 * knows nothing of texts, keys or HTTP.
 */

export interface Question {
  /** Who asks: a key, an address, the dashboard. Places are given to askers in turn. */
  readonly from: string;
  readonly run: string;
  /** The weights after so many committed steps; null: the newest that there are. */
  readonly step: number | null;
  /** At least one, each below the model's vocabulary, no more than it has positions. */
  readonly ids: readonly number[];
  /** At least one. With `ids` at most one more than the positions: the last token of all is never read. */
  readonly mostTokens: number;
  /** 0: always the likeliest token, of equal ones that of the lowest id. */
  readonly temperature: number;
  /** Only the likeliest tokens that together have this probability are drawn from. */
  readonly topP: number;
  /** The same question with the same seed and the same weights has the same answer. */
  readonly seed: number;
  /** Tokens after which no more are wanted. */
  readonly ends: readonly number[];
}

/** With which weights an answer was made, up to and with a token. */
export interface Provenance {
  /** The fewest and the most steps whose updates stood in any stage's values; 0: the initial ones. */
  readonly fromStep: number;
  readonly toStep: number;
  /** How many donors took part; 0: the server's own processor did it all. */
  readonly donors: number;
}

export interface AnsweredToken extends Provenance {
  readonly token: number;
}

export type AnswerRefusal =
  /** As many are being answered as can be. */
  | { readonly of: 'busy'; readonly retrySeconds: number }
  /** These weights are not at hand. */
  | { readonly of: 'notThere'; readonly sentence: string }
  /** It will never be answered here. */
  | { readonly of: 'tooLarge'; readonly sentence: string };

/**
 * The tokens end after `mostTokens`, after one of `ends`, which is told too, or when the signal is aborted. They throw an
 * `AnswerFault` where there is no end of either kind.
 */
export type ModelAnswer =
  | {
      readonly ok: true;
      readonly tokens: AsyncIterable<AnsweredToken>;
      /** As far as is known when it begins: until the first token, and from one to the next. */
      readonly promise?: { readonly firstTokenSeconds: number; readonly tokensPerSecond: number };
    }
  | { readonly ok: false; readonly refusal: AnswerRefusal };

/** What an answer broke off for, in a sentence for whoever asked. */
export class AnswerFault extends Error {}

export interface Answerer {
  /** Resolves when the answer begins, or it is known that it will not. Whoever is done with it aborts the signal. */
  answer(question: Question, signal: AbortSignal): Promise<ModelAnswer>;
}
