/**
 * Which place a name of a template stands for. Jinja2 turns scopes into Python's local variables, one for each name and
 * level, and decides from the text alone where each gets its first value: that is what a variable is worth behind a loop
 * that sets it, or in one before it is set. The same is decided here, and the places are kept in the same order.
 */
import { type Body, type Expression, type ForNode, partsOf, signatureNodes, type TemplateNode } from './nodes.ts';
import { fail, type PythonValue } from './values.ts';

/** Where a name's first value comes from when its scope is entered. */
type Load =
  | { readonly from: 'parameter' }
  | { readonly from: 'context'; readonly name: string }
  | { readonly from: 'outer'; readonly place: NamePlace }
  | { readonly from: 'nowhere' };

export interface NamePlace {
  readonly level: number;
  readonly key: string;
}

export class Symbols {
  private names = new Set<string>();
  private loads = new Map<string, Load>();
  private stores = new Set<string>();

  private readonly parent: Symbols | null;
  readonly level: number;

  constructor(parent: Symbols | null, level: number) {
    this.parent = parent;
    this.level = level;
  }

  private copy(): Symbols {
    const copy = new Symbols(this.parent, this.level);
    copy.names = new Set(this.names);
    copy.loads = new Map(this.loads);
    copy.stores = new Set(this.stores);
    return copy;
  }

  private define(name: string, load: Load): void {
    this.names.add(name);
    this.loads.set(name, load);
  }

  find(name: string): NamePlace | null {
    if (this.names.has(name)) return { level: this.level, key: `${this.level} ${name}` };
    return this.parent?.find(name) ?? null;
  }

  /** Whether the name is declared by what it lies in, so that Jinja2 takes it to have a value. */
  isParameter(name: string): boolean {
    if (this.names.has(name)) return this.loads.get(name)?.from === 'parameter';
    return this.parent?.isParameter(name) ?? false;
  }

  declare(name: string): void {
    this.stores.add(name);
    this.define(name, { from: 'parameter' });
  }

  private load(name: string): void {
    if (this.find(name) === null) this.define(name, { from: 'context', name });
  }

  private store(name: string): void {
    this.stores.add(name);
    if (this.names.has(name)) return;
    const place = this.parent?.find(name) ?? null;
    this.define(name, place === null ? { from: 'nowhere' } : { from: 'outer', place });
  }

  /** What some branch of an `if` assigns has the outer value behind the others. */
  private merge(branches: readonly Symbols[]): void {
    const stored = new Set(branches.flatMap(({ stores }) => [...stores]).filter((name) => !this.stores.has(name)));
    for (const { names, loads, stores } of branches) {
      for (const name of names) this.names.add(name);
      for (const [name, load] of loads) this.loads.set(name, load);
      for (const name of stores) this.stores.add(name);
    }
    for (const name of stored) {
      const place = this.parent?.find(name) ?? null;
      this.loads.set(name, place === null ? { from: 'context', name } : { from: 'outer', place });
    }
  }

  /** Meets the names of what lies in this scope itself; bodies that are scopes of their own are met when they are entered. */
  meet(node: TemplateNode): void {
    switch (node.kind) {
      case 'name':
        if (node.use === 'parameter') this.declare(node.name);
        else if (node.use === 'store') this.store(node.name);
        else this.load(node.name);
        return;
      case 'field':
        this.load(node.name);
        return;
      case 'if':
        this.meetIf(
          node.branches.map(({ test, body }) => [test, body] as const),
          node.otherwise,
        );
        return;
      case 'set':
        this.meet(node.value);
        this.meet(node.target);
        return;
      case 'macro':
        this.store(node.name);
        return;
      case 'for':
        this.meet(node.over);
        return;
      case 'callBlock':
        if (node.call !== null) this.meet(node.call);
        return;
      case 'filterBlock':
        this.meet(node.filter);
        return;
      case 'with':
        this.meetAll(node.values);
        return;
      case 'setBlock':
        this.meet(node.target);
        return;
      case 'block':
      case 'scope':
        return;
      default:
        this.meetAll(partsOf(node));
        return;
    }
  }

  meetAll(nodes: readonly TemplateNode[]): void {
    for (const node of nodes) this.meet(node);
  }

  /** An `elif` is met as an `if` of its own, in one branch with those behind it. */
  private meetIf([first, ...rest]: readonly (readonly [Expression, Body])[], otherwise: Body): void {
    if (first === undefined) return;
    const [test, body] = first;
    this.meet(test);
    const branch = (meet: (symbols: Symbols) => void): Symbols => {
      const symbols = this.copy();
      meet(symbols);
      return symbols;
    };
    this.merge([
      branch((symbols) => symbols.meetAll(body)),
      branch((symbols) => {
        for (const one of rest) symbols.meetIf([one], []);
      }),
      branch((symbols) => symbols.meetAll(otherwise)),
    ]);
  }

  /** A loop's target is declared by it. */
  declareTarget(target: Expression): void {
    if (target.kind === 'name') this.declare(target.name);
    else if (target.kind === 'tuple') for (const item of target.items) this.declareTarget(item);
    else this.meet(target);
  }

  enterLoop(node: ForNode): void {
    this.declareTarget(node.target);
    this.meetAll(node.body);
  }

  enterMacro(signature: Parameters<typeof signatureNodes>[0], body: Body): void {
    this.meetAll([...signatureNodes(signature, 0), ...body]);
  }

  /** The places of this scope, each with where its first value comes from. */
  entries(): readonly (readonly [NamePlace, Load])[] {
    return [...this.loads].map(([name, load]) => [{ level: this.level, key: `${this.level} ${name}` }, load] as const);
  }
}

/** A name's place has no value. */
export const MISSING = Symbol('missing');
export type Kept = PythonValue | typeof MISSING;

/** The variables of one running function of a template: its root, a macro, the body of a call, a loop that recurs. */
export class Activation {
  private readonly kept = new Map<string, Kept>();

  private readonly level: number;
  private readonly outer: Activation | null;

  constructor(level: number, outer: Activation | null) {
    this.level = level;
    this.outer = outer;
  }

  private at(place: NamePlace): Activation {
    let activation: Activation = this;
    while (activation.level > place.level) activation = activation.outer ?? fail(`nothing holds ${place.key}`);
    return activation;
  }

  get(place: NamePlace): Kept {
    const value = this.at(place).kept.get(place.key);
    return value === undefined ? MISSING : value;
  }

  set(place: NamePlace, value: Kept): void {
    this.at(place).kept.set(place.key, value);
  }

  enter(symbols: Symbols, resolve: (name: string) => Kept): void {
    for (const [place, load] of symbols.entries()) {
      if (load.from === 'context') this.set(place, resolve(load.name));
      else if (load.from === 'outer') this.set(place, this.get(load.place));
      else if (load.from === 'nowhere') this.set(place, MISSING);
    }
  }

  leave(symbols: Symbols): void {
    for (const [place] of symbols.entries()) this.set(place, MISSING);
  }
}
