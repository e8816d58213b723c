/** Python's two ways to write values into a text: `format` specifications and `%` conversions. */
import { asFloat, asInt, exponential, fixed, floatText, general, intText } from './numbers.ts';
import { ascii, repr, str } from './printing.ts';
import {
  type Arguments,
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
  PythonRange,
  type PythonValue,
  plainText,
  Tuple,
} from './values.ts';

interface Layout {
  readonly fill: string;
  readonly align: string;
  readonly sign: string;
  readonly alternate: boolean;
  readonly width: number;
  readonly grouping: string;
  readonly precision: number | null;
  readonly type: string;
}

const SPECIFICATION = /^(?:(.)?([<>=^]))?([-+ ]?)(z?)(#?)(0?)(\d*)([,_]?)(?:\.(\d+))?(.?)$/su;

/** `format(value, specification)`. */
export function format(value: PythonValue, specification: string, effort: Effort): string {
  if (specification === '') return str(value, effort);
  const text = plainText(value);
  if (text === null && !isNumeric(value)) {
    return fail(isUndefined(value) ? value.reason : `${describe(value)} has no format ${specification}`);
  }
  const found = SPECIFICATION.exec(specification) ?? fail(`the format ${specification} is none`);
  const [, fill, align, sign = '', z, alternate, zero, width = '', grouping = '', precision, type = ''] = found;
  if (z) fail('the format z');
  const layout = {
    fill: fill ?? (zero ? '0' : ' '),
    align: align ?? (zero && text === null ? '=' : text === null ? '>' : '<'),
    ...{ sign, alternate: alternate !== '', width: Number(width), grouping, type },
    precision: precision === undefined ? null : Number(precision),
  };
  effort.room(layout.width + (layout.precision ?? 0));
  if (text !== null) return formatText(text, layout);
  return isNumeric(value) ? formatNumber(value, layout) : fail('a number is no number');
}

function formatText(text: string, layout: Layout): string {
  if (layout.sign || layout.alternate || layout.grouping || layout.align === '=' || !['', 's'].includes(layout.type)) {
    fail('a text has no such format');
  }
  const shown = layout.precision === null ? text : characters(text).slice(0, layout.precision).join('');
  return padded('', shown, layout);
}

function formatNumber(value: bigint | number | boolean, layout: Layout): string {
  const { type } = layout;
  if (typeof value !== 'number' && (type === '' || 'bcdoxXn'.includes(type))) return formatInt(asInt(value), layout);
  if (type !== '' && !'eEfFgG%'.includes(type)) fail(`the format type ${type} of a number`);
  const number = asFloat(value);
  const sign = signOf(number < 0 || Object.is(number, -0), layout.sign);
  return padded(sign, grouped(floatDigits(number, layout), layout, sign), layout);
}

function formatInt(value: bigint, layout: Layout): string {
  if (layout.precision !== null) fail('a whole number has no precision');
  if (layout.type === 'c' || layout.type === 'n') fail(`the format type ${layout.type}`);
  const magnitude = value < 0n ? -value : value;
  const base = { b: 2, o: 8, x: 16, X: 16 }[layout.type] ?? 10;
  if (base === 10) intText(value);
  const digits = magnitude.toString(base);
  const prefix = layout.alternate && base !== 10 ? `0${layout.type}` : '';
  const sign = signOf(value < 0n, layout.sign) + prefix;
  return padded(sign, grouped(layout.type === 'X' ? digits.toUpperCase() : digits, layout, sign), layout);
}

const signOf = (negative: boolean, sign: string): string => (negative ? '-' : sign === '-' ? '' : sign);

/** |value| by the type of its format. */
function floatDigits(value: number, { type, precision, alternate }: Layout): string {
  if (alternate) fail('the format # of a float');
  const capital = type === 'E' || type === 'F' || type === 'G';
  const written = unsigned(value, type, precision);
  return capital ? written.toUpperCase() : written;
}

function unsigned(value: number, type: string, precision: number | null): string {
  if (!Number.isFinite(value)) return `${Number.isNaN(value) ? 'nan' : 'inf'}${type === '%' ? '%' : ''}`;
  if (type === '%') return `${fixed(value * 100, precision ?? 6)}%`;
  if (type === 'e' || type === 'E') return exponential(value, precision ?? 6).text;
  if (type === 'f' || type === 'F') return fixed(value, precision ?? 6);
  if (type === 'g' || type === 'G') return general(value, precision ?? 6);
  return precision === null ? floatText(Math.abs(value)) : general(value, precision, { point: true });
}

function grouped(digits: string, { grouping, type, fill, align, width }: Layout, sign: string): string {
  if (grouping === '') return digits;
  if (fill === '0' && align === '=' && width > digits.length + sign.length)
    fail('the format of groups filled with zeros');
  const size = grouping === '_' && 'boxX'.includes(type || '-') ? 4 : 3;
  const [, whole = '', rest = ''] = /^([0-9a-zA-Z]*?)((?:[.e%].*)?)$/s.exec(digits) ?? [];
  return whole.replace(new RegExp(`\\B(?=(?:.{${size}})+$)`, 'g'), grouping) + rest;
}

function padded(sign: string, body: string, { fill, align, width }: Pick<Layout, 'fill' | 'align' | 'width'>): string {
  const room = Math.max(0, width - characterCount(sign + body));
  if (align === '<') return sign + body + fill.repeat(room);
  if (align === '=') return sign + fill.repeat(room) + body;
  const left = align === '^' ? Math.floor(room / 2) : room;
  return fill.repeat(left) + sign + body + fill.repeat(room - left);
}

const CONVERSION = /%(?:\(((?:[^()]|\([^()]*\))*)\))?([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.?)/gsu;

/** `text % values`. */
export function percent(text: string, values: PythonValue, effort: Effort): string {
  const places = values instanceof Tuple ? [...values.items] : [values];
  let used = 0;
  let named = false;
  const next = (): PythonValue =>
    places[used++] ?? (used > places.length ? fail('too few values for the % of a text') : null);
  const result = text.replace(
    CONVERSION,
    (_, key: string | undefined, flags: string, width: string, digits: string | undefined, type: string) => {
      if (type === '%') return '%';
      if (key !== undefined) named = true;
      const size = width === '*' ? integer(next(), 'a width') : Number(width);
      const precision = digits === undefined ? null : digits === '*' ? integer(next(), 'a precision') : Number(digits);
      const value = key === undefined ? next() : valueOfKey(values, key);
      effort.room(Math.abs(size) + Math.abs(precision ?? 0));
      return converted(value, { flags, width: size, precision, type }, effort);
    },
  );
  const spares =
    named ||
    (!(values instanceof Tuple) &&
      (values instanceof Dict || isList(values) || values instanceof PythonRange || isUndefined(values)));
  if (used < places.length && !spares) fail('not all values are used by the % of a text');
  return effort.text(result);
}

function valueOfKey(values: PythonValue, key: string): PythonValue {
  if (!(values instanceof Dict)) return fail('the % of a text wants a mapping');
  return values.get(key) ?? (values.has(key) ? null : fail(`the % of a text wants the key ${key}`));
}

interface Conversion {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | null;
  readonly type: string;
}

function converted(value: PythonValue, { flags, width, precision, type }: Conversion, effort: Effort): string {
  const left = flags.includes('-') || width < 0;
  const align = left ? '<' : flags.includes('0') && !'sra'.includes(type || '-') ? '=' : '>';
  const layout = { fill: align === '=' ? '0' : ' ', align, width: Math.abs(width) };
  const pad = (sign: string, body: string): string => padded(sign, body, layout);
  if (type === 's' || type === 'r' || type === 'a') {
    const text = type === 's' ? str(value, effort) : type === 'r' ? repr(value, effort) : ascii(value, effort);
    return pad('', precision === null ? text : characters(text).slice(0, Math.max(0, precision)).join(''));
  }
  if (type === 'c') {
    const text = plainText(value);
    return text !== null && characterCount(text) === 1 ? pad('', text) : fail('%c of other than one character');
  }
  if (!'diueEfFgGxXo'.includes(type || '-')) fail(`the conversion %${type}`);
  if (isUndefined(value)) fail(value.reason);
  if (!isNumeric(value)) return fail(`%${type} of ${describe(value)}`);
  const sign = (negative: boolean): string =>
    signOf(negative, flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '');
  if ('diuxXo'.includes(type)) {
    if (typeof value === 'number' && !'diu'.includes(type)) fail(`%${type} of a float`);
    const whole = typeof value === 'number' ? truncated(value) : asInt(value);
    const base = { x: 16, X: 16, o: 8 }[type] ?? 10;
    const digits = (whole < 0n ? -whole : whole).toString(base).padStart(precision ?? 0, '0');
    const prefix = flags.includes('#') && base !== 10 ? `0${type}` : '';
    return pad(sign(whole < 0n) + prefix, type === 'X' ? digits.toUpperCase() : digits);
  }
  if (flags.includes('#')) fail('the flag # of a float');
  const number = asFloat(value);
  const written = unsigned(number, type, precision);
  return pad(sign(number < 0 || Object.is(number, -0)), type === type.toUpperCase() ? written.toUpperCase() : written);
}

/** `int` of a float: cut off at the point. */
export const truncated = (value: number): bigint =>
  Number.isFinite(value) ? BigInt(Math.trunc(value)) : fail('a float that is no number has no whole one');

/** How `format` reaches a field's parts: by the sandbox's rules. */
export interface FieldReach {
  attribute(of: PythonValue, name: string): PythonValue;
  item(of: PythonValue, key: PythonValue): PythonValue;
}

/** `text.format(…)`. */
export function formatFields(
  text: string,
  given: Arguments,
  { reach, effort }: { reach: FieldReach; effort: Effort },
): string {
  let automatic = 0;
  let numbered: boolean | null = null;
  const field = (expression: string): PythonValue => {
    const [, first = '', rest = ''] = /^([^.[]*)(.*)$/s.exec(expression) ?? [];
    if (first === '' || /^\d+$/.test(first)) {
      if (numbered !== null && numbered !== (first !== '')) fail('a format numbers some of its fields');
      numbered = first !== '';
    }
    const place = first === '' ? automatic++ : /^\d+$/.test(first) ? Number(first) : null;
    const value = place === null ? given.named.get(first) : given.positional[place];
    if (value === undefined) return fail(`a format wants a value for {${first}}`);
    return partOf(value, rest, reach);
  };
  const expand = (source: string, depth: number): string => {
    let result = '';
    for (let i = 0; i < source.length; i++) {
      const character = source.charAt(i);
      const twice = source.charAt(i + 1) === character;
      if ((character === '{' || character === '}') && twice && depth === 2) i++;
      else if (character === '{') {
        const end = closing(source, i);
        if (depth === 0) fail('a format is nested too deeply');
        const [, expression = '', conversion, specification = ''] =
          /^((?:[^!:[]|\[[^\]]*\])*)(?:!(.))?(?::(.*))?$/s.exec(source.slice(i + 1, end)) ??
          fail('a format has a field that is none');
        const value = field(expression);
        result += format(convert(value, conversion, effort), expand(specification, depth - 1), effort);
        i = end;
        continue;
      } else if (character === '}') fail('a format has a single }');
      result += character;
    }
    return result;
  };
  return effort.text(expand(text, 2));
}

/** The place of the brace that closes the one at `open`. */
function closing(text: string, open: number): number {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text.charAt(i) === '{') depth++;
    if (text.charAt(i) === '}' && --depth === 0) return i;
  }
  return fail('a format has a single {');
}

function convert(value: PythonValue, conversion: string | undefined, effort: Effort): PythonValue {
  if (conversion === undefined) return value;
  if (conversion === 's') return str(value, effort);
  if (conversion === 'r') return repr(value, effort);
  return conversion === 'a' ? ascii(value, effort) : fail(`the format's conversion !${conversion}`);
}

function partOf(value: PythonValue, rest: string, reach: FieldReach): PythonValue {
  let part = value;
  let left = rest;
  while (left !== '') {
    const [all, name, key] = /^(?:\.([^.[]+)|\[([^\]]+)\])/.exec(left) ?? fail('a format has a field that is none');
    part =
      name !== undefined
        ? reach.attribute(part, name)
        : reach.item(part, /^\d+$/.test(key ?? '') ? BigInt(key ?? 0) : (key ?? ''));
    left = left.slice(all.length);
  }
  return part;
}
