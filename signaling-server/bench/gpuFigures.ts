/** `shoal bench gpu` by itself: what dist/gpu/gpuFigures.mjs runs on a machine that has a GPU and no network. */
import { Command, CommanderError } from 'commander';
import { CommandFailure } from '../commands/failure.ts';
import { gpuBench } from './benchGpu.ts';

try {
  await gpuBench(new Command('gpuFigures')).exitOverride().parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(error instanceof CommandFailure ? error.exitCode : 1);
}
// Dawn's threads would keep the process alive.
process.stdout.write('', () => process.exit(0));
