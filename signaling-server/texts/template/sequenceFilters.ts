/** The filters that go over items. As in Python many of them do so only when they are asked for the next one. */
import { subscript } from './attributes.ts';
import { calculate } from './numbers.ts';
import { equal, order, sortedBy, str } from './printing.ts';
import type { PlainFilter } from './textFilters.ts';
import {
  type Arguments,
  bound,
  characters,
  Dict,
  DictView,
  describe,
  type Effort,
  fail,
  GroupTuple,
  Instance,
  integer,
  isList,
  isNumeric,
  isUndefined,
  iterate,
  keyHash,
  lengthOf,
  listOf,
  Markup,
  PythonIterator,
  PythonRange,
  type PythonValue,
  plainText,
  string,
  Tuple,
  truth,
  Undefined,
} from './values.ts';

type Given = readonly (PythonValue | undefined)[];

const given = (value: PythonValue | undefined): PythonValue => value ?? null;
const generator = (items: Iterator<PythonValue>): PythonIterator => new PythonIterator('generator', items);

/** The items of an iterator, each one a step. */
function* each(value: PythonValue, effort: Effort): Generator<PythonValue, undefined> {
  const items = iterate(value);
  for (let next = items.next(); !next.done; next = items.next()) {
    effort.step();
    yield next.value;
  }
}

/** The way to a part of an item, `a.b.0`; the item itself where there is none. */
function partGetter(
  path: PythonValue,
  { fallback = null, effort }: { readonly fallback?: PythonValue; readonly effort: Effort },
): (item: PythonValue) => PythonValue {
  const text = plainText(path);
  const parts: readonly PythonValue[] =
    path === null
      ? []
      : text === null
        ? [path]
        : text.split('.').map((part) => (/^\d+$/.test(part) ? BigInt(part) : part));
  return (item) =>
    parts.reduce<PythonValue>((value, part) => {
      const found = subscript(value, part, effort);
      return fallback !== null && isUndefined(found) ? fallback : found;
    }, item);
}

/** Without regard to case, unless it counts. */
function folding(caseSensitive: PythonValue | undefined): (value: PythonValue) => PythonValue {
  if (truth(caseSensitive ?? false)) return (value) => value;
  return (value) => plainText(value)?.toLowerCase() ?? value;
}

function sort([value, reverse, caseSensitive, attribute]: Given, effort: Effort): PythonValue {
  const path = given(attribute);
  const text = plainText(path);
  const getters = (text === null ? [path] : text.split(',')).map((one) => partGetter(one, { effort }));
  const fold = folding(caseSensitive);
  return sortedBy(listOf(given(value), effort), (item) => getters.map((getter) => fold(getter(item))), {
    reverse: truth(reverse ?? false),
    effort,
  });
}

function dictSort([value, caseSensitive, by = 'key', reverse]: Given, effort: Effort): PythonValue {
  if (by !== 'key' && by !== 'value') return fail('dictsort goes by key or value');
  if (value instanceof Undefined) return fail(value.reason);
  if (!(value instanceof Dict)) return fail('dictsort of no mapping');
  const fold = folding(caseSensitive);
  const pairs = value.entries().map((pair) => new Tuple(pair));
  return sortedBy(pairs, ({ items: [key, item] }) => fold(given(by === 'key' ? key : item)), {
    reverse: truth(reverse ?? false),
    effort,
  });
}

function unique([value, caseSensitive, attribute]: Given, effort: Effort): PythonValue {
  function* found(): Generator<PythonValue, undefined> {
    const getter = partGetter(given(attribute), { effort });
    const fold = folding(caseSensitive);
    const seen = new Set<string>();
    for (const item of each(given(value), effort)) {
      const key = keyHash(fold(getter(item)));
      if (seen.has(key)) continue;
      seen.add(key);
      yield item;
    }
  }
  return generator(found());
}

/** Of equals the first, as Python's `min` and `max` take it. */
function extreme(sign: number): PlainFilter {
  return [
    'value case_sensitive? attribute?',
    ([value, caseSensitive, attribute], effort) => {
      const items = listOf(given(value), effort);
      const getter = partGetter(given(attribute), { effort });
      const fold = folding(caseSensitive);
      const [first, ...rest] = items.map((item) => ({ item, key: fold(getter(item)) }));
      if (first === undefined) return new Undefined('there is no least or greatest of nothing');
      return rest.reduce((best, one) => (sign * order(one.key, best.key, effort) > 0 ? one : best), first).item;
    },
  ];
}

function groupBy([value, attribute, fallback, caseSensitive]: Given, effort: Effort): PythonValue {
  const getter = partGetter(given(attribute), { fallback: given(fallback), effort });
  const fold = folding(caseSensitive);
  const key = (item: PythonValue): PythonValue => fold(getter(item));
  const groups: { key: PythonValue; members: PythonValue[] }[] = [];
  for (const item of sortedBy(listOf(given(value), effort), key, { reverse: false, effort })) {
    const last = groups.at(-1);
    if (last !== undefined && equal(last.key, key(item), effort)) last.members.push(item);
    else groups.push({ key: key(item), members: [item] });
  }
  return groups.map(({ members }) => new GroupTuple(getter(given(members[0])), members));
}

function join([value, separator = '', attribute]: Given, effort: Effort): PythonValue {
  const getter = partGetter(given(attribute), { effort });
  const texts = listOf(given(value), effort).map((item) => effort.text(str(getter(item), effort)));
  const between = str(separator, effort);
  effort.room(between.length * texts.length);
  return effort.text(texts.join(between));
}

function sum([value, attribute, start = 0n]: Given, effort: Effort): PythonValue {
  const getter = partGetter(given(attribute), { effort });
  if (plainText(start) !== null) fail('sum of texts');
  let total = start;
  for (const one of each(given(value), effort)) total = addedTo(total, getter(one), effort);
  return total;
}

function addedTo(total: PythonValue, item: PythonValue, effort: Effort): PythonValue {
  for (const side of [total, item]) if (isUndefined(side)) return fail(side.reason);
  if (isNumeric(total) && isNumeric(item)) return calculate('+', total, item);
  effort.step(lengthOf(total) ?? 0);
  if (isList(total) && isList(item)) return [...total, ...item];
  if (total instanceof Tuple && item instanceof Tuple) return new Tuple([...total.items, ...item.items]);
  return fail(`the sum of ${describe(total)} and ${describe(item)}`);
}

function batch([value, count, filling]: Given, effort: Effort): PythonValue {
  const size = given(count);
  function* found(): Generator<PythonValue, undefined> {
    let items: PythonValue[] = [];
    for (const item of each(given(value), effort)) {
      if (isNumeric(size) && items.length === Number(size)) {
        yield items;
        items = [];
      }
      items.push(item);
    }
    if (items.length === 0) return;
    if (filling !== undefined && filling !== null) {
      const room = Math.max(0, integer(size, 'a size') - items.length);
      effort.step(room);
      items.push(...Array.from({ length: room }, () => filling));
    }
    yield items;
  }
  return generator(found());
}

function slices([value, count, filling]: Given, effort: Effort): PythonValue {
  function* found(): Generator<PythonValue, undefined> {
    const items = listOf(given(value), effort);
    const parts = integer(count, 'a number of slices');
    if (parts === 0) fail('a number is divided by zero');
    const size = Math.floor(items.length / parts);
    const larger = items.length - size * parts;
    let from = 0;
    for (let i = 0; i < parts; i++) {
      effort.step();
      const to = from + size + (i < larger ? 1 : 0);
      const part = items.slice(from, to);
      yield filling !== undefined && filling !== null && i >= larger ? [...part, filling] : part;
      from = to;
    }
  }
  return generator(found());
}

function reverse([value]: Given, effort: Effort): PythonValue {
  const item = given(value);
  const text = plainText(item);
  if (text !== null) {
    const turned = effort.text(characters(text).reverse().join(''));
    return item instanceof Markup ? new Markup(turned) : turned;
  }
  const turned = listOf(item, effort).reverse();
  const isIterator = isList(item) || (item instanceof Instance && !(item instanceof PythonIterator));
  return isIterator ? new PythonIterator('reversed', turned.values()) : turned;
}

function last([value]: Given, effort: Effort): PythonValue {
  const item = given(value);
  const isReversible =
    plainText(item) !== null ||
    isList(item) ||
    [Tuple, Dict, DictView, PythonRange, Undefined].some((type) => item instanceof type);
  if (!isReversible) return fail(`the last item of ${describe(item)}`);
  return listOf(item, effort).at(-1) ?? new Undefined('there is no last item of nothing');
}

export const SEQUENCE_FILTERS: Readonly<Record<string, PlainFilter>> = {
  batch: ['value linecount fill_with?', batch],
  default: ['value default_value? boolean?', byDefault],
  d: ['value default_value? boolean?', byDefault],
  dictsort: ['value case_sensitive? by? reverse?', dictSort],
  first: [
    'seq',
    ([value]) => {
      const next = iterate(given(value)).next();
      return next.done ? new Undefined('there is no first item of nothing') : next.value;
    },
  ],
  groupby: ['value attribute default? case_sensitive?', groupBy],
  items: ['value', items],
  join: ['value d? attribute?', join],
  last: ['seq', last],
  length: ['/value', count],
  count: ['/value', count],
  list: ['value', ([value], effort) => listOf(given(value), effort)],
  max: extreme(1),
  min: extreme(-1),
  reverse: ['value', reverse],
  slice: ['value slices fill_with?', slices],
  sort: ['value reverse? case_sensitive? attribute?', sort],
  sum: ['iterable attribute? start?', sum],
  unique: ['value case_sensitive? attribute?', unique],
};

function byDefault([value, other = '', also]: Given): PythonValue {
  const item = given(value);
  return isUndefined(item) || (truth(also ?? false) && !truth(item)) ? other : item;
}

function count([value]: Given): PythonValue {
  return BigInt(lengthOf(given(value)) ?? fail(`the length of ${describe(given(value))}`));
}

function items([value]: Given): PythonValue {
  function* found(): Generator<PythonValue, undefined> {
    if (isUndefined(given(value))) return;
    if (!(value instanceof Dict)) return fail(`the items of ${describe(given(value))}`);
    yield* new DictView('items', value).list();
  }
  return generator(found());
}

/** How `map` and `select` reach other filters and tests. */
export interface Others {
  filter(name: string, given: Arguments): PythonValue;
  holds(name: string, given: Arguments): boolean;
}

const rest = (positional: readonly PythonValue[], from: number, named: Arguments['named'] = new Map()) => ({
  of: (item: PythonValue): Arguments => ({ positional: [item, ...positional.slice(from)], named }),
});

/** The filter `map`: of each item a part, or what a filter makes of it. */
export function mapFilter({ positional, named }: Arguments, others: Others, effort: Effort): PythonValue {
  const [value = null, name] = positional;
  const mapping = (): ((item: PythonValue) => PythonValue) => {
    if (name === undefined && named.has('attribute')) {
      const [attribute, fallback] = bound('map', 'attribute default?', { positional: [], named });
      return partGetter(given(attribute), { fallback: given(fallback), effort });
    }
    const filter = string(name ?? fail('map is given no filter'), 'the name of a filter');
    return (item) => others.filter(filter, rest(positional, 2, named).of(item));
  };
  function* found(): Generator<PythonValue, undefined> {
    if (!truth(value)) return;
    const apply = mapping();
    for (const item of each(value, effort)) yield apply(item);
  }
  return generator(found());
}

/** The filters `select`, `reject`, `selectattr` and `rejectattr`. */
export function selectFilter(
  { positional, named }: Arguments,
  { byPart, keep, others, effort }: { byPart: boolean; keep: boolean; others: Others; effort: Effort },
): PythonValue {
  const [value = null, ...more] = positional;
  const place = byPart ? 1 : 0;
  function* found(): Generator<PythonValue, undefined> {
    if (!truth(value)) return;
    const path = byPart ? (more[0] ?? fail('a selection is given no attribute')) : null;
    const getter = partGetter(path, { effort });
    const name = more[place];
    for (const item of each(value, effort)) {
      const part = getter(item);
      const test =
        name === undefined
          ? truth(part)
          : others.holds(string(name, 'the name of a test'), rest(more, place + 1, named).of(part));
      if (test === keep) yield item;
    }
  }
  return generator(found());
}
