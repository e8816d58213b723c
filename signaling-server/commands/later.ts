/** Commands of the contract that this version does not have: they are known, have a help, and say so. */
import type { Command } from 'commander';
import { badInput, COMES_LATER } from './failure.ts';

const LATER: readonly (readonly [name: string, description: string])[] = [
  ['plan', 'the plan the server would make for a cluster'],
];

export function addLaterCommands(program: Command): void {
  for (const [name, description] of LATER) addLaterCommand(program, name, name, description);
}

export function addLaterCommand(parent: Command, name: string, fullName: string, description: string): void {
  parent
    .command(name)
    .description(`${description} (${COMES_LATER})`)
    .argument('[arguments...]')
    .allowUnknownOption()
    .action(() => {
      throw badInput(`shoal ${fullName} ${COMES_LATER}`);
    });
}
