/** The commands of `shoal`, and how each ends: 0, 2 with one sentence for bad arguments or a bad input file, else 1. */
import { Command, CommanderError } from 'commander';
import { counted } from '../../swarm/quantityText.ts';
import { projectVersion } from '../files/projectRoot.ts';
import { CommandFailure, oneLine } from './failure.ts';

type AddCommand = (shoal: Command) => void;

/** Each is loaded when it is asked for: who wants a plan does not wait for a browser's library. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  demo: async () => (await import('./demo.ts')).addDemoCommand,
  serve: async () => (await import('./serve.ts')).addServeCommand,
  swarm: async () => (await import('./swarm.ts')).addSwarmCommand,
  replay: async () => (await import('./replay.ts')).addReplayCommand,
  export: async () => (await import('./export.ts')).addExportCommand,
  sample: async () => (await import('./sample.ts')).addSampleCommand,
  store: async () => (await import('./store.ts')).addStoreCommand,
  doctor: async () => (await import('./doctor.ts')).addDoctorCommand,
  bench: async () => (await import('../bench/bench.ts')).addBenchCommand,
  assign: async () => (await import('./assign.ts')).addAssignCommand,
  simulate: async () => (await import('./simulate.ts')).addSimulateCommand,
  plan: async () => (await import('./plan.ts')).addPlanCommand,
  examples: async () => (await import('./examples.ts')).addExamplesCommand,
  'plan-thread': async () => (await import('../planning/planThread.ts')).addPlanThreadCommand,
  'audit-thread': async () => (await import('../audits/auditThread.ts')).addAuditThreadCommand,
  'copy-thread': async () => (await import('../store/copyThread.ts')).addCopyThreadCommand,
  'snapshot-thread': async () => (await import('../store/copyThread.ts')).addSnapshotThreadCommand,
  'answer-process': async () => (await import('../answers/answerProcess.ts')).addAnswerProcessCommand,
  'crowd-process': async () => (await import('../bench/benchCrowd.ts')).addCrowdCommand,
  'home-router': async () => (await import('../bench/homes/router.ts')).addHomeRouterCommand,
  'server-process': async () => (await import('../headless/serverProcesses.ts')).addServerProcessCommand,
};

/** With the named command alone; with all of them where there is none of that name. */
export async function program(name = ''): Promise<Command> {
  const shoal = new Command('shoal')
    .description(
      'Trains one model in many browser tabs: a web page that turns anyone’s GPU into part of a training cluster.',
    )
    .version(projectVersion())
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(`${oneLine(mistakeText(text))}\n`) })
    .configureHelp({ showGlobalOptions: false });
  const asked = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  for (const load of asked ? [asked] : Object.values(COMMANDS)) (await load())(shoal);
  shoal
    .command('test')
    .description('run every test, or some lanes: types, lint, unit, gpu, dashboard, e2e, servers [--long]');
  return shoal;
}

/** Commander's suggestion stands on a line of its own: a mistake is one line here, and looks like every other one. */
const mistakeText = (text: string): string =>
  text
    .trimEnd()
    .replace(/^error: /, '')
    .replace('\n(Did', ' (Did')
    .replace(/^option '(--\S+).*' argument '(.*)' is invalid\. Allowed choices are (.*)\.$/s, notOfChoices)
    .replace(/^option '(--\S+) (\S+)' argument missing$/, '$1 needs a value: $1 $2')
    .replace(
      /^too many arguments for '(\S+)'\. Expected (\d+) arguments? but got (\d+)\.$/,
      (_, command, most, given) =>
        `${command} takes ${most === '0' ? 'no arguments' : counted(Number(most), 'argument')}, and ${given} ${given === '1' ? 'was' : 'were'} given`,
    );

const notOfChoices = (_: string, option: string, value: string, choices: string): string =>
  `${option} must be ${choices.replace(/, ([^,]*)$/, ' or $1')}, not "${value}"`;

/** Runs a command line (without the program's own name); resolves with its exit code. */
export async function runCommand(words: readonly string[]): Promise<number> {
  try {
    const shoal = await program(words[0]);
    // Help about a command that there is not is the same mistake as the command.
    await shoal.parseAsync(toUnknown(shoal, words) ?? words, { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    return exitCodeOf(error);
  }
}

/** The words up to the first that is no command where one is expected; null: there is none. */
function toUnknown(shoal: Command, words: readonly string[]): readonly string[] | null {
  const named = words.filter((word) => word !== 'help');
  let at = shoal;
  for (const [place, word] of named.entries()) {
    if (word.startsWith('-') || at.commands.length === 0) return null;
    const next = at.commands.find((command) => command.name() === word);
    if (next === undefined) return named.slice(0, place + 1);
    at = next;
  }
  return null;
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
