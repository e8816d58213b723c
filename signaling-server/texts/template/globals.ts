/** What every template can call: Jinja2's globals, and the two that transformers adds. */
import { dictText } from './printing.ts';
import { strftime } from './strftime.ts';
import {
  type Arguments,
  bound,
  Callable,
  Dict,
  type Effort,
  Fielded,
  fail,
  listOf,
  Namespace,
  PythonRange,
  type PythonValue,
  plainText,
  string,
  Undefined,
} from './values.ts';

/** What a template says itself when it refuses a chat. */
const raised = (given: Arguments): never => {
  const [message] = bound('raise_exception', 'message', given);
  return fail(`the template refuses: ${plainText(message ?? null) ?? 'it gives no reason'}`);
};

const LONGEST_RANGE = 100_000;

function range(given: Arguments): PythonRange {
  const [first, second, step = 1n] = bound('range', '/start /stop? /step?', given);
  const number = (value: PythonValue | undefined): bigint => {
    if (typeof value === 'bigint' || typeof value === 'boolean') return BigInt(value);
    return fail(value instanceof Undefined ? value.reason : 'a limit of a range is no whole number');
  };
  const [from, to, by] = second === undefined ? [0n, number(first), 1n] : [number(first), number(second), number(step)];
  if (by === 0n) fail('the step of a range is zero');
  const found = new PythonRange(from, to, by);
  return found.length > LONGEST_RANGE ? fail(`a range of more than ${LONGEST_RANGE}`) : found;
}

/** The pairs of `dict(…)`: of a mapping or of pairs, then the named ones. */
function pairsOf({ positional, named }: Arguments, effort: Effort): (readonly [PythonValue, PythonValue])[] {
  const [source, ...more] = positional;
  if (more.length > 0) fail('dict takes one mapping');
  const pairs =
    source === undefined
      ? []
      : source instanceof Dict
        ? source.entries()
        : listOf(source, effort).map((pair) => {
            const [key, value, ...rest] = listOf(pair, effort);
            return key === undefined || value === undefined || rest.length > 0
              ? fail('a pair is none')
              : ([key, value] as const);
          });
  return [...pairs, ...named];
}

class Cycler extends Fielded {
  readonly type = 'Cycler';
  private place = 0;

  private readonly items: readonly PythonValue[];

  constructor(items: readonly PythonValue[]) {
    super();
    this.items = items;
  }

  field(name: string): PythonValue | undefined {
    const current = this.items[this.place] ?? null;
    if (name === 'current') return current;
    if (name === 'pos') return BigInt(this.place);
    if (name === 'items') return fail('the items of a cycler');
    if (name !== 'next' && name !== 'reset') return undefined;
    return new Callable('method', name, () => {
      const value = this.items[this.place] ?? null;
      this.place = name === 'reset' ? 0 : (this.place + 1) % this.items.length;
      return name === 'reset' ? null : value;
    });
  }

  print(): string {
    return fail('a cycler prints as an address in memory');
  }
}

class Joiner extends Fielded {
  readonly type = 'Joiner';
  private used = false;

  private readonly separator: PythonValue;

  constructor(separator: PythonValue) {
    super();
    this.separator = separator;
  }

  field(name: string): PythonValue | undefined {
    return name === 'sep' ? this.separator : name === 'used' ? this.used : undefined;
  }

  override invoke(given: Arguments): PythonValue {
    bound('a joiner', '', given);
    const value = this.used ? this.separator : '';
    this.used = true;
    return value;
  }

  print(): string {
    return fail('a joiner prints as an address in memory');
  }
}

/** By name; each belongs to one rendering. */
export function globalsOf(date: Date, effort: Effort): ReadonlyMap<string, PythonValue> {
  const functions: Readonly<Record<string, (given: Arguments) => PythonValue>> = {
    range,
    dict: (given) => new Dict(pairsOf(given, effort)),
    namespace: (given) => new Namespace(pairsOf(given, effort), dictText),
    cycler: ({ positional, named }) =>
      positional.length === 0 || named.size > 0 ? fail('a cycler is given nothing') : new Cycler(positional),
    joiner: (given) => {
      const [separator = ', '] = bound('joiner', 'sep?', given);
      return new Joiner(separator);
    },
    lipsum: () => fail('lipsum: its text would be another each time'),
    raise_exception: raised,
    strftime_now: (given) => {
      const [format] = bound('strftime_now', 'format', given);
      return effort.text(strftime(date, string(format ?? null, 'the format of a date')));
    },
  };
  const types = ['dict'];
  return new Map(
    Object.entries(functions).map(([name, invoke]) => [
      name,
      new Callable(types.includes(name) ? 'type' : 'function', name, invoke),
    ]),
  );
}
