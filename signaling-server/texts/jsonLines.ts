/** The lines of JSONL, of a file that may be larger than memory too, each with its number; blank ones are left out. */
import { createReadStream } from 'node:fs';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import { fileBytes } from '../files/namedFile.ts';

export interface Line {
  /** From 1. */
  readonly number: number;
  readonly text: string;
}

/** Why a file of a run's data cannot be trained on; the message goes on from the file's name. */
export class DataFault extends Error {}

export const lineFault = (line: number, reason: string): DataFault => new DataFault(`line ${line}: ${reason}`);

export const CHUNK_BYTES = 262_144;
/** Past every example that a window could take. */
const LONGEST_LINE_CHARACTERS = 2 ** 24;

/** `progress`: which share of the file is read. Throws a `DataFault`, or what reading a file throws. */
export async function* linesOf(path: string, progress: (share: number) => void): AsyncGenerator<Line> {
  const size = await fileBytes(path);
  yield* linesIn(createReadStream(path, { highWaterMark: CHUNK_BYTES }), (read) => progress(Math.min(1, read / size)));
}

/** `progress`: how many bytes are read. Throws a `DataFault`, or what reading the chunks throws. */
export async function* linesIn(
  chunks: AsyncIterable<Uint8Array>,
  progress: (bytes: number) => void,
): AsyncGenerator<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let number = 0;
  let open = '';
  let read = 0;
  const decoded = (bytes?: Uint8Array): string => {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      throw lineFault(number + 1, `it or one soon after it is not UTF-8, near the file's byte ${read}`);
    }
  };
  const line = (text: string): Line => {
    number++;
    if (text.length > LONGEST_LINE_CHARACTERS)
      throw lineFault(number, `it has more than ${LONGEST_LINE_CHARACTERS} characters`);
    return { number, text };
  };
  for await (const bytes of chunks) {
    const whole = (open + decoded(bytes)).split('\n');
    open = whole.pop() ?? '';
    read += bytes.length;
    for (const text of whole) {
      const next = line(text);
      if (text.trim() !== '') yield next;
    }
    if (open.length > LONGEST_LINE_CHARACTERS) line(open);
    progress(read);
  }
  const last = line(open + decoded());
  if (last.text.trim() !== '') yield last;
}

/** Of a line, which needs no line's number of its own. */
export function parseJsonLine(text: string): Result<unknown> {
  const json = parseJson(text);
  if (json.ok) return success(json.value);
  return refusal(
    `it ${json.reason.replace('it ends in line 1 where', 'it ends where').replace('line 1 has', 'it has')}`,
  );
}
