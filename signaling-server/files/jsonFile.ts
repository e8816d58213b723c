/** Reads a JSON file that a person named: its content, or one sentence. */
import { readFile } from 'node:fs/promises';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { readFault } from './namedFile.ts';

/** `expected` says what the file is to be: "a run file". */
export async function readJsonFile(path: string, expected: string): Promise<Result<unknown>> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: ${expected} was expected`);
  }
  try {
    const json: unknown = JSON.parse(text);
    return success(json);
  } catch (error) {
    // V8 quotes the text, which may have line ends.
    const fault = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ');
    return refusal(`${path} is not JSON: ${fault}: ${expected} was expected`);
  }
}
