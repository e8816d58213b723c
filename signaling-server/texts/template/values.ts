/**
 * The values of a template's expressions, as Python has them. None is `null`, an int a bigint, a float a number, a str a
 * string of whole code points, a list an array that nothing changes; everything else is an instance of a class here.
 */

/** What Python would raise, or what is not done here; the renderer adds the line. */
export class TemplateFault extends Error {}

export function fail(reason: string): never {
  throw new TemplateFault(reason);
}

export type PythonValue = null | boolean | bigint | number | string | readonly PythonValue[] | Instance;

export abstract class Instance {
  /** The name of its Python type. */
  abstract readonly type: string;
}

const MOST_STEPS = 2_000_000;
const LONGEST_TEXT = 8 * 2 ** 20;

/** What a rendering has done so far, bounded, and the template's line that it is at. */
export class Effort {
  line = 1;
  private steps = 0;

  step(count = 1): void {
    this.steps += count;
    if (this.steps > MOST_STEPS) fail(`the template takes more than ${MOST_STEPS} steps`);
  }

  /** Called before a text of this length is made. */
  room(length: number): void {
    if (!(length <= LONGEST_TEXT)) fail(`a text is longer than ${LONGEST_TEXT} characters`);
    this.step(1 + Math.ceil(length / 64));
  }

  text(text: string): string {
    this.room(text.length);
    return text;
  }
}

export class Tuple extends Instance {
  readonly type: string = 'tuple';
  readonly items: readonly PythonValue[];

  constructor(items: readonly PythonValue[]) {
    super();
    this.items = items;
  }
}

/** What `groupby` gives: a tuple whose two places also have names. */
export class GroupTuple extends Tuple {
  override readonly type = '_GroupTuple';
  readonly grouper: PythonValue;
  readonly members: readonly PythonValue[];

  constructor(grouper: PythonValue, members: readonly PythonValue[]) {
    super([grouper, members]);
    this.grouper = grouper;
    this.members = members;
  }
}

/** A str that is marked as safe HTML: what is joined to it is escaped. */
export class Markup extends Instance {
  readonly type = 'Markup';
  readonly text: string;

  constructor(text: string) {
    super();
    this.text = text;
  }
}

export class Bytes extends Instance {
  readonly type = 'bytes';
  readonly data: Uint8Array;

  constructor(data: Uint8Array) {
    super();
    this.data = data;
  }
}

/** A name, attribute or item that is not there. It prints as nothing; `reason` is what any other use of it fails with. */
export class Undefined extends Instance {
  readonly type = 'Undefined';
  readonly reason: string;

  constructor(reason: string) {
    super();
    this.reason = reason;
  }
}

export class PythonRange extends Instance {
  readonly type = 'range';
  readonly length: number;
  readonly start: bigint;
  readonly stop: bigint;
  readonly step: bigint;

  constructor(start: bigint, stop: bigint, step: bigint) {
    super();
    this.start = start;
    this.stop = stop;
    this.step = step;
    const span = step > 0n ? stop - start : start - stop;
    const stride = step > 0n ? step : -step;
    this.length = span <= 0n ? 0 : Number((span + stride - 1n) / stride);
  }

  at(index: number): bigint {
    return this.start + BigInt(index) * this.step;
  }
}

/** A dict: in the order of insertion; 1, 1.0 and True are one key. */
export class Dict extends Instance {
  readonly type = 'dict';
  private readonly pairs = new Map<string, readonly [PythonValue, PythonValue]>();

  constructor(entries: Iterable<readonly [PythonValue, PythonValue]> = []) {
    super();
    for (const [key, value] of entries) {
      const hash = keyHash(key);
      this.pairs.set(hash, [this.pairs.get(hash)?.[0] ?? key, value]);
    }
  }

  get size(): number {
    return this.pairs.size;
  }

  get(key: PythonValue): PythonValue | undefined {
    return this.pairs.get(keyHash(key))?.[1];
  }

  has(key: PythonValue): boolean {
    return this.pairs.has(keyHash(key));
  }

  entries(): (readonly [PythonValue, PythonValue])[] {
    return [...this.pairs.values()];
  }
}

/** What `keys()`, `values()` and `items()` of a dict give. */
export class DictView extends Instance {
  readonly type: string;
  readonly kind: 'keys' | 'values' | 'items';
  readonly dict: Dict;

  constructor(kind: 'keys' | 'values' | 'items', dict: Dict) {
    super();
    this.kind = kind;
    this.dict = dict;
    this.type = `dict_${kind}`;
  }

  list(): PythonValue[] {
    return this.dict
      .entries()
      .map(([key, value]) => (this.kind === 'keys' ? key : this.kind === 'values' ? value : new Tuple([key, value])));
  }
}

/** An iterator of Python: it goes once over what it has, as it is asked. */
export class PythonIterator extends Instance {
  readonly type: string;
  readonly iterator: Iterator<PythonValue>;

  constructor(type: string, iterator: Iterator<PythonValue>) {
    super();
    this.type = type;
    this.iterator = iterator;
  }
}

export interface Arguments {
  readonly positional: readonly PythonValue[];
  readonly named: ReadonlyMap<string, PythonValue>;
}

export class Callable extends Instance {
  readonly type: string;
  readonly name: string;
  readonly invoke: (given: Arguments) => PythonValue;

  constructor(type: string, name: string, invoke: (given: Arguments) => PythonValue) {
    super();
    this.type = type;
    this.name = name;
    this.invoke = invoke;
  }
}

/** An object with fields that a template may read: `loop`, a namespace, a macro, a cycler, a joiner. */
export abstract class Fielded extends Instance {
  /** undefined: there is no such field. */
  abstract field(name: string): PythonValue | undefined;
  /** What it prints as. */
  abstract print(effort: Effort): string;
  /** undefined: it cannot be called. */
  invoke?(given: Arguments): PythonValue;
  /** null: it has none. */
  count?(): bigint;
}

export class Namespace extends Fielded {
  readonly type = 'Namespace';
  private readonly fields = new Map<string, PythonValue>();

  private readonly printDict: (dict: Dict, effort: Effort) => string;

  constructor(
    entries: Iterable<readonly [PythonValue, PythonValue]>,
    printDict: (dict: Dict, effort: Effort) => string,
  ) {
    super();
    this.printDict = printDict;
    for (const [name, value] of entries) this.set(typeof name === 'string' ? name : fail('a name is no text'), value);
  }

  set(name: string, value: PythonValue): void {
    this.fields.set(name, value);
  }

  field(name: string): PythonValue | undefined {
    return this.fields.get(name);
  }

  print(effort: Effort): string {
    return `<Namespace ${this.printDict(new Dict(this.fields), effort)}>`;
  }
}

const identities = new WeakMap<object, number>();
let lastIdentity = 0;
const LONGEST_KEY = 1 << 20;

/** Equal for equal keys, and only for these. */
export function keyHash(key: PythonValue): string {
  if (key === null) return 'n';
  if (typeof key === 'string') return `s${key}`;
  if (key instanceof Markup) return `s${key.text}`;
  if (typeof key === 'boolean') return key ? 'i1' : 'i0';
  if (typeof key === 'bigint') return `i${key}`;
  if (typeof key === 'number') return Number.isInteger(key) ? `i${BigInt(key)}` : `f${key}`;
  if (key instanceof Tuple) {
    const parts = key.items.map((item) => keyHash(item));
    const hash = `t${parts.map((part) => `${part.length}:${part}`).join('')}`;
    return hash.length > LONGEST_KEY ? fail('a key is too long') : hash;
  }
  if (isList(key) || key instanceof Dict || key instanceof DictView || key instanceof Bytes) {
    fail(`${describe(key)} cannot be a key`);
  }
  if (key instanceof Undefined) return 'u';
  if (key instanceof PythonRange) {
    const { length, start, step } = key;
    return `r${length}:${length > 0 ? start : ''}:${length > 1 ? step : ''}`;
  }
  const identity = identities.get(key) ?? ++lastIdentity;
  identities.set(key, identity);
  return `o${identity}`;
}

export const isList = (value: PythonValue): value is readonly PythonValue[] => Array.isArray(value);
export const isUndefined = (value: PythonValue): value is Undefined => value instanceof Undefined;
export const isNumeric = (value: PythonValue): value is bigint | number | boolean =>
  typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean';

/** The text of a str, marked as safe or not; null of anything else. */
export const plainText = (value: PythonValue): string | null =>
  typeof value === 'string' ? value : value instanceof Markup ? value.text : null;

export function typeName(value: PythonValue): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'bigint') return 'int';
  if (typeof value === 'number') return 'float';
  if (typeof value === 'string') return 'str';
  return isList(value) ? 'list' : value.type;
}

/** For sentences. */
export const describe = (value: PythonValue): string =>
  value === null ? 'none' : `a value of type ${typeName(value)}`;

export function truth(value: PythonValue): boolean {
  if (value === null || isUndefined(value)) return false;
  if (value instanceof Markup) return value.text !== '';
  if (value instanceof Instance) return lengthOf(value) !== 0;
  if (isList(value)) return value.length > 0;
  return typeof value === 'number' ? value !== 0 : Boolean(value);
}

const LONE = /[\ud800-\udfff]/;
/** The code points of a text, each as a text. */
export const characters = (text: string): string[] => (LONE.test(text) ? Array.from(text) : text.split(''));
export const characterCount = (text: string): number => (LONE.test(text) ? Array.from(text).length : text.length);

/** `len(value)`; null: it has none. */
export function lengthOf(value: PythonValue): number | null {
  const text = plainText(value);
  if (text !== null) return characterCount(text);
  if (isList(value)) return value.length;
  if (value instanceof Tuple) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof DictView) return value.dict.size;
  if (value instanceof PythonRange) return value.length;
  if (value instanceof Bytes) return value.data.length;
  if (isUndefined(value)) return 0;
  if (value instanceof Fielded && value.count !== undefined) return Number(value.count());
  return null;
}

function* rangeItems(range: PythonRange): Iterator<PythonValue> {
  for (let i = 0; i < range.length; i++) yield range.at(i);
}

/** `iter(value)`; null: it cannot be gone over. */
export function iterator(value: PythonValue): Iterator<PythonValue> | null {
  const text = plainText(value);
  if (text !== null) return characters(text).values();
  if (isList(value)) return value.values();
  if (value instanceof Tuple) return value.items.values();
  if (value instanceof Dict) return new DictView('keys', value).list().values();
  if (value instanceof DictView) return value.list().values();
  if (value instanceof PythonRange) return rangeItems(value);
  if (value instanceof Bytes) return [...value.data].map(BigInt).values();
  if (value instanceof PythonIterator) return value.iterator;
  return isUndefined(value) ? [].values() : null;
}

export const iterate = (value: PythonValue): Iterator<PythonValue> =>
  iterator(value) ?? fail(`${describe(value)} cannot be gone over`);

/** `list(value)`. */
export function listOf(value: PythonValue, effort: Effort): PythonValue[] {
  const items: PythonValue[] = [];
  const from = iterate(value);
  for (let next = from.next(); !next.done; next = from.next()) {
    effort.step();
    items.push(next.value);
  }
  return items;
}

/** The places and names of a call in the parameters' order: `name` must be given, `name?` may be, `/name` only by its place. */
export function bound(
  callee: string,
  parameters: string,
  { positional, named }: Arguments,
): readonly (PythonValue | undefined)[] {
  const all = parameters === '' ? [] : parameters.split(' ');
  if (positional.length > all.length) fail(`${callee} takes ${all.length} arguments, not ${positional.length}`);
  let used = 0;
  const values = all.map((parameter, place) => {
    const name = parameter.replace(/[/?]/g, '');
    const byName = parameter.startsWith('/') ? undefined : named.get(name);
    if (byName !== undefined) used++;
    if (byName !== undefined && place < positional.length) fail(`${callee} is given ${name} twice`);
    const value = byName === undefined ? positional[place] : byName;
    if (value === undefined && !parameter.endsWith('?')) fail(`${callee} is not given ${name}`);
    return value;
  });
  if (used < named.size) {
    const names = all.filter((parameter) => !parameter.startsWith('/')).map((parameter) => parameter.replace('?', ''));
    fail(`${callee} takes no argument named ${[...named.keys()].find((name) => !names.includes(name))}`);
  }
  return values;
}

/** `int` where Python wants an index or a count: a bool is one. */
export function integer(value: PythonValue | undefined, what: string): number {
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'bigint') return fail(`${what} is no whole number`);
  return Number(value);
}

export const string = (value: PythonValue, what: string): string => plainText(value) ?? fail(`${what} is no text`);
