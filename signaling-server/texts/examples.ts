/**
 * The examples of a run's files: each line, a prompt with its completion or with two answers, or a chat, as tokens, and which
 * of them the loss counts as targets. Files are streamed, and the tokenizer is asked for many lines at once.
 */
import { readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { at, type Range, type Result, refusal, success } from '../../swarm/base.ts';
import { expecting, sentence } from '../../swarm/model/inputFields.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { readFault } from '../files/namedFile.ts';
import { chatIn, renderedChat } from './chatAnswers.ts';
import { CHAT_TEMPLATE_FILE } from './chatText.ts';
import { endToken } from './endTokens.ts';
import type { Example } from './exampleWindows.ts';
import { type DataFault, type Line, lineFault, linesOf, parseJsonLine } from './jsonLines.ts';
import { chatTemplateOf } from './template/chatTemplate.ts';
import { NoTokenError, type PlacedTokens, type TextTokenizer } from './tokenizer.ts';
import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE } from './tokenizerConfig.ts';

interface EncodedText extends Omit<Example, 'rejected'> {
  readonly text: string;
  /** Where each token stands in the text: code points from and to, token by token. */
  readonly places: Int32Array;
}

export interface LineExample extends EncodedText {
  readonly line: number;
  /** The answer that a model is to give, as the line has it: a chat's last one, of a pair the chosen one. */
  readonly answer: string;
  /** Of a preference pair. */
  readonly rejected?: EncodedText;
}

/** Throws a `DataFault` where a line is no example, and a `TokenizerFault`. */
export type ReadsExamples = (path: string, progress: (share: number) => void) => AsyncGenerator<LineExample>;

/** A line whose texts are still to be encoded, apart. */
interface OpenExample extends Pick<LineExample, 'text' | 'answer'> {
  readonly parts: readonly string[];
  /** A refusal goes on from the line's number. */
  made(parts: readonly PlacedTokens[]): Result<Omit<LineExample, 'line' | 'text' | 'answer'>>;
}

type OpensLine = (line: string) => Result<OpenExample>;

/** What lines are encoded together. */
const BATCH_CHARACTERS = 262_144;

interface ReadBy {
  readonly tokenizer: TextTokenizer;
  /** Of the tokenizer; null: a token is a byte. */
  readonly path: string | null;
  /** Of the run, for a chat template that asks. */
  readonly date: Date;
}

/** `format`: of the lines. */
export async function openExamples(
  run: RunFile,
  runPath: string,
  { tokenizer, path, date }: ReadBy,
  format: 'chat' | keyof typeof LINES,
): Promise<Result<ReadsExamples>> {
  const opens =
    format === 'chat'
      ? await chatLines(run, runPath, path, date)
      : await answerLines(run, runPath, format, tokenizer, path);
  if (!opens.ok) return opens;
  const { vocabulary } = modelOf(run);
  return success(async function* examples(file, progress) {
    for await (const lines of batches(linesOf(file, progress))) {
      // Those before the first line that is none come first.
      const open = openedLines(lines, opens.value);
      const encoded = await tokenizer.encodeAll(open.examples.flatMap(({ parts }) => parts));
      let next = 0;
      for (const { line, text, answer, parts, made } of open.examples) {
        const own = encoded.slice(next, next + parts.length);
        next += parts.length;
        const example = made(own.map((one) => whole(one, line, vocabulary)));
        if (!example.ok) throw lineFault(line, example.reason);
        yield { line, text, answer, ...example.value };
      }
      if (open.fault !== null) throw open.fault;
    }
  });
}

async function* batches(lines: AsyncIterable<Line>): AsyncGenerator<readonly Line[]> {
  let batch: Line[] = [];
  let characters = 0;
  try {
    for await (const line of lines) {
      batch.push(line);
      characters += line.text.length;
      if (characters < BATCH_CHARACTERS) continue;
      yield batch;
      [batch, characters] = [[], 0];
    }
  } catch (error) {
    yield batch; // what stands before it may be wrong, too
    throw error;
  }
  yield batch;
}

interface Opened {
  readonly examples: readonly (OpenExample & { readonly line: number })[];
  readonly fault: DataFault | null;
}

function openedLines(lines: readonly Line[], opens: OpensLine): Opened {
  const examples: (OpenExample & { readonly line: number })[] = [];
  for (const { number, text } of lines) {
    const opened = opens(text);
    if (!opened.ok) return { examples, fault: lineFault(number, opened.reason) };
    examples.push({ line: number, ...opened.value });
  }
  return { examples, fault: null };
}

function whole(found: PlacedTokens | NoTokenError, line: number, vocabulary: number): PlacedTokens {
  if (found instanceof NoTokenError) throw lineFault(line, `it ${found.message}`);
  const outside = found.ids.find((id) => id >= vocabulary);
  if (outside === undefined) return found;
  throw lineFault(line, `it has the token ${outside}, but model.vocab_size is ${vocabulary}`);
}

const partText = z.string({ error: expecting('a text') });
const COMPLETION = z
  .looseObject({ prompt: partText, completion: partText }, { error: expecting('an object with prompt and completion') })
  .transform(({ prompt, completion }) => ({ prompt, answers: { completion } }));
const PAIR = z
  .looseObject(
    { prompt: partText, chosen: partText, rejected: partText },
    { error: expecting('an object with prompt, chosen and rejected') },
  )
  .transform(({ prompt, chosen, rejected }) => ({ prompt, answers: { chosen, rejected } }));
const SOMETHING = 'a text with something in it';
const something = z.string({ error: expecting(SOMETHING) }).regex(/\S/, { error: expecting(SOMETHING) });
/** Of what a model is asked, and not trained on. */
const QUESTION = z
  .looseObject({ prompt: something, answer: something }, { error: expecting('an object with prompt and answer') })
  .transform(({ prompt, answer }) => ({ prompt, answers: { answer: answer.trim() } }));
const LINES = { completion: COMPLETION, preference: PAIR, question: QUESTION } as const;
const HALF_CHARACTER = /\p{Surrogate}/u;

interface Answers {
  readonly prompt: string;
  /** One; of a preference pair the chosen one, and the rejected one. */
  readonly answers: readonly string[];
}

/** Reasons go on from the line's number. */
function answersIn(line: string, format: keyof typeof LINES): Result<Answers> {
  const json = parseJsonLine(line);
  if (!json.ok) return json;
  const parsed = LINES[format].safeParse(json.value);
  if (!parsed.success) return refusal(sentence(parsed.error.issues[0], 'it'));
  const { prompt, answers } = parsed.data;
  const half = Object.entries({ prompt, ...answers }).find(([, text]) => HALF_CHARACTER.test(text));
  if (half !== undefined) return refusal(`${half[0]} has half a character, which UTF-8 cannot have`);
  return success({ prompt, answers: Object.values(answers) });
}

/** Why a line is no example, as far as that can be told without a tokenizer and a template; null: it may be one. */
export function lineProblem(format: 'completion' | 'chat', line: string): string | null {
  if (format === 'completion') {
    const completion = answersIn(line, format);
    return completion.ok ? null : completion.reason;
  }
  const chat = chatIn(line);
  if (!chat.ok) return chat.reason;
  return chat.value.some(({ role }) => role === 'assistant') ? null : NO_ANSWER;
}

async function answerLines(
  run: RunFile,
  runPath: string,
  format: keyof typeof LINES,
  tokenizer: TextTokenizer,
  path: string | null,
): Promise<Result<OpensLine>> {
  const { vocabulary, config } = modelOf(run);
  const tokenizerConfig = path === null ? null : await textBeside(path, TOKENIZER_CONFIG_FILE);
  const end = path === null ? success(null) : await endToken(tokenizer, { config, vocabulary, tokenizerConfig });
  if (!end.ok) return refusal(`${runPath}: data.tokenizer ${path}: ${end.reason}`);
  const begin = await tokenizer.beginning();
  return success((line) => {
    const parsed = answersIn(line, format);
    if (!parsed.ok) return parsed;
    const { prompt, answers } = parsed.value;
    const [text, other] = answers.map((answer) => prompt + answer);
    const made: OpenExample['made'] = (parts) => {
      const answered = (part: number) => completed(at(parts, 0), at(parts, part), begin, end.value);
      return success({ ...answered(1), ...(other !== undefined && { rejected: { text: other, ...answered(2) } }) });
    };
    return success({ text: text ?? prompt, answer: answers[0] ?? '', parts: [prompt, ...answers], made });
  });
}

function completed(
  prompt: PlacedTokens,
  completion: PlacedTokens,
  begin: number | null,
  end: number | null,
): Omit<EncodedText, 'text'> {
  const before = [...(begin === null ? [] : [begin]), ...prompt.ids];
  const ids = Int32Array.from([...before, ...completion.ids, ...(end === null ? [] : [end])]);
  const counted = countedPlaces([before.length, ids.length]);
  const length = prompt.places.at(-1) ?? 0;
  const after = [...completion.places].map((place) => length + place);
  const last = after.at(-1) ?? length;
  const places = [...(begin === null ? [] : [0, 0]), ...prompt.places, ...after, ...(end === null ? [] : [last, last])];
  return { ids, counted, places: Int32Array.from(places) };
}

async function chatLines(run: RunFile, runPath: string, path: string | null, date: Date): Promise<Result<OpensLine>> {
  const { chatTemplate } = run.data;
  const beside = async (name: string): Promise<string | null> => (path === null ? null : textBeside(path, name));
  const given = chatTemplate === undefined ? null : await templateText(resolve(dirname(runPath), chatTemplate));
  if (given?.ok === false) return refusal(`${runPath}: data.chatTemplate ${given.reason}`);
  const found = chatTemplateOf({
    template: given?.value ?? (await beside(CHAT_TEMPLATE_FILE)),
    config: await beside(TOKENIZER_CONFIG_FILE),
    specialTokens: await beside(SPECIAL_TOKENS_FILE),
  });
  const field = chatTemplate === undefined ? `data.tokenizer ${path}` : `data.chatTemplate ${chatTemplate}`;
  if (!found.ok) return refusal(`${runPath}: ${field}: ${found.reason}`);
  const template = found.value;
  if (template === null)
    return refusal(
      `${runPath}: ${field} has no chat template beside it, which data.format "chat" needs: a ${CHAT_TEMPLATE_FILE}, one in ${TOKENIZER_CONFIG_FILE}, or data.chatTemplate was expected`,
    );
  return success((line) => {
    const chat = renderedChat(line, template, date);
    if (!chat.ok) return chat;
    const { text, answers, answer } = chat.value;
    const made: OpenExample['made'] = ([tokens]) => {
      const { ids, places } = tokens ?? { ids: new Int32Array(), places: new Int32Array() };
      const counted = countedPlaces(...answers.map((answer) => tokensOf(answer, places)));
      return counted.length > 0 ? success({ ids, places, counted }) : refusal(NO_ANSWER);
    };
    return success({ text, answer, parts: [text], made });
  });
}

const NO_ANSWER =
  'nothing in it is an answer: a message of the role "assistant" whose content the chat template writes was expected';

/** Those that reach past the start and begin before the end, and the next one. */
function tokensOf([start, end]: Range, places: Int32Array): Range {
  const count = places.length / 2;
  let first = 0;
  while (first < count && (places[2 * first + 1] ?? 0) <= start) first++;
  let next = 0;
  while (next < count && (places[2 * next] ?? 0) < end) next++;
  return [first, Math.min(next + 1, count)];
}

/** The first token is nothing's target. */
function countedPlaces(...ranges: readonly Range[]): number[] {
  const places = new Set<number>();
  for (const [from, to] of ranges) for (let place = Math.max(1, from); place < to; place++) places.add(place);
  return [...places].sort((a, b) => a - b);
}

const textBeside = (path: string, name: string): Promise<string | null> =>
  readFile(join(dirname(path), name), 'utf8').catch(() => null); // there is none

/** Reasons begin with the path. */
async function templateText(path: string): Promise<Result<string>> {
  try {
    return success(await readFile(path, 'utf8'));
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a chat template was expected`);
  }
}
