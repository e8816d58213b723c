/**
 * The speed test before the click: some seconds of this run's own work on this GPU, without joining, and what that means
 * to a person. Pure; who runs it is in speedTest.ts.
 */
import type { About } from '../../../swarm/messages/about.ts';

export const TRIAL_SECONDS = 10;

export type Trial =
  | { readonly kind: 'none' }
  /** tokensPerSecond: so far; null: the GPU is still being opened and its programs compiled. */
  | { readonly kind: 'running'; readonly tokensPerSecond: number | null; readonly seconds: number }
  | { readonly kind: 'done'; readonly tokensPerSecond: number; readonly about: About }
  | { readonly kind: 'failed'; readonly sentence: string };

export const NO_TRIAL: Trial = { kind: 'none' };

/** Characters of a page of a book, and of a token: of bytes each is one, of a larger vocabulary some four in English. */
const PAGE_CHARACTERS = 1_800;
const TOKEN_CHARACTERS = 4;
const BYTES = 257;

/** Pages of a book that are learned from in a minute. */
export function pagesPerMinute(tokensPerSecond: number, { model }: About): number {
  const isBytes = typeof model.vocab_size === 'number' && model.vocab_size <= BYTES;
  return (tokensPerSecond * 60 * (isBytes ? 1 : TOKEN_CHARACTERS)) / PAGE_CHARACTERS;
}

/** Alone, for what is left of the run. */
export function aloneSeconds(tokensPerSecond: number, { train, stepTargets }: About, committedSteps: number): number {
  if (train.budget) return train.budget.seconds;
  return (Math.max(0, train.steps - committedSteps) * stepTargets) / tokensPerSecond;
}
