/** The tests behind `is`. */
import { isCallable, isSequence } from './attributes.ts';
import { isLower, isUpper } from './casing.ts';
import { asFloat, calculate } from './numbers.ts';
import { contains, equal, order, str } from './printing.ts';
import {
  type Arguments,
  bound,
  Dict,
  describe,
  type Effort,
  fail,
  Instance,
  isList,
  isNumeric,
  isUndefined,
  iterator,
  Markup,
  type PythonValue,
  plainText,
  string,
} from './values.ts';

type Predicate = readonly [
  parameters: string,
  holds: (value: PythonValue, other: PythonValue, effort: Effort) => boolean,
];

function remainder(value: PythonValue, by: PythonValue): bigint | number {
  for (const side of [value, by]) if (isUndefined(side)) fail(side.reason);
  if (!isNumeric(value) || !isNumeric(by)) return fail(`the remainder of ${describe(isNumeric(value) ? by : value)}`);
  return calculate('%', value, by);
}

/** `is` of Python. Which numbers and texts are one object is its own affair: equal ones are refused. */
function same(value: PythonValue, other: PythonValue, effort: Effort): boolean {
  if (value === null || other === null || typeof value === 'boolean' || typeof other === 'boolean')
    return value === other;
  if (typeof value === 'bigint' && typeof other === 'bigint' && value >= -5n && value <= 256n) return value === other;
  if (isUndefined(value) || isUndefined(other)) return value === other;
  if ((value instanceof Instance && !(value instanceof Markup)) || isList(value)) return value === other;
  return typeof value === typeof other && equal(value, other, effort) ? fail('whether equal values are one') : false;
}

const compared = (holds: (order: number) => boolean): Predicate => [
  'value other',
  (value, other, effort) => holds(order(value, other, effort)),
];
const EQUAL: Predicate = ['value other', equal];
const UNEQUAL: Predicate = ['value other', (value, other, effort) => !equal(value, other, effort)];
const LESS = compared((by) => by < 0);
const AT_MOST = compared((by) => by <= 0);
const GREATER = compared((by) => by > 0);
const AT_LEAST = compared((by) => by >= 0);
const only = (holds: (value: PythonValue, effort: Effort) => boolean): Predicate => [
  'value',
  (value, _, effort) => holds(value, effort),
];

const isOne = (value: bigint | number, one: number): boolean => asFloat(value) === one;

const PREDICATES: Readonly<Record<string, Predicate>> = {
  odd: only((value) => isOne(remainder(value, 2n), 1)),
  even: only((value) => isOne(remainder(value, 2n), 0)),
  divisibleby: ['value num', (value, by) => isOne(remainder(value, by), 0)],
  defined: only((value) => !isUndefined(value)),
  undefined: only(isUndefined),
  none: only((value) => value === null),
  boolean: only((value) => typeof value === 'boolean'),
  false: only((value) => value === false),
  true: only((value) => value === true),
  integer: only((value) => typeof value === 'bigint'),
  float: only((value) => typeof value === 'number'),
  number: only(isNumeric),
  string: only((value) => plainText(value) !== null),
  lower: only((value, effort) => isLower(str(value, effort))),
  upper: only((value, effort) => isUpper(str(value, effort))),
  mapping: only((value) => value instanceof Dict),
  sequence: only(isSequence),
  iterable: only((value) => iterator(value) !== null),
  callable: only(isCallable),
  escaped: only((value) => value instanceof Markup),
  sameas: ['value other', same],
  in: ['value seq', (value, container, effort) => contains(container, value, effort)],
  '==': EQUAL,
  eq: EQUAL,
  equalto: EQUAL,
  '!=': UNEQUAL,
  ne: UNEQUAL,
  '>': GREATER,
  gt: GREATER,
  greaterthan: GREATER,
  '>=': AT_LEAST,
  ge: AT_LEAST,
  '<': LESS,
  lt: LESS,
  lessthan: LESS,
  '<=': AT_MOST,
  le: AT_MOST,
};

export const isPredicate = (name: string): boolean =>
  Object.hasOwn(PREDICATES, name) || name === 'filter' || name === 'test';

/** `value is name(…)`; the value comes first in what is given. */
export function holds(
  name: string,
  given: Arguments,
  { isFilter, effort }: { readonly isFilter: (name: string) => boolean; readonly effort: Effort },
): boolean {
  if (name === 'filter' || name === 'test') {
    const [value] = bound(`the test ${name}`, 'value', given);
    return (name === 'filter' ? isFilter : isPredicate)(string(value ?? null, `what the test ${name} asks for`));
  }
  const [parameters, test] = (Object.hasOwn(PREDICATES, name) && PREDICATES[name]) || fail(`there is no test ${name}`);
  const [value, other] = bound(`the test ${name}`, parameters, given);
  return test(value ?? null, other ?? null, effort);
}
