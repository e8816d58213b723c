/** The methods of Python's str. Of a text that is marked as safe, what is put in is escaped and what comes out is marked. */
import {
  capitalize,
  isDigits,
  isLower,
  isSpace,
  isTitle,
  isUpper,
  lines,
  strip,
  swapCase,
  title,
  words,
} from './casing.ts';
import { type FieldReach, formatFields } from './formatting.ts';
import { str } from './printing.ts';
import {
  type Arguments,
  Bytes,
  bound,
  characterCount,
  characters,
  Dict,
  type Effort,
  fail,
  integer,
  isList,
  listOf,
  Markup,
  type PythonValue,
  plainText,
  string,
  Tuple,
  truth,
} from './values.ts';

type Given = readonly (PythonValue | undefined)[];
type TextMethod = readonly [parameters: string, apply: (text: string, given: Given, effort: Effort) => PythonValue];

/** Marked characters as entities. */
export function escaped(value: PythonValue, effort: Effort): Markup {
  if (value instanceof Markup) return value;
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '>': '&gt;',
    '<': '&lt;',
    "'": '&#39;',
    '"': '&#34;',
  };
  return new Markup(effort.text(str(value, effort).replace(/[&<>'"]/g, (character) => entities[character] ?? '')));
}

const charsOf = (value: PythonValue | undefined): string | null =>
  value === undefined || value === null ? null : string(value, 'what is stripped');

const separatorOf = (value: PythonValue | undefined): string | null => {
  if (value === undefined || value === null) return null;
  return string(value, 'a separator') || fail('a separator is empty');
};

function split(text: string, separator: string | null, most: number): string[] {
  if (separator === null) return words(text, most);
  const parts = text.split(separator);
  return most < 0 || parts.length <= most + 1 ? parts : [...parts.slice(0, most), parts.slice(most).join(separator)];
}

function splitFromRight(text: string, separator: string | null, most: number): string[] {
  if (most < 0) return split(text, separator, most);
  const turned = (part: string): string => characters(part).reverse().join('');
  if (separator === null) return words(turned(text), most).map(turned).reverse();
  const parts: string[] = [];
  let end = text.length;
  for (
    let at = text.lastIndexOf(separator);
    at >= 0 && parts.length < most;
    at = text.lastIndexOf(separator, end - separator.length)
  ) {
    parts.unshift(text.slice(at + separator.length, end));
    end = at;
    if (end < separator.length) break;
  }
  return [text.slice(0, end), ...parts];
}

/** Places of an open range as Python takes them: negative ones count from the end. */
function span(from: PythonValue | undefined, to: PythonValue | undefined, length: number): readonly [number, number] {
  const place = (value: PythonValue | undefined, absent: number): number => {
    if (value === undefined || value === null) return absent;
    const index = integer(value, 'a place');
    return index < 0 ? Math.max(0, index + length) : index;
  };
  return [place(from, 0), Math.min(length, place(to, length))];
}

/** The part that is looked at, and where it begins; null: it begins past the end. */
function part(text: string, [from, to]: readonly [PythonValue | undefined, PythonValue | undefined]) {
  if (from === undefined && to === undefined) return { text, start: 0 };
  const all = characters(text);
  const [start, end] = span(from, to, all.length);
  return start > all.length || start > end ? null : { text: all.slice(start, end).join(''), start };
}

function find(text: string, [sub, from, to]: Given, last = false): number {
  const within = part(text, [from, to]);
  const sought = string(sub ?? null, 'what is sought');
  const at = within === null ? -1 : last ? within.text.lastIndexOf(sought) : within.text.indexOf(sought);
  return within === null || at < 0 ? -1 : within.start + characterCount(within.text.slice(0, at));
}

function count(text: string, [sub, from, to]: Given): number {
  const within = part(text, [from, to])?.text;
  const sought = string(sub ?? null, 'what is counted');
  if (within === undefined) return 0;
  return sought === '' ? characterCount(within) + 1 : within.split(sought).length - 1;
}

function fits(text: string, [affix, from, to]: Given, test: (text: string, affix: string) => boolean): boolean {
  const within = part(text, [from, to])?.text;
  const affixes = affix instanceof Tuple ? affix.items : [affix ?? null];
  return affixes
    .map((one) => string(one, 'a beginning or end'))
    .some((one) => within !== undefined && test(within, one));
}

/** `replace`: an empty text is found before every character and at the end. */
export function replace(text: string, [old, by, most]: readonly [string, string, number], effort: Effort): string {
  const parts = old === '' ? ['', ...characters(text), ''] : text.split(old);
  const cuts = most < 0 ? parts.length - 1 : Math.min(most, parts.length - 1);
  effort.room(text.length + cuts * by.length);
  return (
    parts.slice(0, cuts + 1).join(by) +
    parts
      .slice(cuts + 1)
      .map((rest) => old + rest)
      .join('')
  );
}

function pad(text: string, [width, fill]: Given, side: 'left' | 'right' | 'both', effort: Effort): string {
  const filling = fill === undefined ? ' ' : string(fill, 'a filling');
  if (characterCount(filling) !== 1) fail('a filling is no single character');
  const length = characterCount(text);
  const size = integer(width, 'a width');
  effort.room(size);
  const room = Math.max(0, size - length);
  const before = side === 'left' ? room : side === 'right' ? 0 : Math.floor(room / 2) + (room & size & 1);
  return filling.repeat(before) + text + filling.repeat(room - before);
}

function zeroFill(text: string, width: PythonValue | undefined, effort: Effort): string {
  const [, sign = '', rest = ''] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  effort.room(integer(width, 'a width'));
  return sign + '0'.repeat(Math.max(0, integer(width, 'a width') - characterCount(text))) + rest;
}

function expandTabs(text: string, size: number, effort: Effort): string {
  let column = 0;
  let result = '';
  for (const character of characters(text)) {
    const shown = character === '\t' ? ' '.repeat(size > 0 ? size - (column % size) : 0) : character;
    column = character === '\n' || character === '\r' ? 0 : column + characterCount(shown);
    effort.room(shown.length);
    result += shown;
  }
  return effort.text(result);
}

/** The items with a text between them, all of them texts. */
const joined = (separator: string, items: PythonValue | undefined, effort: Effort): string =>
  effort.text(
    listOf(items ?? null, effort)
      .map((item) => effort.text(string(item, 'what is joined')))
      .join(separator),
  );

function partition(text: string, sub: PythonValue | undefined, last: boolean): Tuple {
  const separator = separatorOf(sub) ?? fail('a separator is no text');
  const at = last ? text.lastIndexOf(separator) : text.indexOf(separator);
  if (at < 0) return new Tuple(last ? ['', '', text] : [text, '', '']);
  return new Tuple([text.slice(0, at), separator, text.slice(at + separator.length)]);
}

function encode(text: string, [encoding, errors]: Given): Bytes {
  const name = encoding === undefined ? 'utf-8' : string(encoding, 'an encoding').toLowerCase();
  if (!['utf-8', 'utf8', 'utf_8'].includes(name) || errors !== undefined) fail(`the encoding ${name}`);
  return new Bytes(new TextEncoder().encode(text));
}

const whole = (value: number): bigint => BigInt(value);
const most = (value: PythonValue | undefined): number =>
  value === undefined ? -1 : integer(value, 'a number of cuts');
const found = (at: number): bigint => (at < 0 ? fail('a text is not found in another') : whole(at));
const every = (pattern: RegExp) => (text: string) => text !== '' && pattern.test(text);
const RANGE = '/sub /start? /end?';

const METHODS: Readonly<Record<string, TextMethod>> = {
  strip: ['/chars?', (text, [chars]) => strip(text, charsOf(chars))],
  lstrip: ['/chars?', (text, [chars]) => strip(text, charsOf(chars), 'left')],
  rstrip: ['/chars?', (text, [chars]) => strip(text, charsOf(chars), 'right')],
  split: ['sep? maxsplit?', (text, [sep, cuts]) => split(text, separatorOf(sep), most(cuts))],
  rsplit: ['sep? maxsplit?', (text, [sep, cuts]) => splitFromRight(text, separatorOf(sep), most(cuts))],
  splitlines: ['keepends?', (text, [keep]) => lines(text, truth(keep ?? false))],
  partition: ['/sep', (text, [sep]) => partition(text, sep, false)],
  rpartition: ['/sep', (text, [sep]) => partition(text, sep, true)],
  startswith: [RANGE, (text, given) => fits(text, given, (within, affix) => within.startsWith(affix))],
  endswith: [RANGE, (text, given) => fits(text, given, (within, affix) => within.endsWith(affix))],
  find: [RANGE, (text, given) => whole(find(text, given))],
  rfind: [RANGE, (text, given) => whole(find(text, given, true))],
  index: [RANGE, (text, given) => found(find(text, given))],
  rindex: [RANGE, (text, given) => found(find(text, given, true))],
  count: [RANGE, (text, given) => whole(count(text, given))],
  replace: [
    '/old /new /count?',
    (text, [old, by, cuts], effort) =>
      replace(text, [string(old ?? null, 'what is replaced'), string(by ?? null, 'a replacement'), most(cuts)], effort),
  ],
  removeprefix: [
    '/prefix',
    (text, [prefix]) => {
      const affix = string(prefix ?? null, 'a prefix');
      return text.startsWith(affix) ? text.slice(affix.length) : text;
    },
  ],
  removesuffix: [
    '/suffix',
    (text, [suffix]) => {
      const affix = string(suffix ?? null, 'a suffix');
      return affix !== '' && text.endsWith(affix) ? text.slice(0, -affix.length) : text;
    },
  ],
  join: ['/iterable', (text, [items], effort) => joined(text, items, effort)],
  upper: ['', (text) => text.toUpperCase()],
  lower: ['', (text) => text.toLowerCase()],
  casefold: ['', (text) => (/[^\0-\x7f]/.test(text) ? fail('casefold outside ASCII') : text.toLowerCase())],
  title: ['', title],
  capitalize: ['', capitalize],
  swapcase: ['', swapCase],
  center: ['/width /fillchar?', (text, given, effort) => pad(text, given, 'both', effort)],
  ljust: ['/width /fillchar?', (text, given, effort) => pad(text, given, 'right', effort)],
  rjust: ['/width /fillchar?', (text, given, effort) => pad(text, given, 'left', effort)],
  zfill: ['/width', (text, [width], effort) => zeroFill(text, width, effort)],
  expandtabs: ['tabsize?', (text, [size], effort) => expandTabs(text, integer(size ?? 8n, 'a size of tabs'), effort)],
  encode: ['encoding? errors?', encode],
  isspace: ['', isSpace],
  isalpha: ['', every(/^\p{L}+$/u)],
  isalnum: ['', every(/^[\p{L}\p{N}]+$/u)],
  isascii: ['', (text) => /^[\0-\x7f]*$/.test(text)],
  isdecimal: ['', (text) => isDigits(text, 'decimal')],
  isdigit: ['', (text) => isDigits(text, 'digit')],
  isnumeric: ['', (text) => isDigits(text, 'numeric')],
  islower: ['', isLower],
  isupper: ['', isUpper],
  istitle: ['', isTitle],
  isidentifier: ['', every(/^[\p{XIDS}_]\p{XIDC}*$/u)],
  isprintable: ['', (text) => !/[\p{C}\p{Z}]/u.test(text.replaceAll(' ', ''))],
};

/** Those of Python that are not done here, for the sentence that says so. */
const NOT_DONE = /^(translate|maketrans|unescape|striptags|__html__|__html_format__)$/;

/** What of a safe text's arguments is escaped before the method has them. */
const ESCAPED: Readonly<Record<string, number>> = { replace: 1, ljust: 1, rjust: 1, center: 1 };

/** The method of that name, to be called; undefined: Python's str has none. */
export function textMethod(
  value: string | Markup,
  name: string,
  { effort, reach }: { readonly effort: Effort; readonly reach: FieldReach },
): ((given: Arguments) => PythonValue) | undefined {
  const text = plainText(value) ?? '';
  if (name === 'format' || name === 'format_map') {
    if (value instanceof Markup) return () => fail('format of a safe text');
    return (given) => formatFields(text, name === 'format' ? given : mapped(given), { effort, reach });
  }
  if (NOT_DONE.test(name)) return () => fail(`the method ${name} of texts`);
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  if (method === undefined) return undefined;
  const [parameters, apply] = method;
  return (given) => {
    effort.room(text.length);
    const values = bound(name, parameters, given);
    if (!(value instanceof Markup)) return apply(text, values, effort);
    const safe = values.map((item, place) =>
      item !== undefined && ESCAPED[name] === place ? escaped(item, effort).text : item,
    );
    if (name === 'join')
      return marked(
        joined(
          text,
          listOf(values[0] ?? null, effort).map((item) => escaped(item, effort)),
          effort,
        ),
      );
    return marked(apply(text, safe, effort));
  };
}

function mapped({ positional: [mapping, ...more], named }: Arguments): Arguments {
  if (!(mapping instanceof Dict) || more.length > 0 || named.size > 0) return fail('format_map wants one mapping');
  return { positional: [], named: new Map(mapping.entries().map(([key, value]) => [string(key, 'a key'), value])) };
}

function marked(value: PythonValue): PythonValue {
  if (typeof value === 'string') return new Markup(value);
  if (isList(value)) return value.map(marked);
  return value instanceof Tuple ? new Tuple(value.items.map(marked)) : value;
}
