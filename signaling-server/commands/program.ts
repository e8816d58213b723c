/** The commands of `shoal`, and how each ends: 0, 2 with one sentence for bad arguments or a bad input file, else 1. */
import { Command, CommanderError } from 'commander';
import { projectVersion } from '../projectRoot.ts';
import { SERVER_PROCESS_COMMAND, serveAsProcess } from '../serverProcess.ts';
import { addAssignCommand } from './assign.ts';
import { addBenchCommand } from './bench.ts';
import { addDemoCommand } from './demo.ts';
import { addDoctorCommand } from './doctor.ts';
import { addExportCommand } from './export.ts';
import { CommandFailure } from './failure.ts';
import { addPlanCommand } from './plan.ts';
import { addSampleCommand } from './sample.ts';
import { addServeCommand } from './serve.ts';
import { addSimulateCommand } from './simulate.ts';
import { addSwarmCommand } from './swarm.ts';

function program(): Command {
  const shoal = new Command('shoal')
    .description('Turns web pages into a training cluster: many small fish that move as one.')
    .version(projectVersion())
    .exitOverride()
    .showSuggestionAfterError(false)
    .configureHelp({ showGlobalOptions: false });
  addDemoCommand(shoal);
  addServeCommand(shoal);
  addSwarmCommand(shoal);
  addExportCommand(shoal);
  addSampleCommand(shoal);
  addDoctorCommand(shoal);
  addBenchCommand(shoal);
  addAssignCommand(shoal);
  addSimulateCommand(shoal);
  addPlanCommand(shoal);
  shoal.command(SERVER_PROCESS_COMMAND, { hidden: true }).action(serveAsProcess);
  shoal.command('test').description('every test (node setup.mjs test [types lint unit gpu e2e])');
  return shoal;
}

/** Runs a command line (without the program's own name); resolves with its exit code. */
export async function runCommand(words: readonly string[]): Promise<number> {
  try {
    await program().parseAsync(words, { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return exitCodeOf(error);
  }
}

/** The exit code of a command that threw; its sentence is said. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommandFailure) {
    process.stderr.write(`${error.message}\n`);
    return error.exitCode;
  }
  // Commander has said what is wrong; asking for help is no mistake.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  // What the system refused (a full disk, a folder that went away) is no bug of ours: its word says it all.
  if (error instanceof Error && 'syscall' in error) {
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return 1;
}
