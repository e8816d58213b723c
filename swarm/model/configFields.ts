/**
 * Reading a Hugging Face config.json, what every family does alike. A field that changes the arithmetic is honoured or
 * refused by name, every other one is ignored.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import { shown, withBound } from './inputFields.ts';

export type Config = Readonly<Record<string, unknown>>;

export const count = z.int().positive();
/** Twice as many as the deepest model in use: plans are searched for layer by layer. */
export const layerCount = count.max(256);
export const LAYER_COUNT = 'a positive integer up to 256';
/** Added to a float32, where less would be nothing. */
export const EPSILON = 'a number above 0 that float32 can hold';
export const epsilon = z
  .number()
  .positive()
  .min(2 ** -126)
  .max(1e38);

/** A normal variate of ours is at most 6.7 (32 bits a draw): past this bound, float32 could not hold some first value. */
export const initializerRange = z.number().nonnegative().max(1e37).default(0.02);
export const INITIALIZER_RANGE = 'a number from 0 to 1e37';

/** What a family reads of its config. */
export interface ConfigFields<Schema extends z.ZodType> {
  /** Fields that are honoured, with transformers' defaults. */
  readonly schema: Schema;
  /** What each of them must be, for the sentence that refuses it; a positive integer, where it is not named here. */
  readonly expected: Readonly<Record<string, string>>;
  /** Fields with the only value that is computed here (also what an absent field means), and what transformers takes for the same. */
  readonly fixed: readonly (readonly [field: string, value: unknown, ...same: unknown[]])[];
}

/** The family's own fields, or a sentence that starts with the name of the one that is refused. */
export function readConfig<Schema extends z.ZodType>(
  given: Config,
  { schema, expected, fixed }: ConfigFields<Schema>,
): Result<z.output<Schema>> {
  const parsed = schema.safeParse(given);
  if (!parsed.success) {
    const field = String(parsed.error.issues[0]?.path[0]);
    return refusal(fieldReason(field, expected[field] ?? withBound('a positive integer', given[field]), given));
  }
  for (const [field, value, ...same] of fixed) {
    const actual = given[field];
    if (actual !== undefined && actual !== value && !same.includes(actual))
      return refusal(fieldReason(field, JSON.stringify(value), given));
  }
  return success(parsed.data);
}

export function fieldReason(field: string, expected: string, given: Config): string {
  return given[field] === undefined
    ? `${field} is missing: it must be ${expected}`
    : `${field} must be ${expected}, not ${shown(given[field])}`;
}
