/**
 * Examples that an operator brings along, before there is a run: what kind they are, by their first line, whether each line
 * may be one, and the last of them cut off to be held out.
 */
import { setImmediate } from 'node:timers/promises';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { expecting } from '../../swarm/model/inputFields.ts';
import type { TextFormat } from '../../swarm/run/runDraft.ts';
import { lineProblem } from './examples.ts';
import { CHUNK_BYTES, DataFault, type Line, linesIn, parseJsonLine } from './jsonLines.ts';

type ExampleFormat = Exclude<TextFormat, 'text'>;

interface BroughtExamples {
  readonly format: ExampleFormat;
  readonly kept: Buffer;
  /** Its lines have the numbers that they had. */
  readonly heldOut: Buffer;
}

const OPEN = 0x7b;
const NEWLINE = 0x0a;
const BLANKS = new Set([0x09, NEWLINE, 0x0d, 0x20]);
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Whether the first line is an example of a kind that is known: else the bytes are a text. */
export function hasExamples(bytes: Buffer): boolean {
  let start = bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0;
  while (BLANKS.has(bytes[start] ?? 0)) start++;
  // No text is read as JSON for nothing.
  if (bytes[start] !== OPEN) return false;
  const end = bytes.indexOf(NEWLINE, start);
  return formatOf(bytes.toString('utf8', start, end < 0 ? bytes.length : end)).ok;
}

const EXPECTED = expecting('an object with prompt and completion, or one with messages');

/** Reasons go on from the line's number. */
function formatOf(line: string): Result<ExampleFormat | 'preference'> {
  const json = parseJsonLine(line);
  if (!json.ok) return json;
  const value = json.value;
  const has = (field: string): boolean => typeof value === 'object' && value !== null && field in value;
  if (has('messages')) return success('chat');
  if (has('chosen') || has('rejected')) return success('preference');
  return has('prompt') || has('completion') ? success('completion') : refusal(`it ${EXPECTED({ input: value })}`);
}

const PAIR = 'it is a preference pair, which no draft trains on yet: write a run file with data.format "preference"';

/** Refused by the first line that is no example. `heldOutBytes`: about so many of them. */
export async function broughtExamples(bytes: Buffer, heldOutBytes: number): Promise<Result<BroughtExamples>> {
  let format: ExampleFormat | null = null;
  let examples = 0;
  try {
    for await (const line of linesIn(pieces(bytes), () => {})) {
      const known: ReturnType<typeof formatOf> = format === null ? formatOf(line.text) : success(format);
      if (!known.ok) return refusal(lineWords(line, known.reason));
      if (known.value === 'preference') return refusal(lineWords(line, PAIR));
      format = known.value;
      const problem = lineProblem(format, line.text);
      if (problem !== null) return refusal(lineWords(line, problem));
      examples++;
    }
  } catch (error) {
    if (error instanceof DataFault) return refusal(error.message);
    throw error;
  }
  if (format === null || examples < 2)
    return refusal(
      `it has ${examples === 1 ? 'one example' : 'no example'}: two or more were expected, one to train on and one to test with`,
    );
  const cut = lineAt(bytes, bytes.length - heldOutBytes);
  const kept = bytes.subarray(0, cut);
  const linesBefore = kept.reduce((sum, byte) => (byte === NEWLINE ? sum + 1 : sum), 0);
  return success({ format, kept, heldOut: Buffer.concat([Buffer.alloc(linesBefore, NEWLINE), bytes.subarray(cut)]) });
}

const lineWords = ({ number }: Line, reason: string): string => `line ${number}: ${reason}`;

/** A server that trains does its other work between them. */
async function* pieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let done = 0; done < bytes.length; done += CHUNK_BYTES) {
    await setImmediate();
    yield bytes.subarray(done, done + CHUNK_BYTES);
  }
}

/** Where the first line after `place` begins; else the last one. */
function lineAt(bytes: Buffer, place: number): number {
  let end = bytes.length;
  while (BLANKS.has(bytes[end - 1] ?? 0)) end--;
  const next = bytes.indexOf(NEWLINE, Math.min(place, end) - 1) + 1;
  return next > 0 && next < end ? next : bytes.lastIndexOf(NEWLINE, end - 1) + 1;
}
