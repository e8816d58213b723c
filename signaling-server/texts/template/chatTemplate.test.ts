/**
 * Chat templates against texts that Jinja2 3.1.6 made of them: `cases.json` by way of transformers 5.18, `jinja.json` by its
 * sandbox with the same settings (null: it raises). A text is equal or refused in a sentence, never another one.
 */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import type { Result } from '../../../swarm/base.ts';
import { goldenFolder } from '../../testing/goldenCase.ts';
import { chatTemplateOf, parseTemplate, type TemplateVariables } from './chatTemplate.ts';
import { fieldsOf, parseJsonValue, pythonValue } from './jsonText.ts';
import { type PythonValue, plainText } from './values.ts';

const DATE = new Date(Date.UTC(2024, 6, 9, 15, 4, 5));

function render(template: string, variables: TemplateVariables = {}): Result<string> {
  const parsed = parseTemplate(template);
  return parsed.ok ? parsed.value.render(variables, { date: DATE }) : parsed;
}

const reason = (result: Result<unknown>): string => (result.ok ? `none: ${String(result.value)}` : result.reason);

async function goldenValue(name: string): Promise<PythonValue> {
  const parsed = parseJsonValue(await readFile(new URL(name, goldenFolder('templates')), 'utf8'));
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

const items = (value: PythonValue | undefined): readonly PythonValue[] => (Array.isArray(value) ? value : []);
const fields = (value: PythonValue | undefined): Record<string, PythonValue> =>
  Object.fromEntries(fieldsOf(value ?? null) ?? []);
const text = (value: PythonValue | undefined): string => plainText(value ?? null) ?? '';

test('every golden template has the text that transformers makes of it', async () => {
  const cases = items(await goldenValue('cases.json')).map(fields);
  expect(cases).toHaveLength(377);
  const rendered = cases.map(({ name, template, variables }) => ({
    name: text(name),
    text: render(text(template), fields(variables)),
  }));
  expect(rendered).toEqual(cases.map(({ name, text }) => ({ name, text: { ok: true, value: text } })));
});

test('what Jinja2 renders has its text, what it raises for is refused', async () => {
  const { variables, cases } = fields(await goldenValue('jinja.json'));
  const all = items(cases).map((pair) => items(pair));
  expect(all.length).toBeGreaterThan(600);
  const notDone: string[] = [];
  for (const [template, expected] of all) {
    const result = render(text(template), fields(variables));
    if (result.ok) expect([template, result.value]).toEqual([template, expected]);
    else {
      expect(result.reason).toMatch(/^the chat template, line \d+: [^\n]+$/);
      if (expected !== null) notDone.push(text(template));
    }
  }
  expect(notDone).toMatchInlineSnapshot(`
    [
      "{{ 10**-3 }}",
      "{{ 1e400 }}",
      "{{ none[1:2] }}",
      "{{ "{:n}".format(5) }}",
      "{{ 1 .real }}",
      "{{ s|wordwrap(5) }}",
      "{% set ns = namespace() %}{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}",
      "{{ self.a() }}{% block a %}x{% endblock %}",
      "{% autoescape true %}{{ "<" }}{% endautoescape %}",
      "{% raw %}",
    ]
  `);
});

test.each([
  ['a\n{{ zz.y }}', "line 2: 'zz' is undefined"],
  ['{{ d.zz.y }}', "line 1: a value of type dict has no 'zz'"],
  ['\n\n{% if x %}', 'line 3: the template ends where elif or else or endif is wanted'],
  ['a\n\n{{ 1 +\n}}', 'line 4: unexpected }}'],
  ['{{ raise_exception("take turns") }}', 'line 1: the template refuses: take turns'],
  ['{% include "x" %}', 'line 1: include reads another file'],
  ['{% frob %}', 'line 1: the tag frob is not known'],
  ['{{ x | frob }}', 'line 1: there is no filter frob'],
  ['{{ x is frob }}', 'line 1: there is no test frob'],
  ['{{ [1, 2] | random }}', 'line 1: the filter random: its text would be another each time'],
  ['{{ d.clear() }}', 'line 1: the attribute clear of a value of type dict is forbidden'],
  ['{% for i in [1] %}\n{{ i + "a" }}{% endfor %}', 'line 2: a value of type int + a value of type str'],
  ['{{ "\\ud83d" }}', 'line 1: \\ud83d is no character'],
])('%j is refused by what and line', (template, sentence) => {
  const d = pythonValue({ a: 1 });
  const variables = { d: d.ok ? d.value : null, x: 1n };
  expect(reason(render(template, variables))).toBe(`the chat template, ${sentence}`);
});

const DOUBLED = (start: string, step: string, end: string): string =>
  `{% set ns = namespace(v=${start}) %}{% for i in range(60) %}{% set ns.v = ${step} %}{% endfor %}${end}`;

test.each([
  '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}',
  '{% for i in range(90000) %}{{ "x" * 1000 }}{% endfor %}',
  '{{ "x" * 10 ** 12 }}',
  '{{ [1] * 10 ** 12 }}',
  '{{ 10 ** (10 ** 10) }}',
  '{{ "%*d" % (10 ** 12, 1) }}',
  '{{ "{:1000000000000}".format(1) }}',
  '{{ "a".ljust(10 ** 12) }}',
  '{{ "a" | indent(10 ** 12) }}',
  '{{ range(10 ** 12) }}',
  '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}',
  DOUBLED('"x"', 'ns.v ~ ns.v', ''),
  DOUBLED('"x"', 'ns.v | replace("x", "xx")', ''),
  DOUBLED('[1]', 'ns.v + ns.v', ''),
  DOUBLED('1', '[ns.v, ns.v]', '{{ ns.v | tojson }}'),
  DOUBLED('1', '[ns.v, ns.v]', '{{ ns.v }}'),
  DOUBLED('0, w=0', '[ns.v, ns.v] %}{% set ns.w = [ns.w, ns.w]', '{{ ns.v == ns.w }}'),
  DOUBLED('1', '(ns.v, ns.v)', '{{ {ns.v: 1} }}'),
])('%j ends in a sentence', (template) => {
  expect(reason(render(template))).toMatch(/^the chat template, line 1: [^\n]+$/);
});

test('a nesting too deep for the stack ends in a sentence', () => {
  for (const [open, close] of [
    ['(', ')'],
    ['[', ']'],
    ['not ', ''],
    ['-', ''],
  ] as const) {
    const template = `{{ ${open.repeat(5000)}1${close.repeat(5000)} }}`;
    expect(reason(render(template))).toBe('the chat template, line 1: more than 100 levels in each other');
  }
  expect(reason(render(`{{ ${'1 + '.repeat(20_000)}1 }}`))).toMatch(/^the chat template, line 1: [^\n]+$/);
});

test('JSON is read as Python reads it', () => {
  const template = '{{ v }} {{ v | tojson }}';
  const value = parseJsonValue('{"10": 1.0, "9": 12345678901234567890, "a": [1e3, -0, "\\ud83d\\udc1f"], "a": 1E-7}');
  expect(value.ok && render(template, { v: value.value })).toEqual({
    ok: true,
    value: `{'10': 1.0, '9': 12345678901234567890, 'a': 1e-07} {"10": 1.0, "9": 12345678901234567890, "a": 1e-07}`,
  });
  for (const bad of ['', '{', '[1,]', '{"a" 1}', '01', '[1] 2', '"\n"', `${'['.repeat(300)}`]) {
    expect(parseJsonValue(bad).ok, bad).toBe(false);
  }
});

test('what JavaScript has lost of JSON is refused, not guessed', () => {
  expect(pythonValue({ a: [1, 1.5, null, true, 'x'] })).toEqual(pythonValue({ a: [1n, 1.5, null, true, 'x'] }));
  const deep = JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`);
  expect([2 ** 53, { 10: 1, b: 2 }, '\ud83d', deep].map((lost) => reason(pythonValue(lost)))).toEqual([
    'a whole number past 2^53 has lost digits',
    'keys that are numbers have lost their order',
    'a text has half a character',
    'data is nested in more than 200 levels',
  ]);
});

test('a template lies beside the tokenizer, or in its config, with the texts of its special tokens', () => {
  const textOf = (content: unknown): string | null =>
    content === null || typeof content === 'string' ? content : JSON.stringify(content);
  const rendered = (template: string | null, config: unknown, specialTokens: unknown = null): unknown => {
    const read = chatTemplateOf({ template, config: textOf(config), specialTokens: textOf(specialTokens) });
    if (!read.ok || read.value === null) return read;
    const { plain, withTools } = read.value;
    return [plain, withTools].map((one) => reason(one.render(read.value?.specialTokens ?? {}, { date: DATE })));
  };
  expect(rendered(null, null)).toEqual({ ok: true, value: null });
  const eos = { content: '</s>', lstrip: false };
  const tokens = { bos_token: '<s>', eos_token: eos, add_bos_token: true, pad_token: null };
  const one = { ...tokens, chat_template: '{{ bos_token }}{{ eos_token }}{{ pad_token }}' };
  expect(rendered(null, one)).toEqual(['none: <s></s>', 'none: <s></s>']);
  const more = {
    ...{ bos_token: '<s>', extra_special_tokens: { image_token: '<i>' } },
    chat_template: '{{ bos_token }}{{ pad_token }}{{ image_token }}',
  };
  const map = { bos_token: '<b>', pad_token: '<p>' };
  expect(rendered(null, more, map)).toEqual(['none: <s><p><i>', 'none: <s><p><i>']);
  const named = ['default', 'tool_use', 'rag'].map((name) => ({ name, template: `${name}{{ eos_token }}` }));
  const several = { ...tokens, chat_template: named };
  expect(rendered(null, several)).toEqual(['none: default</s>', 'none: tool_use</s>']);
  expect(rendered('file{{ bos_token }}\n', several)).toEqual(['none: file<s>', 'none: file<s>']);
  const refusals = [
    rendered('a\n{% if %}', several),
    rendered(null, { chat_template: [{ name: 'rag', template: '' }] }),
    rendered(null, { chat_template: 5 }),
    rendered(null, '{'),
  ];
  expect(refusals).toEqual(
    [
      'the chat template, line 2: %} where an expression is wanted',
      'tokenizer_config.json: no chat template is named default',
      'tokenizer_config.json: chat_template is neither a text nor a list of named ones',
      expect.stringMatching(/^tokenizer_config\.json .*JSON/),
    ].map((text) => ({ ok: false, reason: text })),
  );
});
