/**
 * The fields that messages are made of, each with its bounds. A bound is what some machine or run could have, so that
 * sums and products of what is heard stay finite.
 */
import { z } from 'zod';
import { peerId } from './base.ts';

export const peer = z.string().min(1).max(64).transform(peerId);
export const count = z.int().min(0).max(0xffffffff);
/** Of a step: the sum over 1,000 donors is still an integer that a double has, and the store takes. */
export const bytes = z
  .int()
  .min(0)
  .max(2 ** 43);
export const seconds = z.number().min(0).max(86_400);
export const instant = z.number().min(-1e12).max(1e12);
export const memory = z
  .int()
  .min(0)
  .max(2 ** 50);
/** Of a detail that one side tells the other; what it quotes may have to be cut. */
export const DETAIL_LENGTH_LIMIT = 2_000;
export const sentence = z.string().max(DETAIL_LENGTH_LIMIT);
export const range = z.tuple([count, count]).readonly();
export const hash = z.string().regex(/^[0-9a-f]{64}$/);
/** The first 128 bits of a SHA-256, in base64url. */
export const digest = z.string().regex(/^[\w-]{22}$/);
export const block = z.string().regex(/^(embedding|head|layer\.\d{1,6})$/);
/** What a donor may say went wrong with its part. */
export const FAULT_REASONS = [
  ...(['deviceLost', 'linkLost', 'outOfMemory', 'badFrame', 'internal'] as const),
  ...(['noPacket', 'notPublished'] as const),
] as const;

const TYPE_WORDS: Readonly<Record<string, string>> = {
  ...{ int: 'a whole number', number: 'a number', string: 'a text', boolean: 'true or false' },
  ...{ array: 'a list', tuple: 'a list', object: 'an object', record: 'an object' },
};

/** What finishes the sentence that begins with a field of a message. The value is not in it: it may be a secret. */
export function faultWords(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${TYPE_WORDS[issue.expected] ?? issue.expected}`;
    case 'too_small':
      return boundWords(issue.origin, `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`);
    case 'too_big':
      return boundWords(issue.origin, `${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}`);
    case 'invalid_value':
      return `must be ${issue.values.map(String).join(' or ')}`;
    case 'custom':
      return issue.message;
    case 'unrecognized_keys':
      return `has a field that is unknown: ${issue.keys.join(', ').slice(0, 60)}`;
    case 'invalid_format':
      return 'must be a text of the form expected there';
    default:
      return 'is of no known kind';
  }
}

function boundWords(origin: string, bound: string): string {
  if (origin === 'string') return `must have ${bound} characters`;
  return origin === 'array' ? `must have ${bound} entries` : `must be ${bound}`;
}
