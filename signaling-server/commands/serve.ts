/** `shoal serve`: the server for donors who open the page. */
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import type { BrowserName } from '../../swarm/limits.ts';
import type { WarmUp } from '../../swarm/plan/plan.ts';
import { splitProblem } from '../../swarm/planner/equalSplit.ts';
import { ownedStages } from '../../swarm/planner/ownedSplit.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { PUBLIC_VIEWS, type PublicView } from '../api/visible.ts';
import { readIceServers } from '../donors/iceServers.ts';
import type { NetworkOptions } from '../donors/network.ts';
import { Rehearsal } from '../faults/rehearsal.ts';
import { PAGES_FOLDER, WORK_FOLDER } from '../files/projectRoot.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonors } from '../headless/headless.ts';
import { aborted, onInterrupt } from '../headless/interrupt.ts';
import { fileProgress } from '../headless/progress.ts';
import { statusOf } from '../headless/trainingServer.ts';
import {
  type Access,
  parseEmbedOn,
  parsePublicUrl,
  parseTrustProxy,
  readTls,
  secureContextProblem,
} from '../http/access.ts';
import { listenFault } from '../http/listening.ts';
import { type Log, terminalLog } from '../monitoring/log.ts';
import { takeNext } from '../operator/queue.ts';
import { createServer, DEFAULT_PORT, type Server } from '../server.ts';
import { addRun, type DataDirectory } from '../store/dataDirectory.ts';
import { storedDocument } from '../store/runDocument.ts';
import { LONG_RUN, prepareBundledRun } from '../texts/corpus.ts';
import { badInput, failed, need } from './failure.ts';
import { openData } from './openData.ts';
import {
  BROWSER_OPTION,
  browser,
  CHUNKS_OPTION,
  checkBrowsers,
  checkRecord,
  chunks,
  PAIRS_OPTION,
  pairs,
  RECORD_OPTION,
  REPLICAS_OPTION,
  replicas,
  SCHEDULE_WISHES,
  type ScheduleWish,
  schedule,
  WARMUP_OPTION,
  warmup,
  wholeNumber,
} from './options.ts';
import { checkAuto, checkStages, splitOptions } from './planChoice.ts';

const HIGHEST_PORT = 65_535;
/** A longer one would not fit in a greeting. */
const INVITE_LENGTH_LIMIT = 200;

interface ServeOptions {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly donors: number;
  readonly browser: BrowserName;
  readonly schedule?: ScheduleWish;
  readonly stages?: number;
  readonly chunks?: number;
  readonly pairs?: number;
  readonly warmup?: WarmUp;
  readonly replicas?: number;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly publicUrl?: string;
  readonly trustProxy?: string[];
  readonly embedOn?: string[];
  readonly iceServers?: string;
  readonly invite?: string;
  readonly public?: PublicView;
  readonly record?: string;
}

export function addServeCommand(program: Command): void {
  program
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
    .option('--data-dir <dir>', 'where runs are kept', join(WORK_FOLDER, 'serve'))
    .option('--donors <n>', 'headless donors beside it', wholeNumber('--donors', 0), 0)
    .option('--browser <name>', BROWSER_OPTION, browser, 'chromium')
    .option(
      '--schedule <name>',
      `order of the work, one of ${SCHEDULE_WISHES.join(', ')} (default: auto, the plan whose step is predicted to be shortest; the others over every donor alike)`,
      schedule,
    )
    .option(
      '--stages <p>',
      'pipeline stages, over which every donor is shared out (gpipe, if nothing else is said); fewer donors have fewer',
      wholeNumber('--stages', 1),
    )
    .option('--chunks <v>', CHUNKS_OPTION, chunks)
    .option('--pairs <f>', PAIRS_OPTION, pairs)
    .option('--warmup <name>', WARMUP_OPTION, warmup)
    .option('--replicas <n>', REPLICAS_OPTION, replicas)
    .option('--tls-cert <file>', 'serve https with this certificate (PEM, its chain included)')
    .option('--tls-key <file>', 'the key of the certificate (PEM)')
    .option('--public-url <url>', 'the address that donors and operator use, where a proxy stands before', (text) =>
      need(parsePublicUrl(text), badInput),
    )
    .option('--trust-proxy <addresses>', 'proxies whose X-Forwarded headers are believed', (text) =>
      need(parseTrustProxy(text), badInput),
    )
    .option(
      '--embed-on <sites>',
      'sites that may show /embed in a frame: https://HOST, with commas between them',
      (text) => need(parseEmbedOn(text), badInput),
    )
    .option('--ice-servers <file>', 'STUN and TURN servers: a JSON list, as the iceServers of an RTCConfiguration')
    .option('--record <file>', RECORD_OPTION)
    .addOption(
      new Option(
        '--public <view>',
        'what anyone may see of a run that is by invitation: its status, and samples',
      ).choices(PUBLIC_VIEWS),
    )
    .option('--invite <token>', 'only donors whose link carries it may join', inviteToken)
    .action(serve);
}

async function serve(path: string | undefined, options: ServeOptions): Promise<void> {
  const { donors: headless, stages } = options;
  checkAuto(options);
  if (headless > 0) checkBrowsers([options.browser]);
  checkRecord(options.record);
  if (options.public !== undefined && options.invite === undefined)
    throw badInput('--public is of a run by invitation: it needs --invite, without which everyone may see the run');
  const isOwned = ownedStages(1, wishesOf(options)) !== null;
  if (!isOwned && headless > 0 && (stages ?? 1) > headless)
    throw badInput(`--stages must be at most --donors (${headless}), not ${stages}`);
  const access = accessOf(options);
  const network = networkOf(options);
  const log = terminalLog();
  const fault = await listenFault(options.host, options.port);
  if (fault !== null) throw failed(fault);
  const data = await openData(options.dataDir);
  try {
    const runName = await chooseRun(data, path, log);
    checkServed(options, storedDocument(data.store, runName).file, path ?? runName);
    const interrupt = onInterrupt();
    const onOperatorToken = (token: string): void => log('info', `the next operator token: ${token}`);
    const { host, port } = options;
    const wishes = wishesOf(options);
    const pages = PAGES_FOLDER;
    const record = options.record === undefined ? {} : { recordPath: options.record };
    const opened = {
      data,
      host,
      ...(options.public === undefined ? {} : { publicView: options.public }),
      ...(options.embedOn === undefined ? {} : { embedOn: options.embedOn }),
      ...record,
      ...wishes,
      ...network,
      access,
      pages,
      log,
      onOperatorToken,
    };
    let next = chosenRun();
    let server = need(await createServer({ ...opened, runName, port, onActivate: next.choose }), failed);
    announce(server, access, options);
    const donors = await headlessDonors(server, options, log);
    rehearseOn(donors, server);
    for (;;) {
      const chosen = await Promise.race([aborted(interrupt.signal).then(() => null), next.chosen]);
      log('info', 'stopping after this step (with islands: at the next meeting); a second Ctrl-C stops at once');
      await server.stop();
      log('info', `${server.run.name} stopped after ${server.run.committedSteps} steps`);
      if (chosen === null || interrupt.signal.aborted) break;
      next = chosenRun();
      // The same address: tabs and dashboards come back to it by themselves.
      const again = { ...opened, port: Number(new URL(server.url).port), onActivate: next.choose };
      const changed = await createServer({ ...again, runName: chosen });
      if (!changed.ok) log('warn', `the run stays ${server.run.name}: ${changed.reason}`);
      server = changed.ok ? changed.value : need(await createServer({ ...again, runName: server.run.name }), failed);
      rehearseOn(donors, server);
      onOperatorToken(server.operatorToken());
    }
    await closeAll(donors);
  } finally {
    data.close();
  }
}

/** Whoever says how many stages there are wants every donor in them; else what donors measured decides. */
export function wishesOf(
  options: Pick<ServeOptions, 'stages' | 'schedule' | 'chunks' | 'pairs' | 'warmup' | 'replicas'>,
): PlanWishes {
  const { stages, schedule, replicas } = options;
  const order = schedule ?? (stages === undefined ? 'auto' : 'gpipe');
  const copies = replicas === undefined ? {} : { replicas };
  if (order === 'auto') return { auto: true, ...copies };
  return { ...splitOptions({ ...options, schedule: order }), ...copies };
}

/** What no donors could have; how many come is not known yet, but of those that this command opens. */
function checkServed(options: ServeOptions, file: RunFile, path: string): void {
  const model = modelOf(file);
  const wishes = wishesOf(options);
  const isOwned = ownedStages(1, wishes) !== null;
  if (!isOwned) checkStages(options.stages, model.layers, path);
  if (!isOwned || options.donors === 0) return;
  const problem = splitProblem(model, file.train.globalBatchSize, options.donors, wishes);
  if (problem !== null) throw badInput(`${path}: ${problem}`);
}

/** The run that the operator changes to, when that is said. */
function chosenRun(): { readonly chosen: Promise<string>; readonly choose: (run: string) => void } {
  let choose: (run: string) => void = () => {};
  const chosen = new Promise<string>((resolve) => {
    choose = resolve;
  });
  return { chosen, choose };
}

/** The file's run, else the one that was active last, else the bundled one. */
async function chooseRun(data: DataDirectory, path: string | undefined, log: Log): Promise<string> {
  if (path !== undefined)
    return need(await addRun(data, path, { progress: fileProgress((line) => log('info', line)) }), badInput);
  const active = data.store.activeRun();
  if (active !== null) return nextAfter(data, active.name);
  log('info', 'no run is here yet: taking the bundled one, whose text (7 MB, compressed) is fetched once');
  const bundled = need(await prepareBundledRun(LONG_RUN, join(WORK_FOLDER, 'corpus')), failed);
  const name = need(await addRun(data, bundled), failed);
  if (data.store.card(name) === null) data.store.saveCard(name, JSON.stringify(LONG_RUN.card));
  return name;
}

/** A run that is finished makes way for the next one of the queue. */
function nextAfter({ store }: DataDirectory, active: string): string {
  const { steps } = storedDocument(store, active).file.train;
  const isOver = store.committedSteps(active) >= steps;
  return (isOver ? takeNext(store, active) : null) ?? active;
}

function hostName(text: string): string {
  if (text !== '') return text;
  throw badInput('--host must be a name or an address, not ""');
}

function inviteToken(text: string): string {
  if (text.length >= 1 && text.length <= INVITE_LENGTH_LIMIT) return text;
  throw badInput(`--invite must have 1 to ${INVITE_LENGTH_LIMIT} characters, not ${text.length}`);
}

function accessOf({ tlsCert, tlsKey, publicUrl, trustProxy }: ServeOptions): Access {
  const tls = need(readTls(tlsCert, tlsKey), badInput);
  return {
    ...(tls === null ? {} : { tls }),
    ...(publicUrl === undefined ? {} : { publicUrl }),
    ...(trustProxy === undefined ? {} : { trustProxy }),
  };
}

function networkOf({ iceServers, invite }: ServeOptions): NetworkOptions {
  return {
    ...(iceServers === undefined ? {} : { iceServers: need(readIceServers(iceServers), badInput) }),
    ...(invite === undefined ? {} : { invite }),
  };
}

/** What a donor opens: a fragment is not sent to anyone nor logged. */
const donorLink = (url: string, { invite }: ServeOptions): string =>
  `${url}/${invite === undefined ? '' : `#invite=${encodeURIComponent(invite)}`}`;

const FINISHED = `This run is finished. To go on, press “New run” under Runs on the dashboard,
or try another text: npm start -- docs/examples/run.json
`;

function announce(server: Server, { publicUrl }: Access, options: ServeOptions): void {
  const token = server.operatorToken();
  const url = publicUrl ?? server.url;
  process.stdout.write(
    `donor page:     ${donorLink(url, options)}\n` +
      `dashboard:      ${url}/operator#token=${token}\n` +
      `operator token: ${token} (works once)\n` +
      `run:            ${server.run.name}, ${server.run.snapshot().sentence}\n`,
  );
  if (server.run.phase === 'finished') process.stdout.write(FINISHED);
  const isAny = ['0.0.0.0', '::'].includes(options.host) && publicUrl === undefined;
  const problem = secureContextProblem(isAny ? url.replace('localhost', 'this-machine') : url);
  if (problem !== null) process.stdout.write(`${problem}\n`);
}

async function headlessDonors(server: Server, options: ServeOptions, log: Log): Promise<HeadlessDonor[]> {
  const { donors: count, browser } = options;
  if (count === 0 || server.run.phase === 'finished') return [];
  const opened = await openHeadlessDonors(server.ownDonorUrl, count, log, browser, (number) =>
    log('info', `headless donor ${number} of ${count} takes part`),
  );
  if (!opened.ok) {
    await server.close();
    throw failed(opened.reason);
  }
  return opened.value;
}

/** From the dashboard: what befalls donors that this command opened is nobody else's loss. */
function rehearseOn(donors: readonly HeadlessDonor[], { run, rehearsals }: Server): void {
  const rehearsal = new Rehearsal(donors);
  run.onChange(() => rehearsal.see(statusOf(run)));
  rehearsals.attach(rehearsal);
}
