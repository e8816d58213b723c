/** The command line: which commands there are, and how each ends (0, 2 for bad input with one sentence, else 1). */
import { Command, CommanderError } from 'commander';
import { version } from '../package.json' with { type: 'json' };
import { addBenchCommand } from './commands/bench.ts';
import { addDemoCommand } from './commands/demo.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addExportCommand } from './commands/export.ts';
import { CommandFailure } from './commands/failure.ts';
import { addLaterCommands } from './commands/later.ts';
import { addSampleCommand } from './commands/sample.ts';
import { addServeCommand } from './commands/serve.ts';
import { addSwarmCommand } from './commands/swarm.ts';

function program(): Command {
  const shoal = new Command('shoal')
    .description('Turns web pages into a training cluster: many small fish that move as one.')
    .version(version)
    .exitOverride()
    .configureHelp({ showGlobalOptions: false });
  addDemoCommand(shoal);
  addServeCommand(shoal);
  addSwarmCommand(shoal);
  addExportCommand(shoal);
  addSampleCommand(shoal);
  addDoctorCommand(shoal);
  addBenchCommand(shoal);
  addLaterCommands(shoal);
  shoal.command('test').description('every test (node setup.mjs test [types lint unit gpu e2e])');
  return shoal;
}

/** The exit code of a command that threw. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommandFailure) {
    process.stderr.write(`${error.message}\n`);
    return error.exitCode;
  }
  // Commander has said what is wrong; asking for help is no mistake.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return 1;
}

try {
  await program().parseAsync();
  // Browsers and Dawn leave handles behind that would keep this process alive.
  process.exit();
} catch (error) {
  process.exit(exitCodeOf(error));
}
