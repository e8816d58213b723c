/** The variable `loop`: it asks for the next item only where something asks it about that. */
import { equal } from './printing.ts';
import {
  type Arguments,
  bound,
  Callable,
  type Effort,
  Fielded,
  fail,
  lengthOf,
  type PythonValue,
  Tuple,
  Undefined,
} from './values.ts';

interface LoopFacts {
  readonly depth: number;
  /** null: the loop does not call itself. */
  readonly recurse: ((value: PythonValue, depth: number) => string) | null;
  readonly effort: Effort;
}

export class LoopContext extends Fielded {
  readonly type = 'LoopContext';
  private index0 = -1;
  private before: PythonValue | undefined;
  private current: PythonValue | undefined;
  private peeked: IteratorResult<PythonValue> | null = null;
  private known: bigint | null = null;
  private changedTo: Tuple | null = null;
  /** Items that were asked for to count them. */
  private counted: Iterator<PythonValue> | null = null;

  private readonly items: PythonValue;
  private readonly source: Iterator<PythonValue>;
  private readonly facts: LoopFacts;

  constructor(items: PythonValue, source: Iterator<PythonValue>, facts: LoopFacts) {
    super();
    this.items = items;
    this.source = source;
    this.facts = facts;
  }

  private pull(): IteratorResult<PythonValue> {
    return (this.counted ?? this.source).next();
  }

  next(): IteratorResult<PythonValue> {
    const result = this.peeked !== null && !this.peeked.done ? this.peeked : this.pull();
    this.peeked = null;
    if (result.done) return result;
    this.index0++;
    this.before = this.current;
    this.current = result.value;
    return result;
  }

  private peek(): IteratorResult<PythonValue> {
    if (this.peeked === null || this.peeked.done) this.peeked = this.pull();
    return this.peeked;
  }

  override count(): bigint {
    if (this.known !== null) return this.known;
    const length = lengthOf(this.items);
    if (length !== null) {
      this.known = BigInt(length);
      return this.known;
    }
    const rest: PythonValue[] = [];
    for (let next = this.pull(); !next.done; next = this.pull()) {
      this.facts.effort.step();
      rest.push(next.value);
    }
    this.counted = rest.values();
    this.known = BigInt(rest.length + this.index0 + 1 + (this.peeked !== null && !this.peeked.done ? 1 : 0));
    return this.known;
  }

  field(name: string): PythonValue | undefined {
    const index = BigInt(this.index0);
    switch (name) {
      case 'index':
        return index + 1n;
      case 'index0':
        return index;
      case 'revindex':
        return this.count() - index;
      case 'revindex0':
        return this.count() - index - 1n;
      case 'first':
        return index === 0n;
      case 'last':
        return this.peek().done === true;
      case 'length':
        return this.count();
      case 'depth':
        return BigInt(this.facts.depth + 1);
      case 'depth0':
        return BigInt(this.facts.depth);
      case 'previtem':
        return this.index0 === 0 || this.before === undefined
          ? new Undefined('there is no previous item')
          : this.before;
      case 'nextitem': {
        const next = this.peek();
        return next.done ? new Undefined('there is no next item') : next.value;
      }
      case 'cycle':
        return new Callable('method', name, (given) => this.cycle(given));
      case 'changed':
        return new Callable('method', name, (given) => this.changed(given));
      default:
        return undefined;
    }
  }

  private cycle({ positional, named }: Arguments): PythonValue {
    const value = positional[this.index0 % positional.length];
    return value === undefined || named.size > 0 ? fail('cycle is given nothing') : value;
  }

  private changed({ positional, named }: Arguments): boolean {
    if (named.size > 0) fail('changed takes values by place');
    const values = new Tuple(positional);
    if (this.changedTo !== null && equal(this.changedTo, values, this.facts.effort)) return false;
    this.changedTo = values;
    return true;
  }

  override invoke(given: Arguments): PythonValue {
    const [value] = bound('loop', 'iterable', given);
    const { recurse, depth } = this.facts;
    if (recurse === null) return fail('only a recursive loop can be called');
    return recurse(value ?? null, depth + 1);
  }

  print(): string {
    return `<LoopContext ${this.index0 + 1}/${this.count()}>`;
  }
}
