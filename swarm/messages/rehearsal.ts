/** Faults that an operator has done on purpose to a donor of the server's own, and what each of them cost. */
import { z } from 'zod';
import { count } from '../fields.ts';

/** What takes effect once, or from then on. */
export const PLAIN_FAULTS = ['kill', 'gpu-lost', 'leave', 'nan', 'mute'] as const;
/** What is over after so many seconds. */
export const PASSING_FAULTS = ['freeze', 'cut'] as const;
export const MOST_REHEARSED_SECONDS = 60;
export const MOST_REHEARSED_FACTOR = 10;

const peer = z.string().min(1).max(64);

/** What an operator asks for. */
export const rehearsalWishSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(PLAIN_FAULTS), peer }),
  z.object({ kind: z.enum(PASSING_FAULTS), peer, seconds: z.number().min(1).max(MOST_REHEARSED_SECONDS) }),
  /** So many times as long as at first; 1: as fast as at first. */
  z.object({ kind: z.literal('slow'), peer, factor: z.number().min(1).max(MOST_REHEARSED_FACTOR) }),
]);
export type RehearsalWish = z.infer<typeof rehearsalWishSchema>;
export type RehearsedKind = RehearsalWish['kind'];

const WORDS: Readonly<Record<RehearsedKind, string>> = {
  kill: 'kill its tab',
  freeze: 'freeze it',
  cut: 'cut it off',
  slow: 'slow it down',
  'gpu-lost': 'take its GPU away',
  leave: 'leave by its button',
  nan: 'send no numbers',
  mute: 'report no steps',
};

/** As a button says it; with the quantity of one that was asked for. */
export const rehearsedKindText = (kind: RehearsedKind): string => WORDS[kind];
export const rehearsalText = (wish: RehearsalWish): string => {
  if ('seconds' in wish) return `${WORDS[wish.kind]} for ${wish.seconds} s`;
  if (!('factor' in wish)) return WORDS[wish.kind];
  return wish.factor === 1 ? 'slow it down no more' : `${WORDS[wish.kind]} ${wish.factor} times`;
};

const seconds = z.number().min(0).nullable();

const rehearsalSchema = z.object({
  id: count,
  wish: rehearsalWishSchema,
  /** As in a script of `--chaos`. */
  entry: z.string().max(64),
  /** Then being done. */
  step: count,
  /** It failed: what was asked for could not be done. Else it begins, takes effect, and is over. */
  state: z.enum(['begins', 'fired', 'over', 'failed']),
  /** Until the run knew; null: it does not, or not yet. */
  detectedSeconds: seconds,
  /** Until the next commit after that. */
  resumedSeconds: seconds,
  stepsGivenUp: count,
  bytesMoved: z.int().min(0),
});
export type RehearsalRow = z.infer<typeof rehearsalSchema>;

export const rehearsalsSchema = z.object({
  /** Those that are here and that it can be done to. */
  donors: z.array(peer),
  /** Oldest first. */
  rows: z.array(rehearsalSchema),
});
export type RehearsalsShown = z.infer<typeof rehearsalsSchema>;
