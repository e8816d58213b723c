/** The filters that make texts and numbers. */
import { capitalize, lines, SPACE, strip, words } from './casing.ts';
import { percent, truncated } from './formatting.ts';
import { toJson } from './jsonText.ts';
import { asFloat, asInt, calculate, fixed, parseFloatText, parseInteger, roundTo } from './numbers.ts';
import { repr, sortedBy, str } from './printing.ts';
import { escaped, replace } from './textMethods.ts';
import {
  type Arguments,
  Bytes,
  characterCount,
  characters,
  Dict,
  describe,
  type Effort,
  fail,
  integer,
  isList,
  isNumeric,
  isUndefined,
  iterator,
  lengthOf,
  listOf,
  Markup,
  type PythonValue,
  plainText,
  string,
  Tuple,
  truth,
} from './values.ts';

type Given = readonly (PythonValue | undefined)[];
/** A filter by its parameters; the first of them is what it is applied to. */
export type PlainFilter = readonly [parameters: string, apply: (given: Given, effort: Effort) => PythonValue];

/** A filter that changes a text and leaves it marked as safe where it was. */
const onText = (parameters: string, apply: (text: string, given: Given, effort: Effort) => string): PlainFilter => [
  `value${parameters}`,
  ([value = null, ...given], effort) => {
    const text = apply(str(value, effort), given, effort);
    return value instanceof Markup ? new Markup(text) : text;
  },
];

const given = (value: PythonValue | undefined): PythonValue => value ?? null;

/** Words by what begins one: a capital, then small letters. */
const TITLE_GAP = new RegExp(`([-${SPACE}({\\[<]+)`);
const titled = (text: string): string =>
  text
    .split(TITLE_GAP)
    .map((word) => {
      const [first = '', ...rest] = characters(word);
      return first.toUpperCase() + rest.join('').toLowerCase();
    })
    .join('');

function indent(text: string, [width, first, blank]: Given, effort: Effort): string {
  const unit = width === undefined ? '    ' : (plainText(width) ?? ' '.repeat(Math.max(0, integer(width, 'a width'))));
  const [head = '', ...rest] = lines(`${text}\n`, false);
  effort.room(text.length + unit.length * (rest.length + 1));
  const withBlank = truth(blank ?? false);
  const shown = [head, ...rest.map((line) => (line !== '' || withBlank ? unit + line : line))].join('\n');
  return truth(first ?? false) ? unit + shown : shown;
}

function truncate(value: PythonValue, [longest, kill, end, leeway]: Given): PythonValue {
  const most = longest === undefined ? 255 : integer(longest, 'a length');
  const ending = end === undefined ? '...' : string(end, 'an ending');
  const slack = leeway === undefined || leeway === null ? 5 : integer(leeway, 'a leeway');
  if (most < characterCount(ending) || slack < 0) fail('truncate to less than its ending');
  const size = lengthOf(value) ?? fail(`the length of ${describe(value)}`);
  if (size <= most + slack) return value;
  const all = characters(typeof value === 'string' ? value : fail(`truncate of ${describe(value)}`));
  const cut = all.slice(0, most - characterCount(ending)).join('');
  if (truth(kill ?? false)) return cut + ending;
  const gap = cut.lastIndexOf(' ');
  return (gap < 0 ? cut : cut.slice(0, gap)) + ending;
}

function toInt([value = null, other = 0n, base = 10n]: Given): PythonValue {
  if (isUndefined(value)) return fail(value.reason);
  if (value instanceof Bytes) return fail('the number in bytes');
  if (typeof value === 'bigint' || typeof value === 'boolean') return asInt(value);
  if (typeof value === 'number') return Number.isNaN(value) ? other : truncated(value);
  const text = plainText(value);
  if (text === null) return other;
  const found = parseInteger(text, integer(base, 'a base'));
  if (found !== null) return found;
  const number = parseFloatText(text);
  return number === null || !Number.isFinite(number) ? other : truncated(number);
}

function toFloat([value = null, other = 0]: Given): PythonValue {
  if (isUndefined(value)) return fail(value.reason);
  if (value instanceof Bytes) return fail('the number in bytes');
  if (isNumeric(value)) return asFloat(value);
  const text = plainText(value);
  return text === null ? other : (parseFloatText(text) ?? other);
}

function round([value = null, precision = 0n, method = 'common']: Given): PythonValue {
  if (isUndefined(value)) return fail(value.reason);
  if (!isNumeric(value)) return fail(`round of ${describe(value)}`);
  const digits = integer(precision, 'a precision');
  if (method === 'common') return roundTo(value, digits);
  if (method !== 'ceil' && method !== 'floor') return fail('round goes by common, ceil or floor');
  const unit = calculate('**', 10n, BigInt(digits));
  const scaled = asFloat(calculate('*', value, unit));
  const whole = method === 'ceil' ? Math.ceil(scaled) : Math.floor(scaled);
  return calculate('/', truncated(whole), unit);
}

function absolute([value = null]: Given): PythonValue {
  if (!isNumeric(value)) return fail(`abs of ${describe(value)}`);
  if (typeof value === 'number') return Math.abs(value);
  return asInt(value) < 0n ? -asInt(value) : asInt(value);
}

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB', 'ZB', 'YB'];

function fileSize([value = null, binary = false]: Given): PythonValue {
  const bytes = toFloat([value, Number.NaN]);
  if (typeof bytes !== 'number' || !Number.isFinite(bytes)) return fail(`the size in ${describe(value)}`);
  const base = truth(binary) ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${truncated(bytes)} Bytes`;
  let power = 1;
  while (power < SIZES.length - 1 && bytes >= base ** (power + 1)) power++;
  const unit = SIZES[power] ?? '';
  const name = truth(binary) ? `${unit.charAt(0).toUpperCase()}iB` : unit;
  const shown = fixed((base * bytes) / base ** (power + 1), 1);
  return `${bytes < 0 ? '-' : ''}${shown} ${name}`;
}

/** Bytes of UTF-8 as %XX, but for letters, digits and a few marks. */
function urlQuoted(value: PythonValue, inQuery: boolean, effort: Effort): string {
  const quoted = encodeURIComponent(str(value, effort)).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return inQuery ? quoted.replaceAll('%20', '+') : quoted.replaceAll('%2F', '/');
}

function urlEncode([value = null]: Given, effort: Effort): PythonValue {
  if (plainText(value) !== null || iterator(value) === null) return urlQuoted(value, false, effort);
  const pairs = value instanceof Dict ? value.entries().map((pair) => new Tuple(pair)) : listOf(value, effort);
  return pairs
    .map((pair) => {
      const [key, item, ...more] = listOf(pair, effort);
      if (key === undefined || item === undefined || more.length > 0) fail('a pair is none');
      return `${urlQuoted(given(key), true, effort)}=${urlQuoted(given(item), true, effort)}`;
    })
    .join('&');
}

function xmlAttributes([value = null, space = true]: Given, effort: Effort): PythonValue {
  if (!(value instanceof Dict)) return fail(isUndefined(value) ? value.reason : `xmlattr of ${describe(value)}`);
  const pairs = value.entries().flatMap(([key, item]) => {
    if (item === null || isUndefined(item)) return [];
    const name = string(key, 'the name of an attribute');
    if (/[ \t\n\r\f\v/>=]/.test(name)) fail(`the name of an attribute ${name}`);
    return [`${escaped(name, effort).text}="${escaped(item, effort).text}"`];
  });
  return effort.text((truth(space) && pairs.length > 0 ? ' ' : '') + pairs.join(' '));
}

/** On one line as long as it is short: past that Python breaks it. */
function pretty([value = null]: Given, effort: Effort): PythonValue {
  const inOrder = (item: PythonValue): PythonValue => {
    if (isList(item)) return item.map(inOrder);
    if (item instanceof Tuple) return new Tuple(item.items.map(inOrder));
    if (!(item instanceof Dict)) return item;
    const entries = item.entries().map(([key, one]) => [key, inOrder(one)] as const);
    return new Dict(sortedBy(entries, ([key]) => key, { reverse: false, effort }));
  };
  const text = repr(inOrder(value), effort);
  return characterCount(text) > 80 ? fail('pprint of more than a line') : text;
}

/** What lies between < and > goes, and white space becomes single blanks. */
function withoutTags(text: string): string {
  let rest = text;
  for (const [open, close] of [
    ['<!--', '-->'],
    ['<', '>'],
  ] as const) {
    for (let start = rest.indexOf(open); start >= 0; start = rest.indexOf(open)) {
      const end = rest.indexOf(close, start);
      if (end < 0) break;
      rest = rest.slice(0, start) + rest.slice(end + close.length);
    }
  }
  return /&[#\w]/.test(rest) ? fail('striptags of entities') : words(rest, -1).join(' ');
}

function formatted({ positional: [value = null, ...values], named }: Arguments, effort: Effort): PythonValue {
  if (values.length > 0 && named.size > 0) fail('format takes values by place or by name');
  if (value instanceof Markup) fail('format of a safe text');
  return percent(str(value, effort), named.size > 0 ? new Dict(named) : new Tuple(values), effort);
}

/** `format` takes any values: it has no parameters of its own. */
export const FORMAT_FILTER = formatted;

export const TEXT_FILTERS: Readonly<Record<string, PlainFilter>> = {
  abs: ['/value', absolute],
  capitalize: onText('', capitalize),
  center: onText(' width?', (text, [width], effort) => {
    const size = integer(width ?? 80n, 'a width');
    effort.room(size);
    const room = Math.max(0, size - characterCount(text));
    const left = Math.floor(room / 2) + (room & size & 1);
    return ' '.repeat(left) + text + ' '.repeat(room - left);
  }),
  e: ['/value', ([value], effort) => escaped(given(value), effort)],
  escape: ['/value', ([value], effort) => escaped(given(value), effort)],
  filesizeformat: ['value binary?', fileSize],
  float: ['value default?', toFloat],
  forceescape: ['value', ([value], effort) => escaped(str(given(value), effort), effort)],
  indent: [
    's width? first? blank?',
    ([value, ...rest], effort) => {
      if (value !== undefined && isUndefined(value)) return fail(value.reason);
      const text = effort.text(indent(string(given(value), 'what is indented'), rest, effort));
      return value instanceof Markup ? new Markup(text) : text;
    },
  ],
  int: ['value default? base?', toInt],
  lower: onText('', (text) => text.toLowerCase()),
  pprint: ['value', pretty],
  replace: [
    's old new count?',
    ([value, old, by, count], effort) => {
      const most = count === undefined || count === null ? -1 : integer(count, 'a count');
      return replace(str(given(value), effort), [str(given(old), effort), str(given(by), effort), most], effort);
    },
  ],
  round: ['value precision? method?', round],
  safe: ['value', ([value], effort) => (value instanceof Markup ? value : new Markup(str(given(value), effort)))],
  string: ['/s', ([value], effort) => (value instanceof Markup ? value : str(given(value), effort))],
  striptags: ['value', ([value], effort) => withoutTags(str(given(value), effort))],
  title: ['value', ([value], effort) => effort.text(titled(str(given(value), effort)))],
  tojson: [
    'x ensure_ascii? indent? separators? sort_keys?',
    ([value, ascii, unit, separators, sortKeys], effort) =>
      toJson(given(value), [truth(ascii ?? false), given(unit), given(separators), truth(sortKeys ?? false)], effort),
  ],
  trim: onText(' chars?', (text, [chars]) =>
    strip(text, chars === undefined || chars === null ? null : string(chars, 'what is trimmed')),
  ),
  truncate: ['s length? killwords? end? leeway?', ([value, ...rest]) => truncate(given(value), rest)],
  upper: onText('', (text) => text.toUpperCase()),
  urlencode: ['value', urlEncode],
  wordcount: ['s', ([value], effort) => BigInt(str(given(value), effort).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0)],
  xmlattr: ['d autospace?', xmlAttributes],
};
