/** Statements as functions that write a template's text. */
import { callValue } from './attributes.ts';
import {
  compileExpression,
  compileFilterOrTest,
  compileGiven,
  type Evaluate,
  type Surrounding,
} from './compileExpression.ts';
import { SyntaxFault } from './lexer.ts';
import { LoopContext } from './loopContext.ts';
import { Macro } from './macro.ts';
import {
  type Body,
  type CallNode,
  type Expression,
  type FilterNode,
  type ForNode,
  type MacroNode,
  partsOf,
  type Signature,
  type Statement,
  undeclared,
} from './nodes.ts';
import { str } from './printing.ts';
import type { Rendering } from './rendering.ts';
import { Activation, type Kept, MISSING, type NamePlace, Symbols } from './symbols.ts';
import {
  type Effort,
  fail,
  iterate,
  listOf,
  Namespace,
  PythonIterator,
  type PythonValue,
  truth,
  Undefined,
} from './values.ts';

/** Where a statement leaves to: the next one, or out of the loop around it. */
type Leaving = 'on' | 'break' | 'continue';
type Perform = (scope: Activation, rendering: Rendering) => Leaving;

interface StatementFrame extends Surrounding {
  /** Its assignments are seen by blocks. */
  readonly top: boolean;
  /** Whether `break` has a loop to leave. */
  readonly inLoop: boolean;
}

/** A scope inside another. */
const inner = (frame: StatementFrame): StatementFrame => ({
  ...{ symbols: new Symbols(frame.symbols, frame.symbols.level + 1), soft: false, top: false, inLoop: frame.inLoop },
});

/** A whole template, or a block of one: a function with scopes of its own. */
function compileFunction(body: Body, top: boolean): (rendering: Rendering) => void {
  const symbols = new Symbols(null, 0);
  for (const name of ['self', 'super']) {
    if (undeclared(body, [name]).size > 0) throw new SyntaxFault(`${name} of blocks`, body[0]?.line ?? 1);
  }
  symbols.meetAll(body);
  const perform = compileBody(body, { symbols, soft: false, top, inLoop: false });
  return (rendering) => {
    const scope = new Activation(0, null);
    scope.enter(symbols, (name) => rendering.resolve(name));
    perform(scope, rendering);
  };
}

/** A template's statements; throws a SyntaxFault. */
export function compileTemplate(body: Body): (rendering: Rendering) => void {
  const names = new Set<string>();
  const visit = (statement: Statement | Expression): void => {
    if (statement.kind === 'block') {
      if (names.has(statement.name)) throw new SyntaxFault(`two blocks are named ${statement.name}`, statement.line);
      names.add(statement.name);
    }
    for (const part of partsOf(statement)) visit(part);
  };
  for (const statement of body) visit(statement);
  return compileFunction(body, true);
}

function compileBody(body: Body, frame: StatementFrame): Perform {
  const steps = body.map((statement) => compileStatement(statement, frame));
  return (scope, rendering) => {
    for (const step of steps) {
      rendering.effort.step();
      const leaving = step(scope, rendering);
      if (leaving !== 'on') return leaving;
    }
    return 'on';
  };
}

function compileStatement(node: Statement, frame: StatementFrame): Perform {
  switch (node.kind) {
    case 'output':
      return compileOutput(node.parts, node.line, frame);
    case 'set': {
      const [value, assign] = [compileExpression(node.value, frame), compileAssignment(node.target, node.line, frame)];
      return (scope, rendering) => {
        rendering.effort.line = node.line;
        assign(scope, rendering, () => value(scope, rendering.effort));
        return 'on';
      };
    }
    case 'setBlock':
      return compileSetBlock(node, frame);
    case 'for':
      return compileLoop(node, frame);
    case 'if':
      return compileIf(node, { ...frame, soft: true });
    case 'macro':
      return compileMacro(node, frame);
    case 'callBlock':
      return compileCall(node, frame);
    case 'filterBlock':
      return compileFilterBlock(node, frame);
    case 'with':
      return compileWith(node, frame);
    case 'block': {
      const run = compileFunction(node.body, false);
      return (_, rendering) => {
        run(rendering);
        return 'on';
      };
    }
    case 'scope':
      return scoped(inner(frame), node.body);
    default:
      if (!frame.inLoop) throw new SyntaxFault(`${node.kind} is in no loop`, node.line);
      return () => node.kind;
  }
}

function compileOutput(parts: readonly (string | Expression)[], line: number, frame: StatementFrame): Perform {
  const texts = parts.map((part) => (typeof part === 'string' ? part : compileExpression(part, frame)));
  const lines = parts.map((part) => (typeof part === 'string' ? line : part.line));
  return (scope, { effort, write }) => {
    for (const [i, part] of texts.entries()) {
      effort.line = lines[i] ?? line;
      write(typeof part === 'string' ? part : str(part(scope, effort), effort));
    }
    return 'on';
  };
}

/** Enters a scope, does what lies in it, and leaves. */
function scoped(
  frame: StatementFrame,
  body: Body,
  prepare?: (scope: Activation, rendering: Rendering) => void,
): Perform {
  if (prepare === undefined) frame.symbols.meetAll(body);
  const perform = compileBody(body, frame);
  return (scope, rendering) => {
    scope.enter(frame.symbols, (name) => rendering.resolve(name));
    prepare?.(scope, rendering);
    const leaving = perform(scope, rendering);
    scope.leave(frame.symbols);
    return leaving;
  };
}

type Assign = (scope: Activation, rendering: Rendering, value: () => PythonValue) => void;

/** Unpacks into names and namespaces' fields; at the top, blocks see the names too. */
function compileAssignment(target: Expression, line: number, frame: StatementFrame): Assign {
  const put = compileTarget(target, line, frame);
  const fields = fieldsIn(target).map((name) => placeOf(name, line, frame.symbols));
  const names = frame.top ? namesIn(target).map((name) => [name, placeOf(name, line, frame.symbols)] as const) : [];
  return (scope, rendering, value) => {
    for (const place of fields) {
      if (!(scope.get(place) instanceof Namespace)) fail('only a namespace has fields that can be assigned to');
    }
    put(scope, value(), rendering.effort);
    for (const [name, place] of names) rendering.exportName(name, scope.get(place));
  };
}

const fieldsIn = (target: Expression): string[] =>
  target.kind === 'tuple' ? target.items.flatMap(fieldsIn) : target.kind === 'field' ? [target.name] : [];
const namesIn = (target: Expression): string[] =>
  target.kind === 'tuple' ? target.items.flatMap(namesIn) : target.kind === 'name' ? [target.name] : [];

function placeOf(name: string, line: number, symbols: Symbols): NamePlace {
  const place = symbols.find(name);
  if (place === null) throw new SyntaxFault(`nothing says what ${name} is`, line);
  return place;
}

type Put = (scope: Activation, value: PythonValue, effort: Effort) => void;

function compileTarget(target: Expression, line: number, frame: Surrounding): Put {
  if (target.kind === 'name' || target.kind === 'field') {
    const place = placeOf(target.name, line, frame.symbols);
    if (target.kind === 'name') return (scope, value) => scope.set(place, value);
    return (scope, value) => {
      const namespace = scope.get(place);
      if (namespace instanceof Namespace) namespace.set(target.field, value);
    };
  }
  if (target.kind !== 'tuple') throw new SyntaxFault('only a name can be assigned to', line);
  const parts = target.items.map((item) => compileTarget(item, line, frame));
  return (scope, value, effort) => {
    effort.line = line;
    const items = listOf(value, effort);
    if (items.length !== parts.length) fail(`${items.length} values for ${parts.length} names`);
    for (const [i, part] of parts.entries()) part(scope, items[i] ?? null, effort);
  };
}

function compileSetBlock(node: Statement & { readonly kind: 'setBlock' }, frame: StatementFrame): Perform {
  const block = inner(frame);
  block.symbols.meetAll(node.body);
  const perform = compileBody(node.body, block);
  const assign = compileAssignment(node.target, node.line, frame);
  const filter = node.filter === null ? null : compileFilters(node.filter, block);
  return (scope, rendering) => {
    scope.enter(block.symbols, (name) => rendering.resolve(name));
    const { leaving, text } = rendering.capture(() => perform(scope, rendering));
    if (leaving !== 'on') return leaving;
    rendering.effort.line = node.line;
    assign(scope, rendering, () => (filter === null ? text : filter(text)(scope, rendering.effort)));
    scope.leave(block.symbols);
    return 'on';
  };
}

/** The filters of a block, the innermost of its text. */
function compileFilters(node: FilterNode, frame: StatementFrame): (text: string) => Evaluate {
  let current = '';
  const chain = (filter: FilterNode): Evaluate => {
    const { of } = filter;
    const value: Evaluate =
      of === null ? () => current : of.kind === 'filter' ? chain(of) : compileExpression(of, frame);
    return compileFilterOrTest(filter, value, frame);
  };
  const evaluate = chain(node);
  return (text) => (scope, effort) => {
    current = text;
    return evaluate(scope, effort);
  };
}

function compileFilterBlock(node: Statement & { readonly kind: 'filterBlock' }, frame: StatementFrame): Perform {
  const block = inner(frame);
  block.symbols.meetAll([...node.body, node.filter]);
  const perform = compileBody(node.body, block);
  const filter = compileFilters(node.filter, block);
  return (scope, rendering) => {
    const { effort } = rendering;
    scope.enter(block.symbols, (name) => rendering.resolve(name));
    const { leaving, text } = rendering.capture(() => perform(scope, rendering));
    if (leaving !== 'on') return leaving;
    effort.line = node.line;
    rendering.write(str(filter(text)(scope, effort), effort));
    scope.leave(block.symbols);
    return 'on';
  };
}

function compileWith(node: Statement & { readonly kind: 'with' }, frame: StatementFrame): Perform {
  const block = inner(frame);
  block.symbols.meetAll([...node.targets, ...node.body]);
  const values = node.values.map((value) => compileExpression(value, frame));
  const targets = node.targets.map((target) => compileTarget(target, node.line, block));
  return scoped(block, node.body, (scope, { effort }) => {
    for (const [i, put] of targets.entries()) put(scope, values[i]?.(scope, effort) ?? null, effort);
  });
}

function compileIf(node: Statement & { readonly kind: 'if' }, frame: StatementFrame): Perform {
  const branches = node.branches.map(
    ({ test, body }) => [compileExpression(test, frame), compileBody(body, frame)] as const,
  );
  const otherwise = compileBody(node.otherwise, frame);
  return (scope, rendering) => {
    rendering.effort.line = node.line;
    const chosen = branches.find(([test]) => truth(test(scope, rendering.effort)));
    return (chosen?.[1] ?? otherwise)(scope, rendering);
  };
}

/** What a macro's call does with its parameters' values, in a function of its own. */
function compileMacroBody(
  node: { signature: Signature; body: Body; line: number },
  frame: StatementFrame,
  name: string | null,
) {
  const { signature, body, line } = node;
  const own: StatementFrame = { ...inner(frame), inLoop: false };
  own.symbols.enterMacro(signature, body);
  const special = undeclared(body, ['caller', 'kwargs', 'varargs']);
  const withDefault = signature.parameters.length - signature.defaults.length;
  const place = signature.parameters.indexOf('caller');
  if (special.has('caller') && place >= 0 && place < withDefault) throw new SyntaxFault('caller has no default', line);
  const extra = ['caller', 'kwargs', 'varargs'].filter(
    (one) => special.has(one) && !signature.parameters.includes(one),
  );
  for (const one of extra) own.symbols.declare(one);
  const places = [...signature.parameters, ...extra].map((one) => placeOf(one, line, own.symbols));
  const defaults = signature.defaults.map((value) => compileExpression(value, { ...own, inDefault: true }));
  const perform = compileBody(body, own);
  const run = (outer: Activation, rendering: Rendering, values: readonly Kept[]): string => {
    const scope = new Activation(own.symbols.level, outer);
    for (const [i, one] of places.entries()) scope.set(one, values[i] ?? MISSING);
    return rendering.called(() => {
      scope.enter(own.symbols, (one) => rendering.resolve(one));
      for (const [i, parameter] of signature.parameters.entries()) {
        if (scope.get(placeOf(parameter, line, own.symbols)) !== MISSING) continue;
        const value = defaults[i - withDefault]?.(scope, rendering.effort);
        const undefinedValue = new Undefined(`the parameter ${parameter} is not given`);
        scope.set(placeOf(parameter, line, own.symbols), value === undefined ? undefinedValue : value);
      }
      perform(scope, rendering);
    });
  };
  const facts = { name, parameters: signature.parameters, extra, explicitCaller: place >= 0 };
  return (scope: Activation, rendering: Rendering): Macro =>
    new Macro({ ...facts, catchesCaller: special.has('caller') }, (values) => run(scope, rendering, values));
}

function compileMacro(node: MacroNode, frame: StatementFrame): Perform {
  const make = compileMacroBody(node, frame, node.name);
  const place = placeOf(node.name, node.line, frame.symbols);
  return (scope, rendering) => {
    const macro = make(scope, rendering);
    scope.set(place, macro);
    if (frame.top) rendering.exportName(node.name, macro);
    return 'on';
  };
}

function compileCall(node: CallNode, frame: StatementFrame): Perform {
  const make = compileMacroBody(node, frame, null);
  const called = node.call;
  if (called === null) {
    return (scope, rendering) => {
      rendering.write(str(make(scope, rendering).invoke({ positional: [], named: new Map() }), rendering.effort));
      return 'on';
    };
  }
  const [callee, given] = [compileExpression(called.callee, frame), compileGiven(called.given, frame)];
  return (scope, rendering) => {
    const { effort } = rendering;
    const caller = make(scope, rendering);
    const function_ = callee(scope, effort);
    const { positional, named } = given(scope, effort);
    effort.line = node.line;
    if (named.has('caller')) fail('caller is given twice');
    rendering.write(str(callValue(function_, { positional, named: new Map([...named, ['caller', caller]]) }), effort));
    return 'on';
  };
}

/** The items of which the loop's test holds, tested when they are asked for. */
function compileLoopTest(
  node: ForNode,
  frame: StatementFrame,
): ((items: PythonValue, scope: Activation, rendering: Rendering) => PythonValue) | null {
  if (node.test === null) return null;
  const own = inner(frame);
  own.symbols.declareTarget(node.target);
  own.symbols.meet(node.test);
  const put = compileTarget(node.target, node.line, own);
  const test = compileExpression(node.test, own);
  return (items, outer, rendering) => {
    function* chosen(): Generator<PythonValue, undefined> {
      const { effort } = rendering;
      const scope = new Activation(own.symbols.level, outer);
      scope.enter(own.symbols, (name) => rendering.resolve(name));
      const from = iterate(items);
      for (let next = from.next(); !next.done; next = from.next()) {
        put(scope, next.value, effort);
        if (truth(test(scope, effort))) yield next.value;
      }
    }
    return new PythonIterator('generator', chosen());
  };
}

function compileLoop(node: ForNode, frame: StatementFrame): Perform {
  const own: StatementFrame = { ...inner(frame), inLoop: true };
  const withLoop = node.recursive || undeclared(node.body, ['loop']).size > 0;
  if (withLoop) own.symbols.declare('loop');
  own.symbols.enterLoop(node);
  refuseLoopTargets(node);
  const loopPlace = withLoop ? placeOf('loop', node.line, own.symbols) : null;
  const put = compileTarget(node.target, node.line, own);
  const over = compileExpression(node.over, frame);
  const test = compileLoopTest(node, frame);
  const perform = compileBody(node.body, own);
  const otherwise = scoped({ ...inner(frame), inLoop: frame.inLoop && !node.recursive }, node.otherwise);

  const run = (
    value: PythonValue,
    scope: Activation,
    rendering: Rendering,
    depth: number,
    recurse: Recurse | null,
  ): Leaving => {
    const { effort } = rendering;
    const items = test === null ? value : test(value, scope, rendering);
    const from = iterate(items);
    const loop = loopPlace === null ? null : new LoopContext(items, from, { depth, recurse, effort });
    const next = (): IteratorResult<PythonValue> => (loop === null ? from.next() : loop.next());
    let isWhole = false;
    for (let item = next(); !item.done; item = next()) {
      effort.step();
      effort.line = node.line;
      put(scope, item.value, effort);
      if (loopPlace !== null) scope.set(loopPlace, loop ?? MISSING);
      scope.enter(own.symbols, (name) => rendering.resolve(name));
      const leaving = perform(scope, rendering);
      if (leaving === 'break') break;
      isWhole ||= leaving === 'on';
    }
    scope.leave(own.symbols);
    return isWhole ? 'on' : otherwise(scope, rendering);
  };
  if (!node.recursive)
    return (scope, rendering) => run(evaluated(over, scope, rendering, node), scope, rendering, 0, null);
  return (outer, rendering) => {
    const recurse: Recurse = (value, depth) =>
      rendering.called(() => run(value, new Activation(own.symbols.level, outer), rendering, depth, recurse));
    rendering.write(recurse(evaluated(over, outer, rendering, node), 0));
    return 'on';
  };
}

type Recurse = (value: PythonValue, depth: number) => string;

function evaluated(over: Evaluate, scope: Activation, rendering: Rendering, { line }: ForNode): PythonValue {
  rendering.effort.line = line;
  return over(scope, rendering.effort);
}

/** Nothing inside a loop may assign to `loop`. */
function refuseLoopTargets(node: ForNode): void {
  const visit = (part: Statement | Expression): void => {
    if (part.kind === 'name' && part.use === 'store' && part.name === 'loop') {
      throw new SyntaxFault('loop is assigned to', part.line);
    }
    for (const one of partsOf(part)) visit(one);
  };
  visit(node);
}
