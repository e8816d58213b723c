/** What a template is parsed into, and the order in which its names are met. */
import type { PythonValue } from './values.ts';

export type Expression =
  | { readonly kind: 'constant'; readonly value: PythonValue; readonly line: number }
  | { readonly kind: 'name'; readonly name: string; readonly use: NameUse; readonly line: number }
  | { readonly kind: 'field'; readonly name: string; readonly field: string; readonly line: number }
  | { readonly kind: 'tuple' | 'list'; readonly items: readonly Expression[]; readonly line: number }
  | { readonly kind: 'dict'; readonly pairs: readonly (readonly [Expression, Expression])[]; readonly line: number }
  | Operation
  | { readonly kind: 'concat'; readonly items: readonly Expression[]; readonly line: number }
  | {
      readonly kind: 'compare';
      readonly first: Expression;
      readonly rest: readonly Comparison[];
      readonly line: number;
    }
  | { readonly kind: 'attribute'; readonly of: Expression; readonly name: string; readonly line: number }
  | { readonly kind: 'item'; readonly of: Expression; readonly key: Expression; readonly line: number }
  | { readonly kind: 'slice'; readonly of: Expression; readonly limits: SliceLimits; readonly line: number }
  | { readonly kind: 'call'; readonly callee: Expression; readonly given: GivenNodes; readonly line: number }
  | FilterNode
  | {
      readonly kind: 'test';
      readonly of: Expression;
      readonly name: string;
      readonly given: GivenNodes;
      readonly line: number;
    }
  | Conditional;

/** A name that is read, assigned, or declared by what it stands in. */
export type NameUse = 'load' | 'store' | 'parameter';
export type OptionalNode = Expression | null;
type SliceLimits = readonly [OptionalNode, OptionalNode, OptionalNode];

interface Operation {
  readonly kind: 'binary' | 'unary' | 'and' | 'or' | 'not';
  readonly operator: string;
  readonly operands: readonly Expression[];
  readonly line: number;
}

interface Comparison {
  readonly operator: string;
  readonly operand: Expression;
}

export interface FilterNode {
  readonly kind: 'filter';
  /** null: what the block around it renders. */
  readonly of: OptionalNode;
  readonly name: string;
  readonly given: GivenNodes;
  readonly line: number;
}

interface Conditional {
  readonly kind: 'conditional';
  readonly test: Expression;
  readonly then: Expression;
  readonly otherwise: OptionalNode;
  readonly line: number;
}

export interface GivenNodes {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [string, Expression])[];
  readonly moreItems: OptionalNode;
  readonly moreNamed: OptionalNode;
}

export interface Signature {
  readonly parameters: readonly string[];
  /** Of the last ones. */
  readonly defaults: readonly Expression[];
}

export type Body = readonly Statement[];

export interface ForNode {
  readonly kind: 'for';
  readonly target: Expression;
  readonly over: Expression;
  readonly test: OptionalNode;
  readonly recursive: boolean;
  readonly body: Body;
  readonly otherwise: Body;
  readonly line: number;
}

export interface MacroNode {
  readonly kind: 'macro';
  readonly name: string;
  readonly signature: Signature;
  readonly body: Body;
  readonly line: number;
}

/** A block whose body the call gets as `caller`; without one it is `generation`, which renders its body. */
export interface CallNode {
  readonly kind: 'callBlock';
  readonly call: (Expression & { readonly kind: 'call' }) | null;
  readonly signature: Signature;
  readonly body: Body;
  readonly line: number;
}

export interface IfBranch {
  readonly test: Expression;
  readonly body: Body;
}

export type Statement =
  | { readonly kind: 'output'; readonly parts: readonly (string | Expression)[]; readonly line: number }
  | { readonly kind: 'set'; readonly target: Expression; readonly value: Expression; readonly line: number }
  | SetBlock
  | ForNode
  | { readonly kind: 'if'; readonly branches: readonly IfBranch[]; readonly otherwise: Body; readonly line: number }
  | MacroNode
  | CallNode
  | { readonly kind: 'filterBlock'; readonly filter: FilterNode; readonly body: Body; readonly line: number }
  | WithNode
  | { readonly kind: 'block'; readonly name: string; readonly body: Body; readonly line: number }
  | { readonly kind: 'scope'; readonly body: Body; readonly line: number }
  | { readonly kind: 'break' | 'continue'; readonly line: number };

interface SetBlock {
  readonly kind: 'setBlock';
  readonly target: Expression;
  readonly filter: FilterNode | null;
  readonly body: Body;
  readonly line: number;
}

interface WithNode {
  readonly kind: 'with';
  readonly targets: readonly Expression[];
  readonly values: readonly Expression[];
  readonly body: Body;
  readonly line: number;
}

export type TemplateNode = Expression | Statement;

const present = (nodes: readonly OptionalNode[]): Expression[] => nodes.filter((node) => node !== null);
const givenIn = ({ positional, named, moreItems, moreNamed }: GivenNodes): Expression[] =>
  present([...positional, ...named.map(([, value]) => value), moreItems, moreNamed]);

/** Parameters, as names that are declared, and their defaults. */
export const signatureNodes = ({ parameters, defaults }: Signature, line: number): TemplateNode[] => [
  ...parameters.map((name): Expression => ({ kind: 'name', name, use: 'parameter', line })),
  ...defaults,
];

function partsOfExpression(node: Expression): readonly TemplateNode[] {
  switch (node.kind) {
    case 'constant':
    case 'name':
    case 'field':
      return [];
    case 'tuple':
    case 'list':
    case 'concat':
      return node.items;
    case 'dict':
      return node.pairs.flat();
    case 'compare':
      return [node.first, ...node.rest.map(({ operand }) => operand)];
    case 'attribute':
      return [node.of];
    case 'item':
      return [node.of, node.key];
    case 'slice':
      return [node.of, ...present(node.limits)];
    case 'call':
      return [node.callee, ...givenIn(node.given)];
    case 'filter':
    case 'test':
      return [...present([node.of]), ...givenIn(node.given)];
    case 'conditional':
      return present([node.test, node.then, node.otherwise]);
    default:
      return node.operands;
  }
}

/** The parts of a node in the order in which Jinja2 looks for names in them. */
export function partsOf(node: TemplateNode): readonly TemplateNode[] {
  switch (node.kind) {
    case 'output':
      return node.parts.filter((part) => typeof part !== 'string');
    case 'set':
      return [node.target, node.value];
    case 'setBlock':
      return [node.target, ...present([node.filter]), ...node.body];
    case 'for':
      return [node.target, node.over, ...node.body, ...node.otherwise, ...present([node.test])];
    case 'if':
      return [...node.branches.flatMap(({ test, body }) => [test, ...body]), ...node.otherwise];
    case 'macro':
      return [...signatureNodes(node.signature, node.line), ...node.body];
    case 'callBlock':
      return [...present([node.call]), ...signatureNodes(node.signature, node.line), ...node.body];
    case 'filterBlock':
      return [...node.body, node.filter];
    case 'with':
      return [...node.targets, ...node.values, ...node.body];
    case 'block':
    case 'scope':
      return node.body;
    case 'break':
    case 'continue':
      return [];
    default:
      return partsOfExpression(node);
  }
}

/** Which of the names are read before they are declared, wherever in these nodes. */
export function undeclared(nodes: readonly TemplateNode[], names: readonly string[]): ReadonlySet<string> {
  const open = new Set(names);
  const found = new Set<string>();
  const visit = (node: TemplateNode): void => {
    if (node.kind === 'block') return;
    if (node.kind !== 'name') partsOf(node).forEach(visit);
    else if (node.use !== 'load') open.delete(node.name);
    else if (open.has(node.name)) found.add(node.name);
  };
  nodes.forEach(visit);
  return found;
}
