/** `str` and `repr` of values, and when they are equal, ordered or within each other, as Python has it. */
import { asInt, floatText, intText } from './numbers.ts';
import {
  Bytes,
  Callable,
  characters,
  Dict,
  DictView,
  describe,
  type Effort,
  Fielded,
  fail,
  isList,
  isNumeric,
  isUndefined,
  iterate,
  Markup,
  PythonRange,
  type PythonValue,
  plainText,
  Tuple,
} from './values.ts';

/** `str(value)`. */
export function str(value: PythonValue, effort: Effort): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  return isUndefined(value) ? '' : effort.text(repr(value, effort));
}

/** `repr(value)`. */
export function repr(value: PythonValue, effort: Effort): string {
  effort.step();
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return intText(value);
  if (typeof value === 'number') return floatText(value);
  if (typeof value === 'string') return effort.text(quoted(value));
  const each = (items: readonly PythonValue[]): string =>
    effort.text(items.map((item) => repr(item, effort)).join(', '));
  if (isList(value)) return `[${each(value)}]`;
  if (value instanceof Tuple) return value.items.length === 1 ? `(${each(value.items)},)` : `(${each(value.items)})`;
  if (value instanceof Dict) return dictText(value, effort);
  if (value instanceof DictView) return `${value.type}([${each(value.list())}])`;
  if (value instanceof Markup) return `Markup(${quoted(value.text)})`;
  if (value instanceof Bytes) return bytesText(value.data);
  if (value instanceof PythonRange) {
    return `range(${value.start}, ${value.stop}${value.step === 1n ? '' : `, ${value.step}`})`;
  }
  if (value instanceof Fielded) return value.print(effort);
  if (isUndefined(value)) return 'Undefined';
  if (value instanceof Callable && value.type === 'type') return `<class '${value.name}'>`;
  return fail(`${describe(value)} prints as an address in memory`);
}

export const dictText = (dict: Dict, effort: Effort): string =>
  effort.text(
    `{${dict
      .entries()
      .map(([key, item]) => `${repr(key, effort)}: ${repr(item, effort)}`)
      .join(', ')}}`,
  );

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' };
const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

/** What Python's `isprintable` is false of, and a quotation mark or backslash. */
const isPrintable = (character: string): boolean => character === ' ' || !/[\p{C}\p{Z}]/u.test(character);

const quoteOf = (text: string): string => (text.includes("'") && !text.includes('"') ? '"' : "'");

function quoted(text: string): string {
  const quote = quoteOf(text);
  const inner = characters(text).map((character) => {
    const known = ESCAPES[character];
    if (known !== undefined) return known;
    if (character === quote) return `\\${character}`;
    if (isPrintable(character)) return character;
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${hex(code, 2)}` : code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  });
  return quote + inner.join('') + quote;
}

function bytesText(data: Uint8Array): string {
  const text = String.fromCharCode(...data);
  const quote = quoteOf(text);
  const inner = Array.from(text, (character) => {
    if (character === quote) return `\\${character}`;
    const code = character.charCodeAt(0);
    return ESCAPES[character] ?? (code < 0x20 || code > 0x7e ? `\\x${hex(code, 2)}` : character);
  });
  return `b${quote}${inner.join('')}${quote}`;
}

/** `ascii(value)`: its `repr` with everything else escaped. */
export const ascii = (value: PythonValue, effort: Effort): string =>
  repr(value, effort).replace(/[^\0-\x7f]/gu, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${hex(code, 2)}` : code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
  });

/** `a == b`. */
export function equal(a: PythonValue, b: PythonValue, effort: Effort): boolean {
  effort.step();
  const [text, other] = [plainText(a), plainText(b)];
  if (text !== null || other !== null) return text === other;
  if (isNumeric(a) && isNumeric(b)) return numericOrder(a, b) === 0;
  if (isList(a) && isList(b)) return equalItems(a, b, effort);
  if (a instanceof Tuple && b instanceof Tuple) return equalItems(a.items, b.items, effort);
  if (a instanceof Dict && b instanceof Dict) {
    if (a === b) return true;
    return (
      a.size === b.size &&
      a.entries().every(([key, value]) => {
        const found = b.get(key);
        return found !== undefined && equal(value, found, effort);
      })
    );
  }
  if (isUndefined(a)) return isUndefined(b);
  if (a instanceof PythonRange && b instanceof PythonRange) {
    return a.length === b.length && (a.length === 0 || (a.start === b.start && (a.length === 1 || a.step === b.step)));
  }
  if (a instanceof DictView && b instanceof DictView && a !== b && (a.kind !== 'values' || b.kind !== 'values')) {
    return fail('views of dicts are compared');
  }
  if (a instanceof Bytes && b instanceof Bytes) return bytesText(a.data) === bytesText(b.data);
  return a === b;
}

const equalItems = (a: readonly PythonValue[], b: readonly PythonValue[], effort: Effort): boolean =>
  a === b || (a.length === b.length && a.every((item, i) => equal(item, b[i] ?? null, effort)));

/** Below 0, 0, above 0; NaN where one of the numbers is none. */
function numericOrder(a: bigint | number | boolean, b: bigint | number | boolean): number {
  const x = typeof a === 'boolean' ? asInt(a) : a;
  const y = typeof b === 'boolean' ? asInt(b) : b;
  return x < y ? -1 : x > y ? 1 : x === y || Number(x) === Number(y) ? 0 : Number.NaN;
}

/** Texts by their code points: those of two halves come after all others. */
function textOrder(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    const place = (code: number): number => (code >= 0xd800 && code < 0xe000 ? code + 0x10000 : code);
    return place(x) - place(y);
  }
  return a.length - b.length;
}

/** The sign says how they are ordered; NaN: neither before the other. Fails where Python has no order for them. */
export function order(a: PythonValue, b: PythonValue, effort: Effort): number {
  effort.step();
  const [text, other] = [plainText(a), plainText(b)];
  if (text !== null && other !== null) return textOrder(text, other);
  if (isNumeric(a) && isNumeric(b)) return numericOrder(a, b);
  if (isList(a) && isList(b)) return itemOrder(a, b, effort);
  if (a instanceof Tuple && b instanceof Tuple) return itemOrder(a.items, b.items, effort);
  for (const side of [a, b]) if (isUndefined(side)) fail(side.reason);
  return fail(`${describe(a)} has no order with ${describe(b)}`);
}

function itemOrder(a: readonly PythonValue[], b: readonly PythonValue[], effort: Effort): number {
  for (const [i, item] of a.entries()) {
    const other = b[i];
    if (other === undefined) return 1;
    if (!equal(item, other, effort)) return order(item, other, effort);
  }
  return a.length - b.length;
}

/** `item in container`. */
export function contains(container: PythonValue, item: PythonValue, effort: Effort): boolean {
  const text = plainText(container);
  if (text !== null) {
    effort.room(text.length);
    return text.includes(plainText(item) ?? fail(isUndefined(item) ? item.reason : `${describe(item)} in a text`));
  }
  if (container instanceof Dict) return container.has(item);
  if (container instanceof DictView && container.kind === 'keys') return container.dict.has(item);
  if (container instanceof Bytes) return fail('what bytes contain');
  const items = iterate(container);
  for (let next = items.next(); !next.done; next = items.next()) if (equal(next.value, item, effort)) return true;
  return false;
}

/** `sorted`: what is equal stays in its order, also in reverse. */
export function sortedBy<T>(
  items: readonly T[],
  keyOf: (item: T) => PythonValue,
  { reverse, effort }: { readonly reverse: boolean; readonly effort: Effort },
): T[] {
  const keyed = items.map((item) => ({ item, key: keyOf(item) }));
  const sign = reverse ? -1 : 1;
  return keyed.sort((a, b) => sign * order(a.key, b.key, effort)).map(({ item }) => item);
}
