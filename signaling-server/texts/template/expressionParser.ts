/** Jinja2's expressions, from tokens: one method for each strength of binding, the weakest first. */
import { SyntaxFault, type TemplateToken, type TokenKind } from './lexer.ts';
import type { Expression, FilterNode, GivenNodes, OptionalNode } from './nodes.ts';

interface TupleOptions {
  /** Only names and literals: a target. */
  readonly simple?: boolean;
  readonly withConditional?: boolean;
  readonly inParentheses?: boolean;
  /** `namespace.field` is a target. */
  readonly withFields?: boolean;
}

const COMPARISONS = ['==', '!=', '<', '<=', '>', '>='];
const CONSTANTS: Readonly<Record<string, boolean | null>> = {
  ...{ true: true, True: true, false: false, False: false, none: null, None: null },
};
const NO_GIVEN: GivenNodes = { positional: [], named: [], moreItems: null, moreNamed: null };
/** What Python reads of a whole number. */
const MOST_DIGITS = 4300;
/** Deeper than Python's own parser goes. */
const DEEPEST = 100;

export class ExpressionParser {
  private at = 0;
  private depth = 0;

  private readonly tokens: readonly TemplateToken[];

  constructor(tokens: readonly TemplateToken[]) {
    this.tokens = tokens;
  }

  protected get current(): TemplateToken {
    return this.ahead(0);
  }

  private ahead(count: number): TemplateToken {
    const index = Math.min(this.at + count, this.tokens.length - 1);
    return this.tokens[index] ?? { kind: 'end', text: '', line: 1 };
  }

  protected take(): TemplateToken {
    const token = this.current;
    this.at++;
    return token;
  }

  protected isAt(kind: TokenKind, text?: string): boolean {
    return this.current.kind === kind && (text === undefined || this.current.text === text);
  }

  private isOperator(...texts: readonly string[]): boolean {
    return this.current.kind === 'operator' && texts.includes(this.current.text);
  }

  protected takeIf(kind: TokenKind, text: string): boolean {
    const fits = this.isAt(kind, text);
    if (fits) this.at++;
    return fits;
  }

  protected expect(kind: TokenKind, text?: string): TemplateToken {
    if (this.isAt(kind, text)) return this.take();
    const wanted = text ?? (kind === 'block_end' ? '%}' : kind === 'variable_end' ? '}}' : `a ${kind}`);
    return this.fault(`${this.found()} where ${wanted} is wanted`);
  }

  private found(): string {
    const { kind, text } = this.current;
    return kind === 'end' ? 'the end' : kind === 'string' ? `'${text}'` : text.trim();
  }

  protected fault(reason: string, line = this.current.line): never {
    throw new SyntaxFault(reason, line);
  }

  /** Bounds how deep one thing lies in another. */
  protected nested<T>(parse: () => T): T {
    if (++this.depth > DEEPEST) this.fault(`more than ${DEEPEST} levels in each other`);
    const result = parse();
    this.depth--;
    return result;
  }

  protected expression(withConditional = true): Expression {
    return this.nested(() => (withConditional ? this.conditional() : this.or()));
  }

  private conditional(): Expression {
    let { line } = this.current;
    let then = this.or();
    while (this.takeIf('name', 'if')) {
      const test = this.or();
      const otherwise = this.takeIf('name', 'else') ? this.nested(() => this.conditional()) : null;
      then = { kind: 'conditional', test, then, otherwise, line };
      ({ line } = this.current);
    }
    return then;
  }

  private or(): Expression {
    return this.chain(['or'], 'or', () => this.and());
  }

  private and(): Expression {
    return this.chain(['and'], 'and', () => this.not());
  }

  private not(): Expression {
    const { line } = this.current;
    if (!this.takeIf('name', 'not')) return this.comparison();
    return { kind: 'not', operator: 'not', operands: [this.nested(() => this.not())], line };
  }

  /** Operations of one strength, from left to right. */
  private chain(operators: readonly string[], kind: 'and' | 'or' | 'binary', operand: () => Expression): Expression {
    let { line } = this.current;
    let left = operand();
    while (['operator', 'name'].includes(this.current.kind) && operators.includes(this.current.text)) {
      const operator = this.take().text;
      left = { kind, operator, operands: [left, operand()], line };
      ({ line } = this.current);
    }
    return left;
  }

  private comparison(): Expression {
    let { line } = this.current;
    const first = this.sum();
    const rest: { operator: string; operand: Expression }[] = [];
    for (;;) {
      const { text } = this.current;
      const next = this.ahead(1);
      if (this.isOperator(...COMPARISONS) || this.isAt('name', 'in')) {
        this.take();
        rest.push({ operator: text, operand: this.sum() });
      } else if (this.isAt('name', 'not') && next.kind === 'name' && next.text === 'in') {
        this.at += 2;
        rest.push({ operator: 'not in', operand: this.sum() });
      } else break;
      ({ line } = this.current);
    }
    return rest.length === 0 ? first : { kind: 'compare', first, rest, line };
  }

  private sum(): Expression {
    return this.chain(['+', '-'], 'binary', () => this.concat());
  }

  private concat(): Expression {
    const { line } = this.current;
    const items = [this.product()];
    while (this.takeIf('operator', '~')) items.push(this.product());
    const [only] = items;
    return items.length === 1 && only !== undefined ? only : { kind: 'concat', items, line };
  }

  private product(): Expression {
    return this.chain(['*', '/', '//', '%'], 'binary', () => this.power());
  }

  private power(): Expression {
    return this.chain(['**'], 'binary', () => this.unary(true));
  }

  private unary(withFilters: boolean): Expression {
    const { line, text } = this.current;
    let node: Expression;
    if (this.isOperator('-', '+')) {
      this.take();
      node = { kind: 'unary', operator: text, operands: [this.nested(() => this.unary(false))], line };
    } else node = this.primary(false);
    node = this.postfix(node);
    return withFilters ? this.filtersAndTests(node) : node;
  }

  private primary(withFields: boolean): Expression {
    const { kind, text, line } = this.current;
    if (kind === 'name') {
      this.take();
      const constant = Object.hasOwn(CONSTANTS, text) ? CONSTANTS[text] : undefined;
      if (constant !== undefined) return { kind: 'constant', value: constant, line };
      if (withFields && this.takeIf('operator', '.'))
        return { kind: 'field', name: text, field: this.expect('name').text, line };
      return { kind: 'name', name: text, use: 'load', line };
    }
    if (kind === 'string') {
      const parts: string[] = [];
      while (this.isAt('string')) parts.push(this.take().text);
      return { kind: 'constant', value: parts.join(''), line };
    }
    if (kind === 'integer' || kind === 'float') {
      const digits = this.take().text.replaceAll('_', '');
      if (kind === 'integer' && digits.length > MOST_DIGITS) this.fault('a number has too many digits', line);
      const value = kind === 'integer' ? BigInt(digits) : Number(digits);
      if (value === Number.POSITIVE_INFINITY) this.fault(`the number ${digits} is too large`, line);
      return { kind: 'constant', value, line };
    }
    if (this.takeIf('operator', '(')) {
      const node = this.nested(() => this.tuple({ inParentheses: true }));
      this.expect('operator', ')');
      return node;
    }
    if (this.takeIf('operator', '[')) return { kind: 'list', items: this.items(']', () => this.expression()), line };
    if (!this.takeIf('operator', '{')) return this.fault(`unexpected ${this.found()}`);
    const pairs = this.items('}', () => {
      const key = this.expression();
      this.expect('operator', ':');
      return [key, this.expression()] as const;
    });
    return { kind: 'dict', pairs, line };
  }

  /** With commas between, and one after the last if it likes. */
  private items<T>(close: string, one: () => T): T[] {
    const items: T[] = [];
    while (!this.isAt('operator', close)) {
      if (items.length > 0) this.expect('operator', ',');
      if (this.isAt('operator', close)) break;
      items.push(one());
    }
    this.expect('operator', close);
    return items;
  }

  /** One expression, or with commas a tuple of them. */
  protected tuple(options: TupleOptions): Expression {
    let { line } = this.current;
    const items: Expression[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) this.expect('operator', ',');
      if (this.isTupleEnd()) break;
      items.push(
        options.simple ? this.primary(options.withFields ?? false) : this.expression(options.withConditional ?? true),
      );
      if (!this.isAt('operator', ',')) break;
      isTuple = true;
      ({ line } = this.current);
    }
    const [only] = items;
    if (!isTuple && only !== undefined) return only;
    if (!isTuple && !options.inParentheses) this.fault(`${this.found()} where an expression is wanted`);
    return { kind: 'tuple', items, line };
  }

  private isTupleEnd(): boolean {
    return ['variable_end', 'block_end'].includes(this.current.kind) || this.isOperator(')');
  }

  private postfix(start: Expression): Expression {
    let node = start;
    for (;;) {
      if (this.isOperator('.', '[')) node = this.part(node);
      else if (this.isOperator('(')) node = this.call(node);
      else return node;
    }
  }

  private filtersAndTests(start: Expression): Expression {
    let node = start;
    for (;;) {
      if (this.isOperator('|')) node = this.filters(node, false) ?? node;
      else if (this.isAt('name', 'is')) node = this.test(node);
      else if (this.isOperator('(')) node = this.call(node);
      else return node;
    }
  }

  private part(of: Expression): Expression {
    const { text, line } = this.take();
    if (text === '.') {
      const token = this.take();
      if (token.kind === 'name') return { kind: 'attribute', of, name: token.text, line };
      if (token.kind !== 'integer') this.fault('a name or number is wanted behind a dot', token.line);
      const key: Expression = { kind: 'constant', value: BigInt(token.text.replaceAll('_', '')), line: token.line };
      return { kind: 'item', of, key, line };
    }
    if (this.isOperator(']')) {
      this.take();
      return { kind: 'item', of, key: { kind: 'tuple', items: [], line }, line };
    }
    const found = this.subscribed(of, line);
    if (!this.isOperator(',')) {
      this.expect('operator', ']');
      return found;
    }
    if (found.kind !== 'item') return this.fault('several slices');
    const items = [found.key];
    while (this.takeIf('operator', ',')) {
      const next = this.subscribed(of, line);
      items.push(next.kind === 'item' ? next.key : this.fault('several slices'));
    }
    this.expect('operator', ']');
    return { kind: 'item', of, key: { kind: 'tuple', items, line }, line };
  }

  private subscribed(of: Expression, line: number): Expression & { kind: 'item' | 'slice' } {
    const limits: OptionalNode[] = [];
    const limit = (): void => {
      limits.push(this.isOperator(':', ']', ',') ? null : this.expression());
    };
    limit();
    const [key] = limits;
    if (!this.isOperator(':') && key) return { kind: 'item', of, key, line };
    while (limits.length < 3 && this.takeIf('operator', ':')) limit();
    const [start = null, stop = null, step = null] = limits;
    return { kind: 'slice', of, limits: [start, stop, step], line };
  }

  private call(callee: Expression): Expression {
    const { line } = this.current;
    return { kind: 'call', callee, given: this.given(), line };
  }

  private given(): GivenNodes {
    const { line } = this.expect('operator', '(');
    const positional: Expression[] = [];
    const named = new Map<string, Expression>();
    let [moreItems, moreNamed]: OptionalNode[] = [null, null];
    const ensure = (condition: boolean): void => {
      if (!condition) this.fault('the arguments of a call are in no order that Python has', line);
    };
    this.items(')', () => {
      const next = this.ahead(1);
      if (this.takeIf('operator', '*')) {
        ensure(!moreItems && !moreNamed);
        moreItems = this.expression();
      } else if (this.takeIf('operator', '**')) {
        ensure(!moreNamed);
        moreNamed = this.expression();
      } else if (this.isAt('name') && next.kind === 'operator' && next.text === '=') {
        const { text } = this.take();
        ensure(!moreNamed && !named.has(text));
        this.take();
        named.set(text, this.expression());
      } else {
        ensure(!moreItems && !moreNamed && named.size === 0);
        positional.push(this.expression());
      }
    });
    return { positional, named: [...named], moreItems: moreItems ?? null, moreNamed: moreNamed ?? null };
  }

  private dottedName(): string {
    let name = this.expect('name').text;
    while (this.takeIf('operator', '.')) name += `.${this.expect('name').text}`;
    return name;
  }

  /** `| a | b(…)`; `inline`: the first without its bar. */
  protected filters(of: OptionalNode, inline: false): FilterNode | null;
  protected filters(of: OptionalNode, inline: true): FilterNode;
  protected filters(of: OptionalNode, inline: boolean): FilterNode | null {
    let node: FilterNode | null = null;
    let bare = inline;
    while (bare || this.takeIf('operator', '|')) {
      bare = false;
      const { line } = this.current;
      const name = this.dottedName();
      const given = this.isOperator('(') ? this.given() : NO_GIVEN;
      node = { kind: 'filter', of: node ?? of, name, given, line };
    }
    return node;
  }

  private test(of: Expression): Expression {
    const { line } = this.take();
    const negated = this.takeIf('name', 'not');
    const name = this.dottedName();
    let given = NO_GIVEN;
    if (this.isOperator('(')) given = this.given();
    else if (this.beginsOperand()) {
      if (this.isAt('name', 'is')) this.fault('tests are chained');
      given = { ...NO_GIVEN, positional: [this.postfix(this.primary(false))] };
    }
    const node: Expression = { kind: 'test', of, name, given, line };
    return negated ? { kind: 'not', operator: 'not', operands: [node], line } : node;
  }

  /** Whether what follows a test's name is its argument. */
  private beginsOperand(): boolean {
    const { kind, text } = this.current;
    if (kind === 'name') return !['else', 'or', 'and'].includes(text);
    return ['string', 'integer', 'float'].includes(kind) || this.isOperator('[', '{');
  }
}
