/** `shoal replay`: feeds a recording to the same decisions again. */
import { type FileHandle, open } from 'node:fs/promises';
import type { Command } from 'commander';
import { counted } from '../../swarm/quantityText.ts';
import {
  type Difference,
  EXPECTED,
  type NamedEvent,
  parseLine,
  type RecordedLine,
  replay,
  undecided as undecidedLine,
} from '../../swarm/recording/recording.ts';
import { readFault } from '../files/namedFile.ts';
import { hashOf } from '../run/recorder.ts';
import { badInput, need } from './failure.ts';
import { tryIt } from './options.ts';

const NEWLINE = 10;

export function addReplayCommand(program: Command): void {
  program
    .command('replay')
    .description('check a recording (--record of serve and swarm): do the same events lead to the same decisions?')
    .argument('<file.jsonl>', 'the recording')
    .option('--json', 'one JSON document on standard output')
    .addHelpText('after', tryIt('replay .shoal/example.jsonl', 'swarm'))
    .action(replayCommand);
}

async function replayCommand(path: string, { json }: { readonly json?: boolean }): Promise<void> {
  const file = await openFile(path);
  try {
    const unended: NamedEvent[] = [];
    const { events, effects, threw, difference } = await replay(linesOf(file, path), hashOf, (event) => {
      unended.push(event);
      // Before it is decided again: that may never end.
      process.stderr.write(`${nameOf(event)}: the server ended while it was decided; it is decided again now\n`);
    });
    for (const { event, message } of threw)
      process.stderr.write(`event ${event}: the decisions threw, and it changes nothing: ${message}\n`);
    const equal = difference === null;
    const told = { ...(!equal && { difference }), ...(unended.length > 0 && { undecided: unended }) };
    if (json) process.stdout.write(`${JSON.stringify({ events, effects, equal, ...told })}\n`);
    else
      process.stdout.write(
        `${equal ? `${counted(events, 'event')}, ${counted(effects, 'effect')}, equal` : wordsOf(difference)}\n`,
      );
    if (!equal) process.exitCode = 1;
  } finally {
    await file.close();
  }
}

const nameOf = ({ event, type, at }: NamedEvent): string => `event ${event} (${type} at ${at} ms)`;

function wordsOf({ in: where, parts, recorded, came, ...event }: Difference): string {
  const differs = where === 'state' ? 'its state differs' : 'its effects differ';
  const named = parts.length > 0 ? parts.join(', ') : 'the recording does not say which part of it';
  return `${nameOf(event)}: ${differs} (${named}): ${recorded} was recorded, ${came} came`;
}

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
  throw badInput(`${path} is not a file: ${expected}`);
}

/** The last line may be torn: whoever wrote it was killed. */
async function* linesOf(file: FileHandle, path: string): AsyncGenerator<RecordedLine, void> {
  const { size } = await file.stat();
  if (size === 0) throw badInput(`${path} is empty: a recording was expected`);
  const isWhole = (await file.read({ position: size - 1, length: 1 })).buffer[0] === NEWLINE;
  let number = 0;
  let last: string | null = null;
  for await (const text of file.readLines()) {
    if (last !== null) yield read(last, path, number);
    number++;
    last = text;
  }
  if (last === null) return;
  const text = isWhole || parseLine(last, number === 1).ok ? last : undecidedLine(last);
  if (text !== null) yield read(text, path, number);
  else if (number === 1) throw badInput(`${path}: line 1 is cut: ${EXPECTED}`);
  else process.stderr.write(`${path}: line ${number}, the last one, is torn and was left out\n`);
}

const read = (text: string, path: string, number: number): RecordedLine =>
  need(parseLine(text, number === 1), (reason) => badInput(`${path}: line ${number} ${reason}`));
