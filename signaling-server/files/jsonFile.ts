/** Reads a JSON file that a person named: its content, or one sentence. */
import { createReadStream } from 'node:fs';
import { type Result, refusal } from '../../swarm/base.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import { otherKind } from './fileKinds.ts';
import { readFault } from './namedFile.ts';

/** Ten thousand long paths; one list inside another up to here is read in two seconds. */
const JSON_LIMIT_BYTES = 16 * 2 ** 20;

/** `expected` says what the file is to be, for example "a run file": of the known kinds (fileKinds.ts) no other is taken for it. */
export async function readJsonFile(path: string, expected: string): Promise<Result<unknown>> {
  let text: string | null;
  try {
    text = await textOf(path);
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: ${expected} was expected`);
  }
  if (text === null)
    return refusal(`${path} has more than ${JSON_LIMIT_BYTES} bytes: ${expected} of at most as many was expected`);
  const json = parseJson(text);
  if (!json.ok) return refusal(`${path} ${json.reason}; ${expected} was expected`);
  const other = otherKind(json.value, expected);
  return other === null ? json : refusal(`${path} ${other}`);
}

/** Null: it has more than it may. No more of it is read, since a device has no end. */
async function textOf(path: string): Promise<string | null> {
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(path, { end: JSON_LIMIT_BYTES })) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  return bytes.length > JSON_LIMIT_BYTES ? null : bytes.toString('utf8');
}
