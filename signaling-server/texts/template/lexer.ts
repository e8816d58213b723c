/**
 * A template's text as tokens, as Jinja2 cuts it with `trim_blocks` and `lstrip_blocks`: a newline after a block's end
 * goes, blanks from a line's beginning to a block go, and what a minus asks for. A closing brace inside an open one is part
 * of the expression, not the tag's end.
 */
import { isSpace, SPACE, strip } from './casing.ts';
import { TemplateFault } from './values.ts';

export type TokenKind =
  | 'data'
  | 'block_begin'
  | 'block_end'
  | 'variable_begin'
  | 'variable_end'
  | 'name'
  | 'string'
  | 'integer'
  | 'float'
  | 'operator'
  | 'end';

export interface TemplateToken {
  readonly kind: TokenKind;
  /** A name, an operator, or a text: of a number as it is written. */
  readonly text: string;
  readonly line: number;
}

/** A template that is none: what and where. */
export class SyntaxFault extends TemplateFault {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

const BEGIN = /\{[%{#]/g;
const RAW_BEGIN = new RegExp(`\\{%[-+]?[${SPACE}]*raw[${SPACE}]*(?:-%\\}[${SPACE}]*|%\\})`, 'y');
const RAW_END = new RegExp(`\\{%([-+]?)[${SPACE}]*endraw[${SPACE}]*(?:\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?)`, 'g');
const COMMENT_END = new RegExp(`\\+#\\}|-#\\}[${SPACE}]*|#\\}\\n?`, 'g');
const BLOCK_END = new RegExp(`\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?`, 'y');
const VARIABLE_END = new RegExp(`-\\}\\}[${SPACE}]*|\\}\\}`, 'y');
const BLANK = new RegExp(`[${SPACE}]+`, 'y');
const FLOAT = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/y;
const INTEGER = /0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*/y;
const NAME = /[\p{XIDC}\p{L}\p{N}_]+/uy;
const IDENTIFIER = /^[\p{XIDS}_]\p{XIDC}*$/u;
const STRING = /'[^'\\]*(?:\\[\s\S][^'\\]*)*'|"[^"\\]*(?:\\[\s\S][^"\\]*)*"/y;
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/y;
const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** All tokens; the last one is the end. */
export function tokensOf(template: string): readonly TemplateToken[] {
  const source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  const tokens: TemplateToken[] = [];
  const lineAt = lineCounter(source);
  let at = 0;
  let lineStarts = true;
  const data = (to: number, sign: string, isVariable: boolean): void => {
    const text = shortened(source.slice(at, to), { sign, isVariable, lineStarts });
    if (text !== '') tokens.push({ kind: 'data', text, line: lineAt(at) });
  };
  const goTo = (end: number): void => {
    lineStarts = source.charAt(end - 1) === '\n';
    at = end;
  };
  while (at < source.length) {
    BEGIN.lastIndex = at;
    const begin = BEGIN.exec(source);
    if (begin === null) {
      tokens.push({ kind: 'data', text: source.slice(at), line: lineAt(at) });
      break;
    }
    const { index } = begin;
    const sign = /[-+]/.exec(source.charAt(index + 2))?.[0] ?? '';
    const line = lineAt(index);
    data(index, sign, begin[0] === '{{');
    const raw = begin[0] === '{%' ? matchAt(RAW_BEGIN, source, index) : null;
    if (raw !== null) {
      const from = index + raw.length;
      RAW_END.lastIndex = from;
      const end = RAW_END.exec(source) ?? fault('raw has no end', line);
      goTo(from);
      data(end.index, end[1] ?? '', false);
      goTo(end.index + end[0].length);
    } else if (begin[0] === '{#') {
      COMMENT_END.lastIndex = index + 2 + sign.length;
      const end = COMMENT_END.exec(source) ?? fault('a comment has no end', line);
      goTo(end.index + end[0].length);
    } else {
      const isBlock = begin[0] === '{%';
      tokens.push({ kind: isBlock ? 'block_begin' : 'variable_begin', text: begin[0], line });
      goTo(tagTokens(source, index + 2 + sign.length, { isBlock, tokens, lineAt }));
    }
  }
  tokens.push({ kind: 'end', text: '', line: lineAt(source.length) });
  return tokens;
}

function fault(reason: string, line: number): never {
  throw new SyntaxFault(reason, line);
}

/** The line of a place; asked in rising order it counts each newline once. */
function lineCounter(source: string): (at: number) => number {
  let line = 1;
  let counted = 0;
  return (at) => {
    for (let next = source.indexOf('\n', counted); next >= 0 && next < at; next = source.indexOf('\n', counted)) {
      line++;
      counted = next + 1;
    }
    return line;
  };
}

function matchAt(pattern: RegExp, source: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? null;
}

interface TextBefore {
  readonly sign: string;
  readonly isVariable: boolean;
  readonly lineStarts: boolean;
}

/** The text before a tag, less what the tag takes of it. */
function shortened(text: string, { sign, isVariable, lineStarts }: TextBefore): string {
  if (sign === '-') return strip(text, null, 'right');
  if (sign === '+' || isVariable) return text;
  const from = text.lastIndexOf('\n') + 1;
  return (from > 0 || lineStarts) && isSpace(text.slice(from)) ? text.slice(0, from) : text;
}

interface TagSurroundings {
  readonly isBlock: boolean;
  readonly tokens: TemplateToken[];
  readonly lineAt: (at: number) => number;
}

/** The tokens of one tag from a place on; answers with the place behind it. */
function tagTokens(source: string, from: number, { isBlock, tokens, lineAt }: TagSurroundings): number {
  const open: string[] = [];
  let at = from;
  while (at < source.length) {
    const end = open.length === 0 ? matchAt(isBlock ? BLOCK_END : VARIABLE_END, source, at) : null;
    const line = lineAt(at);
    if (end !== null) {
      tokens.push({ kind: isBlock ? 'block_end' : 'variable_end', text: end, line });
      return at + end.length;
    }
    const blank = matchAt(BLANK, source, at);
    const token = blank === null ? tokenAt(source, at, line) : null;
    if (token?.kind === 'operator') balance(token, open);
    if (token !== null) tokens.push(token.kind === 'string' ? { ...token, text: unescaped(token) } : token);
    at += (blank ?? token?.text ?? '').length;
  }
  return at;
}

function tokenAt(source: string, at: number, line: number): TemplateToken {
  const kinds: readonly (readonly [TokenKind, RegExp])[] = [
    ...[['float', FLOAT] as const, ['integer', INTEGER] as const, ['name', NAME] as const],
    ...[['string', STRING] as const, ['operator', OPERATOR] as const],
  ];
  for (const [kind, pattern] of kinds) {
    const text = matchAt(pattern, source, at);
    if (text === null) continue;
    if (kind === 'name' && (!IDENTIFIER.test(text) || text !== text.normalize('NFKC'))) fault(`the name ${text}`, line);
    return { kind, text, line };
  }
  return fault(`unexpected ${String.fromCodePoint(source.codePointAt(at) ?? 0)}`, line);
}

function balance({ text, line }: TemplateToken, open: string[]): void {
  const closing = CLOSING[text];
  if (closing !== undefined) open.push(closing);
  else if (/[)\]}]/.test(text) && open.pop() !== text) fault(`unexpected ${text}`, line);
}

const SIMPLE: Readonly<Record<string, string>> = {
  ...{ '\n': '', '\\': '\\', "'": "'", '"': '"', a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' },
};

/** A character outside ASCII behind a backslash becomes the text of its escape: Python escapes it before it looks. */
const ESCAPE = /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([\s\S]))/gu;

function unescaped({ text, line }: TemplateToken): string {
  const result = text.slice(1, -1).replace(ESCAPE, (whole, octal, hex, four, eight, other: string | undefined) => {
    if (other === undefined) {
      const code = octal === undefined ? Number.parseInt(hex ?? four ?? eight, 16) : Number.parseInt(octal, 8);
      const isCharacter = code <= 0x10ffff && (code < 0xd800 || code >= 0xe000);
      return isCharacter ? String.fromCodePoint(code) : fault(`${whole} is no character`, line);
    }
    const code = other.codePointAt(0) ?? 0;
    if (code < 0x80) return 'xuUN'.includes(other) ? fault(`the escape ${whole}`, line) : (SIMPLE[other] ?? whole);
    const [letter, digits] = code < 0x100 ? ['x', 2] : code < 0x10000 ? ['u', 4] : ['U', 8];
    return `\\${letter}${code.toString(16).padStart(digits, '0')}`;
  });
  return result;
}
