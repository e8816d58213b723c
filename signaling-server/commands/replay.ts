/** `shoal replay`: feeds a recording to the same decisions again. */
import { type FileHandle, open } from 'node:fs/promises';
import type { Command } from 'commander';
import { counted } from '../../swarm/quantityText.ts';
import { type Difference, parseLine, type RecordedLine, replay } from '../../swarm/recording/recording.ts';
import { readFault } from '../files/namedFile.ts';
import { hashOf } from '../run/recorder.ts';
import { badInput } from './failure.ts';

const NEWLINE = 10;

export function addReplayCommand(program: Command): void {
  program
    .command('replay')
    .description(
      'feed a recording (--record of serve and swarm) to the same decisions again, and say whether they are equal',
    )
    .argument('<file.jsonl>', 'the recording')
    .option('--json', 'one JSON document on standard output')
    .action(replayCommand);
}

async function replayCommand(path: string, { json }: { readonly json?: boolean }): Promise<void> {
  const file = await openFile(path);
  try {
    const { events, effects, threw, difference } = await replay(linesOf(file, path), hashOf);
    for (const { event, message } of threw)
      process.stderr.write(`event ${event}: the decisions threw, and it changes nothing: ${message}\n`);
    const equal = difference === null;
    if (json) process.stdout.write(`${JSON.stringify({ events, effects, equal, ...(!equal && { difference }) })}\n`);
    else
      process.stdout.write(
        `${equal ? `${counted(events, 'event')}, ${counted(effects, 'effect')}, equal` : wordsOf(difference)}\n`,
      );
    if (!equal) process.exitCode = 1;
  } finally {
    await file.close();
  }
}

const wordsOf = ({ event, type, at, in: part, recorded, came }: Difference): string =>
  `event ${event} (${type} at ${at} ms): its ${part === 'state' ? 'state differs' : 'effects differ'}: ${recorded} was recorded, ${came} came`;

async function openFile(path: string): Promise<FileHandle> {
  const expected = 'a recording was expected';
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    throw badInput(`${path}: ${readFault(error)}: ${expected}`);
  }
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw badInput(`${path} is no file: ${expected}`);
}

/** The last line may be torn: whoever wrote it was killed. */
async function* linesOf(file: FileHandle, path: string): AsyncGenerator<RecordedLine, void> {
  const { size } = await file.stat();
  const isWhole = size > 0 && (await file.read({ position: size - 1, length: 1 })).buffer[0] === NEWLINE;
  let number = 0;
  let torn: string | null = null;
  for await (const text of file.readLines()) {
    if (torn !== null) throw badInput(`${path}: line ${number} ${torn}`);
    number++;
    const line = parseLine(text, number === 1);
    if (line.ok) yield line.value;
    else torn = line.reason;
  }
  if (torn !== null) {
    if (number === 1 || isWhole) throw badInput(`${path}: line ${number} ${torn}`);
    process.stderr.write(`${path}: line ${number}, the last one, is torn and was left out\n`);
  }
  if (number === 0) throw badInput(`${path} is empty: a recording was expected`);
}
