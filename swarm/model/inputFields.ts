/**
 * Fields of the files that people write: run files, problems. Each field carries the words that finish the sentence
 * "`field` must be …", so that whatever is wrong with a file is one sentence that names the place.
 */
import { z } from 'zod';
import { invariant } from '../base.ts';

/** `words` finish the sentence "`field` must be …". */
export const expecting = (words: string) => (issue: { readonly input?: unknown }) =>
  issue.input === undefined ? `is missing: it must be ${words}` : `must be ${words}, not ${shown(issue.input)}`;

/** An object of exactly these fields; an unknown one is refused by name. */
export const fields = <Shape extends z.core.$ZodLooseShape>(shape: Shape) =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `is unknown: expected one of ${Object.keys(shape).join(', ')}`
        : expecting('an object')(issue),
  });

export const number = (words: string, holds: (value: number) => boolean) =>
  z.number({ error: expecting(words) }).refine(holds, { error: expecting(words) });
/** Past the last integer that a double tells from its neighbours that bound is said too. */
export const withBound = (words: string, input: unknown): string =>
  typeof input === 'number' && input > Number.MAX_SAFE_INTEGER ? `${words}, at most ${Number.MAX_SAFE_INTEGER}` : words;

const integer = (words: string, least: number) => {
  const error = (issue: { readonly input?: unknown }): string => expecting(withBound(words, issue.input))(issue);
  return z.number({ error }).refine((value) => Number.isSafeInteger(value) && value >= least, { error });
};
export const count = integer('a positive integer', 1);
export const countUpTo = (most: number) =>
  number(`a positive integer up to ${most}`, (value) => Number.isSafeInteger(value) && value > 0 && value <= most);
export const natural = integer('an integer of 0 or more', 0);
export const nonNegative = number('a number of 0 or more', (value) => value >= 0);
export const positive = number('a number above 0', (value) => value > 0);
export const text = (words: string) => z.string({ error: expecting(words) }).min(1, { error: expecting(words) });

/** A name that is printed: nothing in it may move a terminal's cursor or hide what follows. */
export const name = (words: string) =>
  text(words).regex(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u, { error: expecting(`${words} without control characters`) });

/** An unknown field's issue stands at the object around it. */
export function fieldPath(issue: z.core.$ZodIssue): PropertyKey[] {
  return issue.code === 'unrecognized_keys' ? [...issue.path, issue.keys[0] ?? ''] : issue.path;
}

/** What is wrong with a file, `whole` where no field of it is to blame. */
export function sentence(issue: z.core.$ZodIssue | undefined, whole: string): string {
  invariant(issue, 'a failed parse has an issue');
  const field = fieldPath(issue).reduce<string>(
    (words, part) => (typeof part === 'number' ? `${words}[${part}]` : `${words}${words && '.'}${String(part)}`),
    '',
  );
  return `${field || whole} ${issue.message}`;
}

/** Deeper than any file a person writes, and shallow enough for whatever walks it by recursion. */
const DEEPEST = 64;

/** Whether a parsed JSON value nests deeper than is read here. */
export function isTooDeep(json: unknown): boolean {
  let level: unknown[] = [json];
  for (let depth = 0; depth <= DEEPEST && level.length > 0; depth++)
    level = level.flatMap((value) => (typeof value === 'object' && value !== null ? Object.values(value) : []));
  return level.length > 0;
}
export const TOO_DEEP = `is nested more than ${DEEPEST} levels deep`;

/** A value in a sentence: its beginning, where it is long. */
export function shown(value: unknown): string {
  // JSON has no word for a number past all numbers.
  const json = (typeof value === 'number' ? null : JSON.stringify(value)) ?? String(value);
  return json.length > 60 ? `${json.slice(0, 57)}…` : json;
}
