/**
 * Chat templates as transformers renders them: Jinja2 3.1.6 in its immutable sandbox, with blocks trimmed, `break` and
 * `continue`, `generation`, and its own `tojson`, `raise_exception` and `strftime_now`. A template that goes past what is
 * done here, or past a bound, is refused by what and line; one that renders has the text that Python gives it.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { parseJson } from '../../../swarm/parseJson.ts';
import { compileTemplate } from './compileStatements.ts';
import { globalsOf } from './globals.ts';
import { SyntaxFault } from './lexer.ts';
import { parseStatements } from './parser.ts';
import { Rendering } from './rendering.ts';
import { Effort, type PythonValue, TemplateFault } from './values.ts';

/** By name, as `parseJsonValue` reads them or `pythonValue` makes them: a number here is a float, an int is a bigint. */
export type TemplateVariables = Readonly<Record<string, PythonValue>>;

interface Template {
  /** `date`: what `strftime_now` tells, by its UTC fields. */
  render(variables: TemplateVariables, options: { readonly date: Date }): Result<string>;
}

/** What transformers always gives. */
const GIVEN: TemplateVariables = { tools: null, documents: null, add_generation_prompt: false };

const refused = (what: string, line: number): ReturnType<typeof refusal> =>
  refusal(`the chat template, line ${line}: ${what}`);

export function parseTemplate(source: string): Result<Template> {
  return guarded(
    () => 1,
    () => {
      const write = compileTemplate(parseStatements(source));
      return { render: (variables, { date }) => render(write, { ...GIVEN, ...variables }, date) };
    },
  );
}

function render(write: (rendering: Rendering) => void, variables: TemplateVariables, date: Date): Result<string> {
  const effort = new Effort();
  return guarded(
    () => effort.line,
    () => {
      const rendering = new Rendering(effort, new Map([...globalsOf(date, effort), ...Object.entries(variables)]));
      write(rendering);
      return rendering.text;
    },
  );
}

/** What a template does wrong is its refusal; a nesting that exhausts the stack is one too. */
function guarded<T>(line: () => number, perform: () => T): Result<T> {
  try {
    return success(perform());
  } catch (error) {
    if (error instanceof SyntaxFault) return refused(error.message, error.line);
    if (error instanceof TemplateFault) return refused(error.message, line());
    if (error instanceof RangeError) return refused('it is nested too deeply', line());
    throw error;
  }
}

const TOKENIZER_CONFIG_FILE = 'tokenizer_config.json';
const SPECIAL_TOKENS_FILE = 'special_tokens_map.json';
const NAMED = z.array(z.object({ name: z.string(), template: z.string() }));
const CONFIG = z.looseObject({ chat_template: z.union([z.string(), NAMED]).nullish() });
const OBJECT = z.record(z.string(), z.unknown());
const TOKEN = z.union([z.string(), z.looseObject({ content: z.string() }).transform(({ content }) => content)]);

/** A model's templates, and what they get of its special tokens. */
export interface ChatTemplate {
  /** With tools another may be meant. */
  readonly plain: Template;
  readonly withTools: Template;
  readonly specialTokens: Readonly<Record<string, string>>;
}

/** Texts of the files beside a tokenizer; null: there is none. */
interface ChatTemplateFiles {
  readonly template: string | null;
  readonly config: string | null;
  readonly specialTokens: string | null;
}

/** The template beside a tokenizer: of `chat_template.jinja`, else of `tokenizer_config.json`; null: there is none. */
export function chatTemplateOf(files: ChatTemplateFiles): Result<ChatTemplate | null> {
  const [config, map] = [
    objectIn(TOKENIZER_CONFIG_FILE, files.config),
    objectIn(SPECIAL_TOKENS_FILE, files.specialTokens),
  ];
  if (!config.ok) return config;
  if (!map.ok) return map;
  const parsed = CONFIG.safeParse(config.value);
  if (!parsed.success) {
    return refusal(`${TOKENIZER_CONFIG_FILE}: chat_template is neither a text nor a list of named ones`);
  }
  const named = files.template ?? parsed.data.chat_template ?? null;
  if (named === null) return success(null);
  const one = (name: string): string | undefined =>
    typeof named === 'string' ? named : named.find((template) => template.name === name)?.template;
  const text = one('default');
  if (text === undefined) return refusal(`${TOKENIZER_CONFIG_FILE}: no chat template is named default`);
  const plain = parseTemplate(text);
  if (!plain.ok) return plain;
  const tools = one('tool_use') ?? text;
  const withTools = tools === text ? plain : parseTemplate(tools);
  if (!withTools.ok) return withTools;
  const tokens = specialTokens(map.value, config.value, config.value.extra_special_tokens);
  return success({ plain: plain.value, withTools: withTools.value, specialTokens: tokens });
}

/** The texts of `bos_token` and the others, by these names; a later object's count. */
function specialTokens(...objects: readonly unknown[]): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const object of objects) {
    for (const [name, value] of Object.entries(OBJECT.catch({}).parse(object))) {
      const token = name.endsWith('_token') ? TOKEN.safeParse(value) : null;
      if (token?.success) tokens[name] = token.data;
    }
  }
  return tokens;
}

/** A file's fields; none where there is no such file. */
function objectIn(name: string, text: string | null): Result<Readonly<Record<string, unknown>>> {
  const json = parseJson(text ?? '{}');
  if (!json.ok) return refusal(`${name} ${json.reason}`);
  const object = OBJECT.safeParse(json.value);
  return object.success ? success(object.data) : refusal(`${name} is no JSON object`);
}
