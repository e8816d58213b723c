/** `shoal serve`: the server for donors who open the page. */
import { join } from 'node:path';
import type { Command } from 'commander';
import { modelOf } from '../../swarm/runFile.ts';
import { SCHEDULE_NAMES, type ScheduleName } from '../../swarm/schedule/action.ts';
import { prepareDefaultRun } from '../corpus.ts';
import { addRun, type DataDirectory, openDataDirectory } from '../dataDirectory.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonors } from '../headless.ts';
import { aborted, onInterrupt } from '../interrupt.ts';
import { terminalLog } from '../log.ts';
import { fileProgress } from '../progress.ts';
import { PAGES_FOLDER, WORK_FOLDER } from '../projectRoot.ts';
import type { Log } from '../run.ts';
import { parseDocument } from '../runDocument.ts';
import { createServer, DEFAULT_PORT, type Server, secureContextProblem } from '../server.ts';
import { badInput, failed, need } from './failure.ts';
import { laterOption, schedule, wholeNumber } from './options.ts';
import { checkStages } from './planChoice.ts';

interface ServeOptions {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly donors: number;
  readonly schedule: ScheduleName;
  readonly stages?: number;
}

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('serve the donor page and the dashboard, and train with whoever comes')
    .argument('[run.json]', 'the run file (default: the run that was active last, else the bundled one)')
    .option('--host <host>', 'address to listen on', 'localhost')
    .option('--port <port>', 'port to listen on, 0 for any free one', wholeNumber('--port', 0), DEFAULT_PORT)
    .option('--data-dir <dir>', 'where runs are kept', join(WORK_FOLDER, 'serve'))
    .option('--donors <n>', 'headless donors beside it', wholeNumber('--donors', 0), 0)
    .option('--schedule <name>', `order of the work, one of ${SCHEDULE_NAMES.join(', ')}`, schedule, 'gpipe')
    .option(
      '--stages <p>',
      'pipeline stages, over which the donors are shared out; fewer donors have fewer',
      wholeNumber('--stages', 1),
    )
    .addOption(laterOption('--tls-cert <file>', 'certificate'))
    .addOption(laterOption('--tls-key <file>', 'key of the certificate'))
    .addOption(laterOption('--public-url <url>', 'address that donors use'))
    .addOption(laterOption('--trust-proxy <addresses>', 'proxies whose headers are believed'))
    .addOption(laterOption('--ice-servers <file>', 'STUN and TURN servers'))
    .addOption(laterOption('--invite <token>', 'only donors whose link carries it'))
    .action(serve);
}

async function serve(path: string | undefined, options: ServeOptions): Promise<void> {
  const { donors: headless, stages } = options;
  if (headless > 0 && (stages ?? 1) > headless)
    throw badInput(`--stages must be at most --donors (${headless}), not ${stages}`);
  const log = terminalLog();
  const data = need(await openDataDirectory(options.dataDir), failed);
  try {
    const runName = await chooseRun(data, path, log);
    checkStages(stages, modelOf(parseDocument(data.store.run(runName)?.document ?? '').file).layers, path ?? runName);
    const interrupt = onInterrupt();
    const onOperatorToken = (token: string): void => log('info', `the next operator token: ${token}`);
    const { host, port } = options;
    const wishes = { schedule: options.schedule, ...(stages === undefined ? {} : { stages }) };
    const pages = PAGES_FOLDER;
    const server = need(
      await createServer({ data, runName, host, port, ...wishes, pages, log, onOperatorToken }),
      failed,
    );
    announce(server, options);
    const donors = await headlessDonors(server, headless, log);
    await aborted(interrupt.signal);
    log('info', 'stopping at the next step boundary; a second Ctrl-C stops at once');
    await server.stop();
    await closeAll(donors);
    log('info', `stopped after ${server.run.committedSteps} steps`);
  } finally {
    data.close();
  }
}

/** The file's run, else the one that was active last, else the bundled one. */
async function chooseRun(data: DataDirectory, path: string | undefined, log: Log): Promise<string> {
  if (path !== undefined)
    return need(await addRun(data, path, { progress: fileProgress((line) => log('info', line)) }), badInput);
  const active = data.store.activeRun();
  if (active !== null) return active.name;
  log('info', 'no run is here yet: taking the bundled one');
  const bundled = need(await prepareDefaultRun(join(WORK_FOLDER, 'corpus')), failed);
  return need(await addRun(data, bundled), failed);
}

function announce(server: Server, { host }: ServeOptions): void {
  const token = server.operatorToken();
  process.stdout.write(
    `donor page:     ${server.url}/\n` +
      `dashboard:      ${server.url}/operator#token=${token}\n` +
      `operator token: ${token} (works once)\n` +
      `run:            ${server.run.name}, ${server.run.snapshot().sentence}\n`,
  );
  const problem = secureContextProblem(host);
  if (problem !== null) process.stdout.write(`${problem}\n`);
}

async function headlessDonors(server: Server, count: number, log: Log): Promise<HeadlessDonor[]> {
  if (count === 0 || server.run.phase === 'finished') return [];
  const opened = await openHeadlessDonors(server.url, count, log, (number) =>
    log('info', `headless donor ${number} of ${count} takes part`),
  );
  if (!opened.ok) {
    await server.close();
    throw failed(opened.reason);
  }
  return opened.value;
}
