import { expect, test } from 'vitest';
import { z } from 'zod';
import { block, count, faultWords } from './fields.ts';

const list = z
  .array(count)
  .max(1)
  .refine(([first]) => first !== 7, { error: 'must not begin with 7' });
const schema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('a'), steps: count, name: z.string().min(2).max(3), list, block }),
]);
const VALID = { type: 'a', steps: 1, name: 'abc', list: [], block: 'head' };

const faultOf = (json: unknown): string => {
  const [issue] = schema.safeParse(json).error?.issues ?? [];
  return issue === undefined ? 'nothing' : `${issue.path.join('.')} ${faultWords(issue)}`;
};

test.each([
  [{}, 'nothing'],
  [{ steps: 1.5 }, 'steps must be a whole number'],
  [{ steps: undefined }, 'steps must be a number'],
  [{ steps: 'secret' }, 'steps must be a number'],
  [{ steps: -1 }, 'steps must be at least 0'],
  [{ steps: 2 ** 32 }, 'steps must be at most 4294967295'],
  [{ name: 'a' }, 'name must have at least 2 characters'],
  [{ name: 'abcd' }, 'name must have at most 3 characters'],
  [{ list: [1, 2] }, 'list must have at most 1 entries'],
  [{ list: [7] }, 'list must not begin with 7'],
  [{ list: ['x'] }, 'list.0 must be a number'],
  [{ block: 'secret' }, 'block must be a text of the form expected there'],
  [{ more: 'secret' }, ' has a field that is unknown: more'],
  [{ type: 'b' }, 'type is of no known kind'],
])('[WP3] what is wrong with a message is said in our words, without the value: %j', (changed, words) => {
  expect(faultOf({ ...VALID, ...changed })).toBe(words);
});
