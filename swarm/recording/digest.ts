/**
 * A short text for a value of plain data: equal values have equal digests, in every process. Each large part is hashed by
 * itself and remembered as long as it lives, so that the digest of a state costs what has changed in it since the last
 * one: whatever is digested must never be changed in place.
 */
import { invariant } from '../base.ts';

export type Hash = (text: string) => string;

/** The text of a smaller part stands as it is: to make it again costs less than to remember it. */
const LONGEST_PLAIN_TEXT = 256;

/**
 * Of numbers, strings, booleans, null, undefined, arrays and plain objects. A property that is undefined is as one that is
 * absent, -0 is 0, and the order of an object's properties counts for nothing.
 */
export function digester(hash: Hash): (value: unknown) => string {
  const known = new WeakMap<object, string>();
  const textOf = (value: unknown): string => {
    if (typeof value === 'string') return JSON.stringify(value);
    if (typeof value === 'object' && value !== null) return partText(value);
    invariant(typeof value !== 'function' && typeof value !== 'symbol', 'what is digested is plain data');
    return String(value);
  };
  const partText = (part: object): string => {
    const before = known.get(part);
    if (before !== undefined) return before;
    const text = wholeText(part);
    if (text.length <= LONGEST_PLAIN_TEXT) return text;
    const short = `#${hash(text)}`;
    known.set(part, short);
    return short;
  };
  const wholeText = (part: object): string => {
    if (Array.isArray(part)) return `[${part.map(textOf).join()}]`;
    invariant(Object.getPrototypeOf(part) === Object.prototype, 'what is digested is plain data');
    const fields = Object.entries(part).filter(([, value]) => value !== undefined);
    fields.sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${fields.map(([key, value]) => `${JSON.stringify(key)}:${textOf(value)}`).join()}}`;
  };
  return (value) => hash(textOf(value));
}
