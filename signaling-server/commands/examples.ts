/** `shoal examples`: what a run trains on, as the model sees it, and which part of it the loss counts. */
import type { Command } from 'commander';
import { counted as amount } from '../../swarm/quantityText.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { wallMs } from '../monitoring/clock.ts';
import { textPieces } from '../texts/countedPieces.ts';
import { fateOf } from '../texts/exampleWindows.ts';
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
    const { file, line, ids, counted } = example;
    const name = line === null ? `${file}, window ${index + 1}` : `${file}, line ${line}`;
    const head = `${name}: ${amount(ids.length, 'token')}, ${counted.length} of them counted${fateText(example, sequenceLength)}`;
    return `${head}\n${textPieces(example)
      .map(({ text, isCounted }) => (isCounted ? `${open}${visible(text)}${close}` : visible(text)))
      .join('')}\n`;
  });
  const legend = examples.some(({ places }) => places !== null)
    ? `The loss counts what stands between ${OPEN} and ${CLOSE}.`
    : 'The loss counts all but the first token of a window.';
  return `${parts.join('\n')}\n${legend}\n`;
}

/** What becomes of it in a window, where it is not in it whole. */
function fateText(example: FirstExample, sequenceLength: number): string {
  switch (fateOf(example, sequenceLength)) {
    case 'whole':
      return '';
    case 'cut':
      return `; cut behind its token ${sequenceLength + 1}`;
    case 'late':
      return `; left out: none within its first ${sequenceLength + 1} tokens`;
    case 'empty':
      return '; left out';
  }
}

/** No text of a file moves the cursor or changes what the terminal shows. */
const visible = (text: string): string =>
  text.replaceAll(/[^\P{Cc}\n\t]/gu, (character) => JSON.stringify(character).slice(1, -1));
