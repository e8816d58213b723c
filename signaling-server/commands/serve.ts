/** `shoal serve`: the server for donors who open the page. */
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { ownedStages } from '../../swarm/planner/equalSplit.ts';
import { PUBLIC_VIEWS } from '../api/visible.ts';
import { Rehearsal } from '../faults/rehearsal.ts';
import { WORK_FOLDER } from '../files/projectRoot.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonor } from '../headless/headless.ts';
import { aborted, onInterrupt } from '../headless/interrupt.ts';
import { statusOf } from '../headless/trainingServer.ts';
import { HUGGING_FACE, parseEmbedOn, parseHubUrl, parsePublicUrl, parseTrustProxy } from '../http/access.ts';
import { listenFault } from '../http/listening.ts';
import { type Log, terminalLog } from '../monitoring/log.ts';
import { createServer, DEFAULT_PORT, type Server } from '../server.ts';
import { storedDocument } from '../store/runDocument.ts';
import { badInput, failed, need } from './failure.ts';
import { openData } from './openData.ts';
import {
  API_OPTION,
  BROWSER_OPTION,
  browser,
  checkBrowsers,
  checkRecord,
  DEFAULT_SITE,
  modelsFolder,
  natsUrls,
  planOptions,
  RECORD_OPTION,
  refuseWithout,
  SCHEDULE_WISHES,
  schedule,
  siteName,
  tryIt,
  wholeNumber,
} from './options.ts';
import { checkAuto } from './planChoice.ts';
import {
  accessOf,
  announce,
  checkServed,
  chooseRun,
  networkOf,
  type ServeOptions,
  sharedOptions,
  wishesOf,
} from './servedRun.ts';
import { serveSite } from './serveSite.ts';

const HIGHEST_PORT = 65_535;
/** A longer one would not fit in a greeting. */
const INVITE_LENGTH_LIMIT = 200;

const PUBLIC_OPTION = new Option(
  '--public <view>',
  'what anyone may see of a run that is by invitation: its status, and samples',
).choices(PUBLIC_VIEWS);

/** How browsers come to its pages, and what those may do. */
const webOptions = (command: Command): Command =>
  command
    .option('--tls-cert <file>', 'serve https with this certificate (PEM, its chain included)')
    .option('--tls-key <file>', 'the key of the certificate (PEM)')
    .option('--public-url <url>', 'the address that people use, if a proxy stands in front', (text) =>
      need(parsePublicUrl(text), badInput),
    )
    .option('--trust-proxy <addresses>', 'proxies whose X-Forwarded headers are believed', (text) =>
      need(parseTrustProxy(text), badInput),
    )
    .option('--embed-on <sites>', 'sites that may show /embed in a frame: https://HOST, separated by commas', (text) =>
      need(parseEmbedOn(text), badInput),
    )
    .option(
      '--hub-url <url>',
      'the Hub that the dashboard may open pull requests at',
      (text) => need(parseHubUrl(text), badInput),
      HUGGING_FACE.url,
    )
    .option('--hub-client-id <id>', 'your OAuth application there, by which operators sign in');

export function addServeCommand(program: Command): void {
  const begun = program
    .command('serve')
    .description('serve the donor page and the dashboard, and train with whoever comes')
    .argument('[run.json]', 'the run file (default: the run that was active last, else the bundled one)')
    .option('--host <host>', 'address to listen on', hostName, 'localhost')
    .option(
      '--port <port>',
      'port to listen on, 0 for any free one',
      wholeNumber('--port', 0, HIGHEST_PORT),
      DEFAULT_PORT,
    )
    .option(
      '--data-dir <dir>',
      'where runs are kept; with --nats, which keeps them, a working folder without any (default there: a temporary one)',
      join(WORK_FOLDER, 'serve'),
    )
    .option('--donors <n>', 'headless donors that the server opens itself', wholeNumber('--donors', 0), 0)
    .option('--browser <name>', BROWSER_OPTION, browser, 'chromium')
    .option(
      '--schedule <name>',
      `how a step’s work is ordered: ${SCHEDULE_WISHES.join(', ')} (default: auto, which takes the plan with the shortest predicted step; each of the others gives every donor a part)`,
      schedule,
    )
    .option(
      '--stages <p>',
      'split the model into this many pipeline stages and give every donor a part (with gpipe, unless you name a schedule)',
      wholeNumber('--stages', 1),
    );
  webOptions(planOptions(begun))
    .option('--ice-servers <file>', 'STUN and TURN servers: a JSON list, as the iceServers of an RTCConfiguration')
    .option('--record <file>', RECORD_OPTION)
    .option(
      '--models <dir>',
      'a folder with folders of models (as the Hub has them), which the dashboard may begin runs from',
      modelsFolder,
    )
    .addOption(PUBLIC_OPTION)
    .addOption(API_OPTION)
    .option('--nats <urls>', 'be one of several servers that share a site over NATS: nats://HOST:PORT,…', natsUrls)
    .option('--site <name>', 'the name of that site', siteName, DEFAULT_SITE)
    .option('--nats-creds <file>', 'a credentials file for that NATS')
    .option('--open-to-all', 'open the runs of a site that were by invitation, once all its servers have ended', false)
    .option('--own-key <file>', 'a file with a key: donors who open the page with /#own=KEY are your own (trust.ends)')
    .option('--invite <token>', 'only donors whose link carries this token may join', inviteToken)
    .addHelpText('after', tryIt('serve docs/examples/run.json --donors 1'))
    .action(serve);
}

async function serve(path: string | undefined, options: ServeOptions, command: Command): Promise<void> {
  const { donors: headless, stages } = options;
  checkAuto(options);
  if (headless > 0) checkBrowsers([options.browser]);
  checkRecord(options.record);
  if (options.public !== undefined && options.invite === undefined)
    throw badInput('--public is of a run by invitation: it needs --invite, without which everyone may see the run');
  const isOwned = ownedStages(1, wishesOf(options)) !== null;
  if (!isOwned && headless > 0 && (stages ?? 1) > headless)
    throw badInput(`--stages must be at most --donors (${headless}), not ${stages}`);
  refuseWithout('--nats', ['--site', '--nats-creds', '--open-to-all'], command);
  if (options.openToAll && options.invite !== undefined)
    throw badInput('--open-to-all and --invite say opposite things: leave one of them out');
  const access = accessOf(options);
  networkOf(options);
  const log = terminalLog();
  const fault = await listenFault(options.host, options.port);
  if (fault !== null) throw failed(fault);
  if (options.nats !== undefined) {
    const { nats } = options;
    const directory = command.getOptionValueSource('dataDir') === 'default' ? null : options.dataDir;
    return serveSite(path, { ...options, nats }, access, directory);
  }
  const data = await openData(options.dataDir);
  try {
    const runName = await chooseRun(data, path, log);
    checkServed(options, storedDocument(data.store, runName).file, path ?? runName);
    await serveRuns(data, runName, { options, access, log });
  } finally {
    data.close();
  }
}

interface Serving {
  readonly options: ServeOptions;
  readonly access: ReturnType<typeof accessOf>;
  readonly log: Log;
}

/** One run after the other, as an operator chooses them, until the command is interrupted. */
async function serveRuns(
  data: Awaited<ReturnType<typeof openData>>,
  runName: string,
  { options, access, log }: Serving,
): Promise<void> {
  const interrupt = onInterrupt();
  const onOperatorToken = (token: string): void => log('info', `the next operator token: ${token}`);
  const opened = { ...sharedOptions(options, access), data, log, onOperatorToken };
  const donors: HeadlessDonor[] = [];
  let next = chosenRun();
  let server = need(await createServer({ ...opened, runName, onActivate: next.choose }), failed);
  announce(server, access, options);
  try {
    for (;;) {
      rehearseOn(donors, server);
      const held = new AbortController();
      const opening = openMissing(donors, server, { ...options, log }, held.signal);
      const choice = Promise.race([aborted(interrupt.signal).then(() => null), next.chosen]);
      const chosen = await Promise.race([choice, opening.then(() => choice)]);
      const after = 'after this step (with islands: at the next meeting)';
      if (chosen === null) log('info', `stopping ${after}; a second Ctrl-C stops at once`);
      else log('info', `an operator chose ${chosen}: changing to it ${after}`);
      held.abort();
      await opening; // a page that is being opened finds the server where it was
      await server.stop();
      log('info', `${server.run.name} stopped after ${server.run.committedSteps} steps`);
      if (chosen === null || interrupt.signal.aborted) break;
      next = chosenRun();
      // The same address: tabs and dashboards come back to it by themselves.
      const again = { ...opened, port: Number(new URL(server.url).port), onActivate: next.choose };
      const changed = await createServer({ ...again, runName: chosen });
      if (!changed.ok) log('warn', `the run stays ${server.run.name}: ${changed.reason}`);
      server = changed.ok ? changed.value : need(await createServer({ ...again, runName: server.run.name }), failed);
      log('info', `training ${server.run.name}`);
      onOperatorToken(server.operatorToken());
    }
  } finally {
    await closeAll(donors);
  }
}

/** The run that the operator changes to, when that is said. */
function chosenRun(): { readonly chosen: Promise<string>; readonly choose: (run: string) => void } {
  let choose: (run: string) => void = () => {};
  const chosen = new Promise<string>((resolve) => {
    choose = resolve;
  });
  return { chosen, choose };
}

function hostName(text: string): string {
  if (text !== '') return text;
  throw badInput('--host must be a name or an address, not ""');
}

function inviteToken(text: string): string {
  if (text.length >= 1 && text.length <= INVITE_LENGTH_LIMIT) return text;
  throw badInput(`--invite must have 1 to ${INVITE_LENGTH_LIMIT} characters, not ${text.length}`);
}

/**
 * Opens what is missing of the donors asked for, strictly one after the other, so that none starts while another one is
 * admitted; no more of them once `held`, or where the run is finished: it admits nobody.
 */
async function openMissing(
  donors: HeadlessDonor[],
  server: Server,
  { donors: count, browser, log }: Pick<ServeOptions, 'donors' | 'browser'> & { readonly log: Log },
  held: AbortSignal,
): Promise<void> {
  const isOver = (): boolean => server.run.phase === 'finished';
  while (donors.length < count && !held.aborted && !isOver()) {
    const donor = await openHeadlessDonor(server.ownDonorUrl, donors.length, log, { browser });
    if (donor.ok) {
      donors.push(donor.value);
      log('info', `headless donor ${donors.length} of ${count} takes part`);
    } else if (!isOver() && !held.aborted) {
      await server.close();
      throw failed(donor.reason);
    }
  }
}

/** From the dashboard: what befalls donors that this command opened is nobody else's loss. */
function rehearseOn(donors: readonly HeadlessDonor[], { run, rehearsals }: Server): void {
  const rehearsal = new Rehearsal(donors);
  run.onChange(() => rehearsal.see(statusOf(run)));
  rehearsals.attach(rehearsal);
}
