/**
 * `shoal bench learn`: what runs with islands learn, by real steps and real meetings in one process on the CPU: which
 * defaults of the outer step learn best.
 */
import type { Command } from 'commander';
import { learningRate, wholeNumber } from '../commands/options.ts';
import { openBook } from './learn/book.ts';
import { defaultsTable, learnDefaults } from './learn/defaults.ts';

interface Options {
  readonly seeds: number;
  readonly learningRate: number;
  readonly json?: boolean;
}

export function addLearnBench(bench: Command): void {
  bench
    .command('learn')
    .description('what islands learn: held-out loss by outer step, feedback, exchange and length of a round')
    .option('--seeds <n>', 'how many seeds of the first values and of the text’s order', wholeNumber('--seeds', 1), 3)
    .option('--learning-rate <x>', 'learning rate at the start', learningRate, 2e-3)
    .option('--json', 'one JSON document on standard output')
    .action(async ({ json, ...asked }: Options) => {
      const said = (words: string): void => void process.stderr.write(`${words}\n`);
      const defaults = learnDefaults(await openBook(), asked, said);
      console.log(json ? JSON.stringify({ defaults }) : defaultsTable(defaults));
    });
}
