/**
 * JSON that a person hands in: its value, or where it stops being JSON: what stands there, what belongs there, and the
 * line. The message of JSON.parse differs from engine to engine, and often names no place.
 */
import { type Result, refusal, success } from './base.ts';

const PUNCTUATION = '{}[],:';
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const WORD = /[^\s{}[\],:"]+/y;
const ESCAPES = '"\\/bfnrtu';

/** What may come next. */
type Next =
  | 'a value'
  | 'a value or ]'
  | 'a name in quotes or }'
  | 'a name in quotes'
  | 'a colon'
  | 'a comma or }'
  | 'a comma or ]'
  | 'nothing more';

/** Some editors write it before a UTF-8 text; RFC 8259, section 8.1, lets a reader ignore it. */
const BYTE_ORDER_MARK = '\uFEFF';

/** The reason goes on from the file's name. */
export function parseJson(content: string): Result<unknown> {
  const text = content.startsWith(BYTE_ORDER_MARK) ? content.slice(1) : content;
  try {
    return success(JSON.parse(text));
  } catch {
    return refusal(`is not valid JSON: ${jsonFault(text)}`);
  }
}

/** `line 3 has NaN where a value belongs`, of a text that is not JSON. */
function jsonFault(text: string): string {
  // What a decoder makes of bytes that are not UTF-8, such as the byte-order mark of UTF-16.
  if (text.startsWith('\uFFFD')) return 'it is not in UTF-8';
  const open: ('{' | '[')[] = [];
  let next: Next = 'a value';
  for (let at = 0; ; ) {
    while (' \t\r\n'.includes(text.charAt(at)) && at < text.length) at++;
    if (at >= text.length) return `it ends in line ${lineOf(text, at)} where ${next} belongs`;
    const token = tokenAt(text, at);
    const found = after(next, token, open);
    if (found === null || !isWhole(token)) return `line ${lineOf(text, at)} has ${short(token)} where ${next} belongs`;
    next = found;
    at += token.length;
  }
}

/** What may come after a token; null: it may not stand here. */
function after(next: Next, token: string, open: ('{' | '[')[]): Next | null {
  const inside = (): Next =>
    open.length === 0 ? 'nothing more' : open.at(-1) === '{' ? 'a comma or }' : 'a comma or ]';
  const isEnd = (token === '}' && next.endsWith('}')) || (token === ']' && next.endsWith(']'));
  if (isEnd) {
    open.pop();
    return inside();
  }
  if (next.startsWith('a comma')) return token !== ',' ? null : open.at(-1) === '{' ? 'a name in quotes' : 'a value';
  if (next === 'a colon') return token === ':' ? 'a value' : null;
  if (next.startsWith('a name')) return token.startsWith('"') ? 'a colon' : null;
  if (next === 'nothing more') return null;
  if (token === '{' || token === '[') {
    open.push(token);
    return token === '{' ? 'a name in quotes or }' : 'a value or ]';
  }
  return PUNCTUATION.includes(token) ? null : inside();
}

function tokenAt(text: string, at: number): string {
  const first = text.charAt(at);
  if (PUNCTUATION.includes(first)) return first;
  if (first === '"') return text.slice(at, stringEnd(text, at));
  WORD.lastIndex = at;
  return WORD.exec(text)?.[0] ?? first;
}

/** Past its closing quote, or at what a string may not have. */
function stringEnd(text: string, at: number): number {
  for (let end = at + 1; end < text.length; end++) {
    const character = text.charAt(end);
    if (character === '"') return end + 1;
    if (character < ' ' || (character === '\\' && !ESCAPES.includes(text.charAt(++end)))) return end;
  }
  return text.length;
}

function isWhole(token: string): boolean {
  if (token.startsWith('"')) return token.length > 1 && token.endsWith('"') && isString(token);
  return PUNCTUATION.includes(token) || ['true', 'false', 'null'].includes(token) || NUMBER.test(token);
}

function isString(token: string): boolean {
  try {
    JSON.parse(token);
    return true;
  } catch {
    return false;
  }
}

const lineOf = (text: string, at: number): number => text.slice(0, at).split('\n').length;

const short = (token: string): string => (token.length > 30 ? `${token.slice(0, 29)}…` : token);
