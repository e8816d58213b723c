/**
 * Expressions as functions. What a name stands for is settled when they are made (see symbols.ts); run, each says at what
 * line it is before it does what can fail.
 */
import { attribute, callValue, slice, subscript } from './attributes.ts';
import { applyFilter, isFilter } from './filters.ts';
import { percent } from './formatting.ts';
import { SyntaxFault } from './lexer.ts';
import type { Expression, GivenNodes } from './nodes.ts';
import { asFloat, asInt, calculate } from './numbers.ts';
import { holds, isPredicate } from './predicates.ts';
import { contains, equal, order, str } from './printing.ts';
import { type Activation, MISSING, type Symbols } from './symbols.ts';
import { escaped } from './textMethods.ts';
import {
  type Arguments,
  Dict,
  describe,
  type Effort,
  fail,
  isList,
  isNumeric,
  isUndefined,
  listOf,
  Markup,
  type PythonValue,
  plainText,
  string,
  Tuple,
  truth,
  Undefined,
} from './values.ts';

/** What an expression or statement is made in. */
export interface Surrounding {
  readonly symbols: Symbols;
  /** Under an `if` a filter or test that there is not fails only when it is used. */
  readonly soft: boolean;
  /** In a parameter's default those behind it may have no value yet. */
  readonly inDefault?: boolean;
}

export type Evaluate = (scope: Activation, effort: Effort) => PythonValue;

export function compileExpression(node: Expression, around: Surrounding): Evaluate {
  const evaluate = compiled(node, around);
  return (scope, effort) => {
    effort.step();
    return evaluate(scope, effort);
  };
}

function compiled(node: Expression, around: Surrounding): Evaluate {
  const of = (part: Expression): Evaluate => compileExpression(part, around);
  const { line } = node;
  switch (node.kind) {
    case 'constant':
      return () => node.value;
    case 'name':
      return compileName(node.name, line, around);
    case 'field':
      return fail('a field of a namespace is read as a target');
    case 'list':
      return applied(line, node.items.map(of), (items) => items);
    case 'tuple':
      return applied(line, node.items.map(of), (items) => new Tuple(items));
    case 'dict':
      return applied(line, node.pairs.flat().map(of), (parts) => new Dict(pairsIn(parts)));
    case 'concat':
      return applied(line, node.items.map(of), (items, effort) =>
        effort.text(items.map((item) => str(item, effort)).join('')),
      );
    case 'compare':
      return compileComparison(
        of(node.first),
        node.rest.map(({ operator, operand }) => [operator, of(operand)]),
        line,
      );
    case 'attribute':
      return applied(line, [of(node.of)], ([value = null], effort) => attribute(value, node.name, effort));
    case 'item':
      return applied(line, [of(node.of), of(node.key)], ([value = null, key = null], effort) =>
        subscript(value, key, effort),
      );
    case 'slice': {
      const parts = [node.of, ...node.limits].map((part) => (part === null ? () => null : of(part)));
      return applied(line, parts, ([value = null, start = null, stop = null, step = null], effort) =>
        slice(value, [start, stop, step], effort),
      );
    }
    case 'call': {
      const [callee, given] = [of(node.callee), compileGiven(node.given, around)];
      return (scope, effort) => {
        const called = callee(scope, effort);
        const values = given(scope, effort);
        effort.line = line;
        return callValue(called, values);
      };
    }
    case 'filter':
    case 'test':
      return compileFilterOrTest(node, node.of === null ? () => fail('a filter of nothing') : of(node.of), around);
    case 'conditional':
      return compileConditional(node, { ...around, soft: true });
    default:
      return compileOperation(node.kind, node.operator, node.operands.map(of), line);
  }
}

/** Evaluates the parts, then says the line and goes on with what they are. */
const applied =
  (
    line: number,
    parts: readonly Evaluate[],
    apply: (values: readonly PythonValue[], effort: Effort) => PythonValue,
  ): Evaluate =>
  (scope, effort) => {
    const values = parts.map((part) => part(scope, effort));
    effort.line = line;
    return apply(values, effort);
  };

/** Keys and values by turns. */
const pairsIn = (parts: readonly PythonValue[]): (readonly [PythonValue, PythonValue])[] =>
  parts.flatMap((key, i) => (i % 2 === 0 ? [[key, parts[i + 1] ?? null] as const] : []));

function compileName(name: string, line: number, { symbols, inDefault }: Surrounding): Evaluate {
  const place = symbols.find(name);
  if (place === null) throw new SyntaxFault(`nothing says what ${name} is`, line);
  const always = symbols.isParameter(name) && inDefault !== true;
  return (scope) => {
    const value = scope.get(place);
    if (value !== MISSING) return value;
    return always ? fail(`the ${name} of a loop that is over`) : new Undefined(`'${name}' is undefined`);
  };
}

function compileComparison(first: Evaluate, rest: readonly (readonly [string, Evaluate])[], line: number): Evaluate {
  return (scope, effort) => {
    let left = first(scope, effort);
    for (const [operator, operand] of rest) {
      const right = operand(scope, effort);
      effort.line = line;
      if (!compare(operator, left, right, effort)) return false;
      left = right;
    }
    return true;
  };
}

function compare(operator: string, a: PythonValue, b: PythonValue, effort: Effort): boolean {
  if (operator === '==') return equal(a, b, effort);
  if (operator === '!=') return !equal(a, b, effort);
  if (operator === 'in') return contains(b, a, effort);
  if (operator === 'not in') return !contains(b, a, effort);
  const by = order(a, b, effort);
  if (operator === '<') return by < 0;
  if (operator === '<=') return by <= 0;
  return operator === '>' ? by > 0 : by >= 0;
}

/** What a call, a filter or a test is given. */
export function compileGiven(given: GivenNodes, around: Surrounding): (scope: Activation, effort: Effort) => Arguments {
  const of = (part: Expression): Evaluate => compileExpression(part, around);
  const positional = given.positional.map(of);
  const named = given.named.map(([name, value]) => [name, of(value)] as const);
  const [moreItems, moreNamed] = [given.moreItems, given.moreNamed].map((node) => (node === null ? null : of(node)));
  return (scope, effort) => {
    const places = positional.map((value) => value(scope, effort));
    if (moreItems) places.push(...listOf(moreItems(scope, effort), effort));
    const names = new Map(named.map(([name, value]) => [name, value(scope, effort)] as const));
    if (moreNamed) {
      const mapping = moreNamed(scope, effort);
      if (!(mapping instanceof Dict)) return fail(`${describe(mapping)} behind **`);
      for (const [key, value] of mapping.entries()) {
        const name = string(key, 'a name behind **');
        if (names.has(name)) fail(`the argument ${name} is given twice`);
        names.set(name, value);
      }
    }
    return { positional: places, named: names };
  };
}

type FilterOrTest = Expression & { readonly kind: 'filter' | 'test' };

export function compileFilterOrTest(node: FilterOrTest, value: Evaluate, around: Surrounding): Evaluate {
  const { name, line } = node;
  const isKnown = node.kind === 'filter' ? isFilter(name) : isPredicate(name);
  if (!isKnown && !around.soft) throw new SyntaxFault(`there is no ${node.kind} ${name}`, line);
  const given = compileGiven(node.given, around);
  return (scope, effort) => {
    const first = value(scope, effort);
    const { positional, named } = given(scope, effort);
    effort.line = line;
    if (!isKnown) return fail(`there is no ${node.kind} ${name}`);
    const all = { positional: [first, ...positional], named };
    return node.kind === 'filter' ? applyFilter(name, all, effort) : holds(name, all, { isFilter, effort });
  };
}

function compileConditional(node: Expression & { readonly kind: 'conditional' }, around: Surrounding): Evaluate {
  const [test, then] = [compileExpression(node.test, around), compileExpression(node.then, around)];
  const otherwise: Evaluate =
    node.otherwise === null
      ? () => new Undefined('a condition without else does not hold')
      : compileExpression(node.otherwise, around);
  return (scope, effort) => (truth(test(scope, effort)) ? then : otherwise)(scope, effort);
}

function compileOperation(kind: string, operator: string, parts: readonly Evaluate[], line: number): Evaluate {
  const [first = () => null, second = () => null] = parts;
  if (kind === 'not') return (scope, effort) => !truth(first(scope, effort));
  if (kind === 'unary') return applied(line, parts, ([value = null]) => signed(operator, value));
  if (kind === 'binary') return applied(line, parts, ([a = null, b = null], effort) => operate(operator, a, b, effort));
  return (scope, effort) => {
    const value = first(scope, effort);
    return truth(value) === (kind === 'and') ? second(scope, effort) : value;
  };
}

function signed(operator: string, value: PythonValue): PythonValue {
  if (isUndefined(value)) return fail(value.reason);
  if (!isNumeric(value)) return fail(`a sign before ${describe(value)}`);
  if (typeof value === 'number') return operator === '-' ? -value : value;
  return operator === '-' ? -asInt(value) : asInt(value);
}

function operate(operator: string, a: PythonValue, b: PythonValue, effort: Effort): PythonValue {
  if (isNumeric(a) && isNumeric(b)) return calculate(operator, a, b);
  const text = plainText(a);
  if (operator === '%' && text !== null) {
    return a instanceof Markup ? fail('the % of a safe text') : percent(text, b, effort);
  }
  for (const side of [a, b]) if (isUndefined(side)) fail(side.reason);
  if (operator === '+') return added(a, b, effort);
  if (operator === '*') return isNumeric(a) ? repeated(b, a, effort) : repeated(a, b, effort);
  return fail(`${describe(a)} ${operator} ${describe(b)}`);
}

function added(a: PythonValue, b: PythonValue, effort: Effort): PythonValue {
  const [text, other] = [plainText(a), plainText(b)];
  if (text !== null && other !== null) {
    if (!(a instanceof Markup) && !(b instanceof Markup)) return effort.text(text + other);
    return new Markup(effort.text(escaped(a, effort).text + escaped(b, effort).text));
  }
  const join = (x: readonly PythonValue[], y: readonly PythonValue[]): PythonValue[] => {
    effort.step(x.length + y.length);
    return [...x, ...y];
  };
  if (isList(a) && isList(b)) return join(a, b);
  if (a instanceof Tuple && b instanceof Tuple) return new Tuple(join(a.items, b.items));
  return fail(`${describe(a)} + ${describe(b)}`);
}

/** A text, list or tuple so many times. */
function repeated(value: PythonValue, count: PythonValue, effort: Effort): PythonValue {
  if (typeof count !== 'bigint' && typeof count !== 'boolean') return fail(`${describe(value)} * ${describe(count)}`);
  const times = Math.max(0, asFloat(count));
  const text = plainText(value);
  if (text !== null) {
    effort.room(text.length * times);
    return value instanceof Markup ? new Markup(text.repeat(times)) : text.repeat(times);
  }
  const items = isList(value) ? value : value instanceof Tuple ? value.items : fail(`${describe(value)} * a number`);
  effort.step(items.length * times);
  const all = Array.from({ length: items.length === 0 ? 0 : times }, () => items).flat();
  return isList(value) ? all : new Tuple(all);
}
