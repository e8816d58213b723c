/** `shoal examples`: what a run trains on, as the model sees it, and which part of it the loss counts. */
import type { Command } from 'commander';
import { at } from '../../swarm/base.ts';
import { counted as amount } from '../../swarm/quantityText.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { wallMs } from '../monitoring/clock.ts';
import { textPieces } from '../texts/countedPieces.ts';
import { fateOf, windowParts } from '../texts/exampleWindows.ts';
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
  const document = examples.map(({ file, line, rejected, ...own }) => ({
    ...{ file, line, ...said(own) },
    ...(rejected && { rejected: said(rejected) }),
  }));
  process.stdout.write(json ? `${JSON.stringify(document)}\n` : shown(examples, run.train.sequenceLength));
}

type Encoded = Pick<FirstExample, 'text' | 'ids' | 'counted' | 'places'>;
const said = ({ text, ids, counted }: Encoded) => ({ text, ids: [...ids], counted });

const [OPEN, CLOSE] = ['⟦', '⟧'];
const [BOLD, PLAIN] = ['\u001b[1m', '\u001b[22m'];

function shown(examples: readonly FirstExample[], sequenceLength: number): string {
  const hasColours = process.stdout.isTTY === true && process.env.NO_COLOR === undefined;
  const [open, close] = hasColours ? [BOLD + OPEN, CLOSE + PLAIN] : [OPEN, CLOSE];
  const parts = examples.flatMap((example, index) => {
    const { file, line, rejected } = example;
    const name = line === null ? `${file}, window ${index + 1}` : `${file}, line ${line}`;
    const texts: readonly (readonly [name: string, text: Encoded])[] =
      rejected === undefined
        ? [[name, example]]
        : [
            [`${name}, chosen`, example],
            [`${name}, rejected`, rejected],
          ];
    return texts.map(([own, text], part) => {
      const fate = fateText(example, part, sequenceLength);
      const head = `${own}: ${amount(text.ids.length, 'token')}, ${text.counted.length} of them counted${fate}`;
      const pieces = textPieces(text).map((piece) =>
        piece.isCounted ? `${open}${visible(piece.text)}${close}` : visible(piece.text),
      );
      return `${head}\n${pieces.join('')}\n`;
    });
  });
  const legend = examples.some(({ places }) => places !== null)
    ? `The loss counts what stands between ${OPEN} and ${CLOSE}.`
    : 'The loss counts all but the first token of a window.';
  return `${parts.join('\n')}\n${legend}\n`;
}

/** What becomes of it in a window, where it is not in it whole; of a pair, of either text. */
function fateText(example: FirstExample, part: number, sequenceLength: number): string {
  const { text, rows } = at(windowParts(example, sequenceLength), part);
  const [first = Number.POSITIVE_INFINITY] = text.counted;
  switch (fateOf(example, sequenceLength)) {
    case 'whole':
      return '';
    case 'cut':
      return text.ids.length > rows + 1 ? `; cut behind its token ${rows + 1}` : '';
    case 'late':
      return first > rows ? `; left out: none within its first ${rows + 1} tokens` : '; left out with the other';
    case 'empty':
      return text.counted.length > 0 ? '; left out with the other' : '; left out';
  }
}

/** No text of a file moves the cursor or changes what the terminal shows. */
const visible = (text: string): string =>
  text.replaceAll(/[^\P{Cc}\n\t]/gu, (character) => JSON.stringify(character).slice(1, -1));
