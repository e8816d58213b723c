/** One rendering of a template: its variables, what it has written so far, and how deep its calls are. */
import { type Kept, MISSING } from './symbols.ts';
import { type Effort, fail, type PythonValue } from './values.ts';

/** Python's own limit is near. */
const DEEPEST_CALLS = 150;

export class Rendering {
  private pieces: string[] = [];
  private depth = 0;
  private readonly exported = new Map<string, Kept>();

  readonly effort: Effort;
  private readonly variables: ReadonlyMap<string, PythonValue>;

  constructor(effort: Effort, variables: ReadonlyMap<string, PythonValue>) {
    this.effort = effort;
    this.variables = variables;
  }

  get text(): string {
    return this.pieces.join('');
  }

  readonly write = (text: string): void => {
    this.effort.room(text.length);
    this.written += text.length;
    this.effort.room(this.written);
    this.pieces.push(text);
  };
  private written = 0;

  /** A variable by its name: what the top of the template has assigned so far, else what was given. */
  resolve(name: string): Kept {
    for (const names of [this.exported, this.variables]) {
      const value = names.get(name);
      if (value !== undefined) return value;
    }
    return MISSING;
  }

  exportName(name: string, value: Kept): void {
    this.exported.set(name, value);
  }

  /** What is written meanwhile, apart from the rest. */
  capture<T>(perform: () => T): { readonly leaving: T; readonly text: string } {
    const outer = this.pieces;
    this.pieces = [];
    const leaving = perform();
    const text = this.effort.text(this.pieces.join(''));
    this.pieces = outer;
    return { leaving, text };
  }

  /** The text of a macro or a loop that calls itself. */
  called(perform: () => unknown): string {
    if (++this.depth > DEEPEST_CALLS) fail(`more than ${DEEPEST_CALLS} calls in each other`);
    const { text } = this.capture(perform);
    this.depth--;
    return text;
  }
}
