/** Macros, and the bodies of call blocks, as values that can be called. */
import { repr } from './printing.ts';
import { type Kept, MISSING } from './symbols.ts';
import { type Arguments, Dict, type Effort, Fielded, fail, type PythonValue, Tuple, Undefined } from './values.ts';

interface MacroFacts {
  /** null: of a call block. */
  readonly name: string | null;
  readonly parameters: readonly string[];
  /** Of `caller`, `kwargs` and `varargs` those that its body reads without having them as parameters, in that order. */
  readonly extra: readonly string[];
  readonly explicitCaller: boolean;
  readonly catchesCaller: boolean;
}

export class Macro extends Fielded {
  readonly type = 'Macro';

  private readonly facts: MacroFacts;
  private readonly run: (values: readonly Kept[]) => string;

  constructor(facts: MacroFacts, run: (values: readonly Kept[]) => string) {
    super();
    this.facts = facts;
    this.run = run;
  }

  override invoke({ positional, named }: Arguments): string {
    const { parameters, extra, name } = this.facts;
    const left = new Map(named);
    const take = (one: string): Kept => {
      const value = left.get(one);
      left.delete(one);
      return value === undefined ? MISSING : value;
    };
    const given: Kept[] = positional.slice(0, parameters.length);
    const rest = parameters.slice(given.length);
    const values: Kept[] = [...given, ...rest.map(take)];
    const found = rest.includes('caller') || (rest.length === 0 && this.facts.explicitCaller);
    if (this.facts.catchesCaller && !found) {
      const caller = take('caller');
      values.push(caller === MISSING || caller === null ? new Undefined('there is no caller') : caller);
    }
    const title = `the macro ${name ?? 'of a call'}`;
    if (extra.includes('kwargs')) values.push(new Dict(left));
    else if (left.size > 0) fail(`${title} takes no argument named ${[...left.keys()][0]}`);
    if (extra.includes('varargs')) values.push(new Tuple(positional.slice(parameters.length)));
    else if (positional.length > parameters.length) fail(`${title} takes no more than ${parameters.length} arguments`);
    return this.run(values);
  }

  field(name: string): PythonValue | undefined {
    const { extra, parameters } = this.facts;
    switch (name) {
      case 'name':
        return this.facts.name;
      case 'arguments':
        return new Tuple(parameters);
      case 'catch_kwargs':
        return extra.includes('kwargs');
      case 'catch_varargs':
        return extra.includes('varargs');
      case 'caller':
        return this.facts.catchesCaller;
      case 'explicit_caller':
        return this.facts.explicitCaller;
      default:
        return undefined;
    }
  }

  print(effort: Effort): string {
    return `<Macro ${this.facts.name === null ? 'anonymous' : repr(this.facts.name, effort)}>`;
  }
}
