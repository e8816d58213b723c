/** `shoal examples`: what a run trains on, as the model sees it, and which part of it the loss counts. */
import type { Command } from 'commander';
import type { Range } from '../../swarm/base.ts';
import { counted as amount } from '../../swarm/quantityText.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { wallMs } from '../monitoring/clock.ts';
import { type FirstExample, firstExamples } from '../texts/firstExamples.ts';
import { badInput, need } from './failure.ts';
import { tryIt, wholeNumber } from './options.ts';

interface ExamplesOptions {
  readonly first: number;
  readonly json?: boolean;
}

export function addExamplesCommand(program: Command): void {
  program
    .command('examples')
    .description('show the first examples of a run’s data as the model sees them, and which tokens the loss counts')
    .argument('<run.json>', 'the run: its data and its tokenizer')
    .option('--first <n>', 'how many', wholeNumber('--first', 1), 5)
    .option('--json', 'one JSON document on standard output')
    .addHelpText('after', tryIt('examples docs/examples/questions.json'))
    .action(examplesCommand);
}

async function examplesCommand(path: string, { first, json }: ExamplesOptions): Promise<void> {
  const run = need(await readRunFile(path), badInput);
  const examples = need(await firstExamples(run, path, first, new Date(wallMs())), badInput);
  const document = examples.map(({ file, line, text, ids, counted }) => ({ file, line, text, ids: [...ids], counted }));
  process.stdout.write(json ? `${JSON.stringify(document)}\n` : shown(examples, run.train.sequenceLength));
}

const [OPEN, CLOSE] = ['⟦', '⟧'];
const [BOLD, PLAIN] = ['\u001b[1m', '\u001b[22m'];

function shown(examples: readonly FirstExample[], sequenceLength: number): string {
  const hasColours = process.stdout.isTTY === true && process.env.NO_COLOR === undefined;
  const [open, close] = hasColours ? [BOLD + OPEN, CLOSE + PLAIN] : [OPEN, CLOSE];
  const parts = examples.map((example, index) => {
    const { file, line, text, ids, counted, places } = example;
    const name = line === null ? `${file}, window ${index + 1}` : `${file}, line ${line}`;
    const head = `${name}: ${amount(ids.length, 'token')}, ${counted.length} of them counted${cut(example, sequenceLength)}`;
    return `${head}\n${marked(text, places === null ? [] : countedParts(counted, places), [open, close])}\n`;
  });
  const legend = examples.some(({ places }) => places !== null)
    ? `The loss counts what stands between ${OPEN} and ${CLOSE}.`
    : 'The loss counts all but the first token of a window.';
  return `${parts.join('\n')}\n${legend}\n`;
}

/** What a window has no room for. */
function cut({ ids, counted }: FirstExample, sequenceLength: number): string {
  if (ids.length <= sequenceLength + 1) return '';
  return counted.some((place) => place <= sequenceLength)
    ? `; cut behind its token ${sequenceLength + 1}`
    : `; left out: none within its first ${sequenceLength + 1} tokens`;
}

/** Code points of the text, in order, apart from each other. */
function countedParts(counted: readonly number[], places: Int32Array): Range[] {
  const parts: Range[] = [];
  for (const [index, place] of counted.entries()) {
    const [from, to] = [places[2 * place] ?? 0, places[2 * place + 1] ?? 0];
    const last = parts.at(-1);
    // Tokens may share a character that has many bytes.
    if (last !== undefined && (counted[index - 1] === place - 1 || from < last[1]))
      parts[parts.length - 1] = [last[0], Math.max(last[1], to)];
    else parts.push([from, to]);
  }
  return parts;
}

/** No text of a file moves the cursor or changes what the terminal shows. */
const visible = (text: string): string =>
  text.replaceAll(/[^\P{Cc}\n\t]/gu, (character) => JSON.stringify(character).slice(1, -1));

function marked(text: string, parts: readonly Range[], [open, close]: readonly [string, string]): string {
  const characters = [...text];
  const between = (from: number, to?: number): string => visible(characters.slice(from, to).join(''));
  let end = 0;
  const pieces = parts.map(([from, to]) => {
    const piece = `${between(end, from)}${open}${between(from, to)}${close}`;
    end = to;
    return piece;
  });
  return pieces.join('') + between(end);
}
