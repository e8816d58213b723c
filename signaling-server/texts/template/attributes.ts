/**
 * What stands behind a dot or in brackets, as Jinja2's immutable sandbox gives it: a dot asks for Python's attribute first
 * and for an item then, brackets the other way round; what could change a value, or begins with an underscore, is undefined.
 */
import { equal, str } from './printing.ts';
import { textMethod } from './textMethods.ts';
import {
  type Arguments,
  Bytes,
  bound,
  Callable,
  characters,
  Dict,
  DictView,
  describe,
  type Effort,
  Fielded,
  fail,
  GroupTuple,
  Instance,
  integer,
  isList,
  isUndefined,
  Markup,
  PythonIterator,
  PythonRange,
  type PythonValue,
  plainText,
  Tuple,
  typeName,
  Undefined,
} from './values.ts';

const CHANGES: Readonly<Record<string, readonly string[]>> = {
  list: ['append', 'clear', 'pop', 'reverse', 'insert', 'sort', 'extend', 'remove'],
  dict: ['clear', 'pop', 'popitem', 'setdefault', 'update'],
};

/** What Python's types have besides, and is not done here. */
const NOT_DONE: Readonly<Record<string, readonly string[]>> = {
  dict: ['fromkeys'],
  int: [
    'as_integer_ratio',
    'bit_count',
    'bit_length',
    'conjugate',
    'denominator',
    'from_bytes',
    'imag',
    'is_integer',
    'numerator',
    'real',
    'to_bytes',
  ],
  float: ['as_integer_ratio', 'conjugate', 'fromhex', 'hex', 'imag', 'real'],
  range: ['count', 'index', 'start', 'step', 'stop'],
  generator: ['close', 'gi_code', 'gi_frame', 'gi_running', 'gi_suspended', 'gi_yieldfrom', 'send', 'throw'],
  type: ['mro', 'fromkeys'],
  dict_keys: ['isdisjoint', 'mapping'],
  dict_items: ['isdisjoint', 'mapping'],
  dict_values: ['mapping'],
};

const method = (name: string, invoke: (given: Arguments) => PythonValue): Callable =>
  new Callable('builtin_function_or_method', name, invoke);

function dictAttribute(dict: Dict, name: string): PythonValue | undefined {
  if (name === 'keys' || name === 'values' || name === 'items') {
    return method(name, (given) => {
      bound(name, '', given);
      return new DictView(name, dict);
    });
  }
  if (name === 'copy') return method(name, () => dict);
  if (name !== 'get') return undefined;
  return method(name, (given) => {
    const [key, other] = bound(name, '/key /default?', given);
    const found = dict.get(key ?? null);
    return found === undefined ? (other ?? null) : found;
  });
}

function sequenceAttribute(items: readonly PythonValue[], name: string, effort: Effort): PythonValue | undefined {
  if (name === 'count') {
    return method(name, (given) => {
      const [sought] = bound(name, '/value', given);
      return BigInt(items.filter((item) => equal(item, sought ?? null, effort)).length);
    });
  }
  if (name !== 'index') return undefined;
  return method(name, (given) => {
    const [sought, from, to] = bound(name, '/value /start? /stop?', given);
    const place = (value: PythonValue | undefined, absent: number): number => {
      const index = value === undefined ? absent : integer(value, 'a place');
      return index < 0 ? Math.max(0, index + items.length) : index;
    };
    const end = place(to, items.length);
    for (let i = place(from, 0); i < Math.min(end, items.length); i++) {
      if (equal(items[i] ?? null, sought ?? null, effort)) return BigInt(i);
    }
    return fail('a value is not in a list');
  });
}

/** `getattr(value, name)`; undefined: Python has no such attribute. */
function attributeOf(value: PythonValue, name: string, effort: Effort): PythonValue | undefined {
  if (isUndefined(value)) return fail(value.reason);
  if (name.startsWith('__') && name.endsWith('__')) return unsafe(value, name);
  const type = typeName(value);
  if (CHANGES[type]?.includes(name)) return unsafe(value, name);
  if (NOT_DONE[type === 'bool' ? 'int' : type]?.includes(name))
    return fail(`the attribute ${name} of ${describe(value)}`);
  if (typeof value === 'string' || value instanceof Markup) {
    const found = textMethod(value, name, { effort, reach: reachOf(effort) });
    return found && method(name, found);
  }
  if (value instanceof Dict) return dictAttribute(value, name);
  if (value instanceof GroupTuple && (name === 'grouper' || name === 'list')) {
    return name === 'grouper' ? value.grouper : value.members;
  }
  if (isList(value)) {
    return name === 'copy' ? method(name, () => value) : sequenceAttribute(value, name, effort);
  }
  if (value instanceof Tuple) return sequenceAttribute(value.items, name, effort);
  if (value instanceof Fielded) {
    const found = value.field(name);
    return found !== undefined && name.startsWith('_') ? unsafe(value, name) : found;
  }
  if (typeof value === 'number' && name === 'is_integer') return method(name, () => Number.isInteger(value));
  if (value instanceof Bytes) return name === 'decode' ? method(name, () => decoded(value)) : fail('what bytes have');
  return undefined;
}

const decoded = (bytes: Bytes): string => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.data);

const unsafe = (value: PythonValue, name: string): Undefined =>
  new Undefined(`the attribute ${name} of ${describe(value)} is forbidden`);

/** `value[key]`; undefined: Python has no such item, or no items at all. */
function itemOf(value: PythonValue, key: PythonValue): PythonValue | undefined {
  if (isUndefined(value)) return fail(value.reason);
  if (value instanceof Dict) return isHashable(key) ? value.get(key) : undefined;
  if (typeof key !== 'bigint' && typeof key !== 'boolean') return undefined;
  const at = (length: number): number => (Number(key) < 0 ? Number(key) + length : Number(key));
  const text = plainText(value);
  if (text !== null) {
    const all = characters(text);
    const character = all[at(all.length)];
    return value instanceof Markup && character !== undefined ? new Markup(character) : character;
  }
  const items = itemsOf(value);
  if (items !== null) return items[at(items.length)];
  if (value instanceof PythonRange) {
    const index = at(value.length);
    return index >= 0 && index < value.length ? value.at(index) : undefined;
  }
  return value instanceof Bytes ? fail('an item of bytes') : undefined;
}

const isHashable = (key: PythonValue): boolean =>
  !(
    isList(key) ||
    key instanceof Dict ||
    key instanceof DictView ||
    (key instanceof Tuple && !key.items.every(isHashable))
  );

const itemsOf = (value: PythonValue): readonly PythonValue[] | null =>
  isList(value) ? value : value instanceof Tuple ? value.items : null;

const absent = (value: PythonValue, name: PythonValue, effort: Effort): Undefined =>
  new Undefined(`${describe(value)} has no ${typeof name === 'string' ? `'${name}'` : `item ${str(name, effort)}`}`);

/** `value.name`. */
export const attribute = (value: PythonValue, name: string, effort: Effort): PythonValue =>
  firstOf(
    () => attributeOf(value, name, effort),
    () => itemOf(value, name),
    () => absent(value, name, effort),
  );

/** The first that is there. */
function firstOf(...ways: readonly (() => PythonValue | undefined)[]): PythonValue {
  for (const way of ways) {
    const found = way();
    if (found !== undefined) return found;
  }
  return null;
}

/** `value[key]`. */
export function subscript(value: PythonValue, key: PythonValue, effort: Effort): PythonValue {
  const name = plainText(key);
  return firstOf(
    () => itemOf(value, key),
    () => (name === null ? undefined : attributeOf(value, name, effort)),
    () => absent(value, key, effort),
  );
}

/** The filter `attr`: only the attribute. */
export const onlyAttribute = (value: PythonValue, name: string, effort: Effort): PythonValue =>
  firstOf(
    () => attributeOf(value, name, effort),
    () => absent(value, name, effort),
  );

/** By which `format` reaches the parts of its fields. */
const reachOf = (effort: Effort) => ({
  attribute: (of: PythonValue, name: string) => attribute(of, name, effort),
  item: (of: PythonValue, key: PythonValue) => subscript(of, key, effort),
});

type Bound = PythonValue | null;

/** Where `[start:stop:step]` begins and ends among so many places. */
function sliceOf(
  [start, stop, step]: readonly [Bound, Bound, Bound],
  length: number,
): readonly [number, number, number] {
  const number = (value: Bound): number | null => {
    if (value === null) return null;
    return integer(isUndefined(value) ? fail(value.reason) : value, 'a place in a slice');
  };
  const stride = number(step) ?? 1;
  if (stride === 0) fail('the step of a slice is zero');
  const down = stride < 0;
  const clamp = (value: number): number => {
    const index = value < 0 ? value + length : value;
    return down ? Math.min(length - 1, Math.max(-1, index)) : Math.min(length, Math.max(0, index));
  };
  const [from, to] = [number(start), number(stop)];
  const first = from === null ? (down ? length - 1 : 0) : clamp(from);
  const end = to === null ? (down ? -1 : length) : clamp(to);
  return [first, end, stride];
}

function places(limits: readonly [Bound, Bound, Bound], length: number): number[] {
  const [first, end, stride] = sliceOf(limits, length);
  const found: number[] = [];
  for (let i = first; stride < 0 ? i > end : i < end; i += stride) found.push(i);
  return found;
}

/** `value[start:stop:step]`. */
export function slice(value: PythonValue, limits: readonly [Bound, Bound, Bound], effort: Effort): PythonValue {
  if (isUndefined(value)) return fail(value.reason);
  const text = plainText(value);
  if (text !== null) {
    const all = characters(text);
    const found = effort.text(
      places(limits, all.length)
        .map((place) => all[place])
        .join(''),
    );
    return value instanceof Markup ? new Markup(found) : found;
  }
  if (value instanceof PythonRange) {
    const [start, stop, step] = sliceOf(limits, value.length);
    return new PythonRange(value.at(start), value.at(stop), value.step * BigInt(step));
  }
  const items = itemsOf(value);
  if (items === null) return fail(`a slice of ${describe(value)}`);
  const chosen = places(limits, items.length).map((place) => items[place] ?? null);
  effort.step(chosen.length);
  return isList(value) ? chosen : new Tuple(chosen);
}

/** `callee(…)`. */
export function callValue(callee: PythonValue, given: Arguments): PythonValue {
  if (callee instanceof Callable) return callee.invoke(given);
  if (callee instanceof Fielded && callee.invoke !== undefined) return callee.invoke(given);
  if (isUndefined(callee)) return fail(callee.reason);
  return fail(`${describe(callee)} is called`);
}

export const isCallable = (value: PythonValue): boolean =>
  value instanceof Callable || isUndefined(value) || (value instanceof Fielded && value.invoke !== undefined);

/** Whether the test `sequence` holds: it has a length and items by place or key. */
export const isSequence = (value: PythonValue): boolean =>
  plainText(value) !== null ||
  itemsOf(value) !== null ||
  (value instanceof Instance && [Dict, PythonRange, Bytes, Undefined].some((type) => value instanceof type));

export const isStream = (value: PythonValue): value is PythonIterator => value instanceof PythonIterator;
