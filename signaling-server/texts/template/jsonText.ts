/**
 * JSON and Python's values: what transformers' `tojson` writes, and reading that keeps what JavaScript would lose, the
 * difference of 1 and 1.0 and the order of keys that are numbers.
 */
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { parseJson } from '../../../swarm/parseJson.ts';
import { floatText, intText } from './numbers.ts';
import { sortedBy } from './printing.ts';
import {
  Dict,
  describe,
  type Effort,
  fail,
  Instance,
  integer,
  isList,
  isUndefined,
  listOf,
  type PythonValue,
  plainText,
  string,
  TemplateFault,
  Tuple,
} from './values.ts';

interface Writing {
  readonly ascii: boolean;
  /** What a level is set in by; null: all on one line. */
  readonly indent: string | null;
  readonly separators: readonly [string, string];
  readonly sortKeys: boolean;
}

const SHORT: Readonly<Record<string, string>> = {
  ...{ '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\b': '\\b', '\f': '\\f' },
};
const escaped = (character: string): string =>
  SHORT[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
const quotedText = (text: string, ascii: boolean): string =>
  `"${text.replace(ascii ? /["\\]|[^ -~]/g : /["\\]|[^ -\uffff]/g, escaped)}"`;

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  return floatText(value);
}

function keyText(key: PythonValue): string {
  if (key === null) return 'null';
  if (typeof key === 'boolean') return String(key);
  if (typeof key === 'bigint') return intText(key);
  return typeof key === 'number' ? numberText(key) : string(key, 'a key in JSON');
}

/** `json.dumps(value, …)`. */
export function toJson(
  value: PythonValue,
  [ascii, indent, separators, sortKeys]: readonly [boolean, PythonValue, PythonValue, boolean],
  effort: Effort,
): string {
  const pair = separators === null ? [indent === null ? ', ' : ',', ': '] : listOf(separators, effort);
  const [item = '', key = ''] =
    pair.length === 2 ? pair.map((one) => string(one, 'a separator')) : fail('two separators');
  const unit = indent === null ? null : (plainText(indent) ?? ' '.repeat(Math.max(0, integer(indent, 'an indent'))));
  effort.room(unit?.length ?? 0);
  return effort.text(written(value, { ascii, indent: unit, separators: [item, key], sortKeys }, 1, effort));
}

function written(value: PythonValue, writing: Writing, depth: number, effort: Effort): string {
  effort.step();
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'bigint') return intText(value);
  if (typeof value === 'number') return numberText(value);
  const text = plainText(value);
  if (text !== null) return effort.text(quotedText(text, writing.ascii));
  const [between, colon] = writing.separators;
  const inner = (item: PythonValue): string => written(item, writing, depth + 1, effort);
  const enclosed = (open: string, parts: readonly string[], close: string): string => {
    if (parts.length === 0) return open + close;
    const line = (level: number): string => (writing.indent === null ? '' : `\n${writing.indent.repeat(level)}`);
    return effort.text(open + line(depth) + parts.join(between + line(depth)) + line(depth - 1) + close);
  };
  if (isList(value)) return enclosed('[', value.map(inner), ']');
  if (value instanceof Tuple) return enclosed('[', value.items.map(inner), ']');
  if (!(value instanceof Dict)) return fail(isUndefined(value) ? value.reason : `${describe(value)} is not for JSON`);
  const entries = writing.sortKeys
    ? sortedBy(value.entries(), ([key]) => key, { reverse: false, effort })
    : value.entries();
  const pairs = entries.map(([key, item]) => `${quotedText(keyText(key), writing.ascii)}${colon}${inner(item)}`);
  return enclosed('{', pairs, '}');
}

const LONE = /\p{Surrogate}/u;

const DEEPEST = 200;

/**
 * A value of JavaScript's data, as `JSON.parse` gives it; what is an instance already stays. Whole numbers are ints. What
 * JavaScript has lost of the JSON is refused: digits past 2^53, the order of keys that are numbers.
 */
export const pythonValue = (json: unknown): Result<PythonValue> => guarded(() => converted(json, 0));

function guarded(make: () => PythonValue): Result<PythonValue> {
  try {
    return success(make());
  } catch (error) {
    if (error instanceof TemplateFault) return refusal(error.message);
    throw error;
  }
}

function converted(json: unknown, depth: number): PythonValue {
  if (depth > DEEPEST) fail(`data is nested in more than ${DEEPEST} levels`);
  if (json === null || json === undefined || typeof json === 'boolean' || typeof json === 'bigint') return json ?? null;
  if (typeof json === 'string') return LONE.test(json) ? fail('a text has half a character') : json;
  if (typeof json === 'number') {
    if (!Number.isInteger(json)) return json;
    return Number.isSafeInteger(json) ? BigInt(json) : fail('a whole number past 2^53 has lost digits');
  }
  if (json instanceof Instance) return json;
  if (Array.isArray(json)) return json.map((item) => converted(item, depth + 1));
  if (typeof json !== 'object') return fail('a value is not of JSON');
  const entries = Object.entries(json);
  if (entries.length > 1 && entries.some(([key]) => /^(?:0|[1-9]\d{0,9})$/.test(key))) {
    fail('keys that are numbers have lost their order');
  }
  return new Dict(entries.map(([key, value]) => [converted(key, depth), converted(value, depth + 1)] as const));
}

const TOKEN =
  /[ \t\n\r]*(?:([[\]{}:,])|("(?:[^"\\]|\\.)*")|(-?(?:0|[1-9]\d*)(?:(\.\d+)?([eE][+-]?\d+)?))|(true|false|null))/y;
/** Reads JSON as Python does: whole numbers of any size, floats apart from them, keys in their order. */
export function parseJsonValue(text: string): Result<PythonValue> {
  let at = 0;
  const next = (): RegExpExecArray => {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text) ?? fail(`JSON goes wrong at character ${at + 1}`);
    at = TOKEN.lastIndex;
    return token;
  };
  const list = <T>(close: string, one: (token: RegExpExecArray) => T): T[] => {
    const items: T[] = [];
    for (let token = next(); token[1] !== close; token = next()) {
      if (items.length > 0) token = token[1] === ',' ? next() : fail(`JSON wants a comma at character ${at}`);
      items.push(one(token));
    }
    return items;
  };
  const value = (token: RegExpExecArray, depth: number): PythonValue => {
    const [, mark, quoted, number, places, power, word] = token;
    if (depth > DEEPEST) fail(`JSON is nested in more than ${DEEPEST} levels`);
    if (quoted !== undefined) return textIn(quoted, at);
    if (word !== undefined) return word === 'null' ? null : word === 'true';
    if (number !== undefined) return places === undefined && power === undefined ? BigInt(number) : Number(number);
    if (mark === '[') return list(']', (item) => value(item, depth + 1));
    if (mark !== '{') fail(`JSON goes wrong at character ${at}`);
    const entries = list('}', (key): readonly [PythonValue, PythonValue] => {
      const name = key[2] === undefined ? fail(`JSON wants a key at character ${at}`) : textIn(key[2], at);
      if (next()[1] !== ':') fail(`JSON wants a colon at character ${at}`);
      return [name, value(next(), depth + 1)];
    });
    return new Dict(entries);
  };
  return guarded(() => {
    const result = value(next(), 0);
    return /^[ \t\n\r]*$/.test(text.slice(at)) ? result : fail(`JSON goes on at character ${at + 1}`);
  });
}

/** The text in its quotes, which end before this character. */
function textIn(quoted: string, end: number): string {
  const parsed = parseJson(quoted);
  const text = parsed.ok ? parsed.value : null;
  if (typeof text !== 'string') return fail(`JSON has a text that is none before character ${end + 1}`);
  return LONE.test(text) ? fail('a text has half a character') : text;
}

/** The fields of an object, by name; null: it is none. */
export const fieldsOf = (value: PythonValue): ReadonlyMap<string, PythonValue> | null =>
  value instanceof Dict ? new Map(value.entries().map(([key, item]) => [string(key, 'a key'), item])) : null;
