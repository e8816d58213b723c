/** Jinja2's statements, from tokens. */
import { ExpressionParser } from './expressionParser.ts';
import { tokensOf } from './lexer.ts';
import type { Body, Expression, FilterNode, IfBranch, NameUse, Signature, Statement } from './nodes.ts';

const NO_SIGNATURE: Signature = { parameters: [], defaults: [] };
const REFUSED = ['include', 'import', 'from', 'extends'];

/** The statements of a template; throws a SyntaxFault. */
export function parseStatements(source: string): Body {
  return new Parser(tokensOf(source)).template();
}

/** A target's names are assigned, not read. */
function assigned(node: Expression, use: NameUse): Expression {
  if (node.kind === 'name') return { ...node, use };
  return node.kind === 'tuple' ? { ...node, items: node.items.map((item) => assigned(item, use)) } : node;
}

class Parser extends ExpressionParser {
  template(): Body {
    return this.body([]);
  }

  /** Statements up to a tag of one of these names, which is left to be read; without names up to the end. */
  private body(ends: readonly string[]): Body {
    const statements: Statement[] = [];
    let parts: (string | Expression)[] = [];
    let { line } = this.current;
    const flush = (): void => {
      if (parts.length > 0) statements.push({ kind: 'output', parts, line });
      parts = [];
    };
    while (this.current.kind !== 'end') {
      const token = this.take();
      if (parts.length === 0) line = token.line;
      if (token.kind === 'data') parts.push(token.text);
      else if (token.kind === 'variable_begin') {
        parts.push(this.tuple({}));
        this.expect('variable_end');
      } else {
        flush();
        if (this.current.kind === 'name' && ends.includes(this.current.text)) return statements;
        statements.push(this.statement());
        this.expect('block_end');
      }
    }
    flush();
    return ends.length === 0 ? statements : this.fault(`the template ends where ${ends.join(' or ')} is wanted`);
  }

  /** A block's body, from its tag's end to the tag that closes it. */
  private inner(...ends: readonly string[]): Body {
    this.takeIf('operator', ':');
    this.expect('block_end');
    return this.body(ends);
  }

  private closed(end: string): Body {
    const body = this.inner(end);
    this.take();
    return body;
  }

  private statement(): Statement {
    return this.nested(() => this.tag());
  }

  private tag(): Statement {
    const { text, line } = this.expect('name');
    switch (text) {
      case 'set':
        return this.set(line);
      case 'for':
        return this.loop(line);
      case 'if':
        return this.condition(line);
      case 'macro': {
        const name = this.targetName();
        const signature = this.signature();
        return { kind: 'macro', name, signature, body: this.closed('endmacro'), line };
      }
      case 'call':
        return this.callBlock(line);
      case 'generation':
        return { kind: 'callBlock', call: null, signature: NO_SIGNATURE, body: this.closed('endgeneration'), line };
      case 'filter': {
        const filter = this.filters(null, true) ?? this.fault('a filter is wanted');
        return { kind: 'filterBlock', filter, body: this.closed('endfilter'), line };
      }
      case 'with':
        return this.withBlock(line);
      case 'print':
        return this.print(line);
      case 'block':
        return this.block(line);
      case 'autoescape': {
        const on = this.expression();
        if (on.kind !== 'constant' || on.value !== false) this.fault('autoescape is not done', line);
        return { kind: 'scope', body: this.closed('endautoescape'), line };
      }
      case 'break':
      case 'continue':
        return { kind: text, line };
      default:
        return this.fault(REFUSED.includes(text) ? `${text} reads another file` : `the tag ${text} is not known`, line);
    }
  }

  private set(line: number): Statement {
    const target = this.target(true);
    if (this.takeIf('operator', '=')) return { kind: 'set', target, value: this.tuple({}), line };
    const filter: FilterNode | null = this.filters(null, false);
    return { kind: 'setBlock', target, filter, body: this.closed('endset'), line };
  }

  private loop(line: number): Statement {
    const target = this.target();
    this.expect('name', 'in');
    const over = this.tuple({ withConditional: false });
    const test = this.takeIf('name', 'if') ? this.expression() : null;
    const recursive = this.takeIf('name', 'recursive');
    const body = this.inner('endfor', 'else');
    const otherwise = this.take().text === 'else' ? this.closed('endfor') : [];
    return { kind: 'for', target, over, test, recursive, body, otherwise, line };
  }

  private condition(line: number): Statement {
    const branches: IfBranch[] = [];
    for (;;) {
      const test = this.tuple({ withConditional: false });
      branches.push({ test, body: this.inner('elif', 'else', 'endif') });
      const { text } = this.take();
      if (text === 'elif') continue;
      return { kind: 'if', branches, otherwise: text === 'else' ? this.closed('endif') : [], line };
    }
  }

  private callBlock(line: number): Statement {
    const signature = this.isAt('operator', '(') ? this.signature() : NO_SIGNATURE;
    const call = this.expression();
    if (call.kind !== 'call') return this.fault('a call is wanted', line);
    return { kind: 'callBlock', call, signature, body: this.closed('endcall'), line };
  }

  private withBlock(line: number): Statement {
    const targets: Expression[] = [];
    const values: Expression[] = [];
    while (this.current.kind !== 'block_end') {
      if (targets.length > 0) this.expect('operator', ',');
      targets.push(assigned(this.target(), 'parameter'));
      this.expect('operator', '=');
      values.push(this.expression());
    }
    return { kind: 'with', targets, values, body: this.closed('endwith'), line };
  }

  private print(line: number): Statement {
    const parts: Expression[] = [];
    while (this.current.kind !== 'block_end') {
      if (parts.length > 0) this.expect('operator', ',');
      parts.push(this.expression());
    }
    return { kind: 'output', parts, line };
  }

  private block(line: number): Statement {
    const name = this.expect('name').text;
    if (this.isAt('name', 'scoped') || this.isAt('name', 'required'))
      this.fault(`a block that is ${this.current.text}`);
    const body = this.closed('endblock');
    this.takeIf('name', name);
    return { kind: 'block', name, body, line };
  }

  private signature(): Signature {
    const parameters: string[] = [];
    const defaults: Expression[] = [];
    this.expect('operator', '(');
    while (!this.isAt('operator', ')')) {
      if (parameters.length > 0) this.expect('operator', ',');
      parameters.push(this.targetName());
      if (this.takeIf('operator', '=')) defaults.push(this.expression());
      else if (defaults.length > 0) this.fault('a parameter without a default follows one with a default');
    }
    this.expect('operator', ')');
    if (new Set(parameters).size < parameters.length) this.fault('two parameters have one name');
    return { parameters, defaults };
  }

  private targetName(): string {
    const { text, line } = this.expect('name');
    return /^(?:[tT]rue|[fF]alse|[nN]one)$/.test(text) ? this.fault(`${text} is assigned to`, line) : text;
  }

  private target(withFields = false): Expression {
    const { line } = this.current;
    const node = this.tuple({ simple: true, withFields });
    const check = (part: Expression): void => {
      if (part.kind === 'tuple') part.items.forEach(check);
      else if (part.kind !== 'name' && part.kind !== 'field') this.fault('only a name can be assigned to', line);
    };
    check(node);
    return assigned(node, 'store');
  }
}
