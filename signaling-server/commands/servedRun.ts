/** What `shoal serve` is told, and what follows from it for the run, whether this server is alone or one of a site. */
import { join } from 'node:path';
import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { given, success } from '../../swarm/base.ts';
import type { BrowserName } from '../../swarm/limits.ts';
import { ownedStages, splitProblem } from '../../swarm/planner/equalSplit.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import type { PublicView } from '../api/visible.ts';
import { readIceServers } from '../donors/iceServers.ts';
import type { NetworkOptions } from '../donors/network.ts';
import { PAGES_FOLDER, WORK_FOLDER } from '../files/projectRoot.ts';
import { fileProgress } from '../headless/progress.ts';
import { type Access, readOwnKey, readTls, secureContextProblem } from '../http/access.ts';
import type { Log } from '../monitoring/log.ts';
import { takeNext } from '../operator/queue.ts';
import type { Server, ServerOptions } from '../server.ts';
import { addRun, type DataDirectory, whereKept } from '../store/dataDirectory.ts';
import { storedDocument } from '../store/runDocument.ts';
import { LONG_RUN, prepareBundledRun } from '../texts/corpus.ts';
import { badInput, failed, need } from './failure.ts';
import { checkStages, type PlanOptions, splitOptions } from './planChoice.ts';

export interface ServeOptions extends Omit<PlanOptions, 'donors' | 'donor' | 'microBatches' | 'plan'> {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly donors: number;
  readonly browser: BrowserName;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly publicUrl?: string;
  readonly trustProxy?: string[];
  readonly embedOn?: string[];
  readonly hubUrl: string;
  readonly hubClientId?: string;
  readonly iceServers?: string;
  readonly invite?: string;
  /** A file with the key of the operator's own donors. */
  readonly ownKey?: string;
  readonly public?: PublicView;
  readonly api: NonNullable<ServerOptions['api']>;
  readonly record?: string;
  /** Folder of models' folders. */
  readonly models?: string;
  /** Addresses of a NATS, whose site this server is one process of. */
  readonly nats?: readonly string[];
  readonly site: string;
  readonly natsCreds?: string;
  readonly openToAll: boolean;
}

/** Whoever says how many stages there are wants every donor in them; else what donors measured decides. */
export function wishesOf(
  options: Pick<ServeOptions, 'stages' | 'schedule' | 'chunks' | 'pairs' | 'warmup' | 'replicas'>,
): PlanWishes {
  const { stages, schedule, replicas } = options;
  const order = schedule ?? (stages === undefined ? 'auto' : 'gpipe');
  const copies = given({ replicas });
  if (order === 'auto') return { auto: true, ...copies };
  return { ...splitOptions({ ...options, schedule: order }), ...copies };
}

/** What no donors could have; how many come is not known yet, but of those that this command opens. */
export function checkServed(options: ServeOptions, file: RunFile, path: string): void {
  const model = modelOf(file);
  const wishes = wishesOf(options);
  const isOwned = ownedStages(1, wishes) !== null;
  if (!isOwned) checkStages(options.stages, model.layers, path);
  if (!isOwned || options.donors === 0) return;
  const problem = splitProblem(model, file.train.globalBatchSize, options.donors, wishes);
  if (problem !== null) throw badInput(`${path}: ${problem}`);
}

/** The file's run, else the one that was active last, else the bundled one. */
export async function chooseRun(data: DataDirectory, path: string | undefined, log: Log): Promise<string> {
  return need(await whereKept(data, async () => success(await chosen(data, path, log))), failed);
}

async function chosen(data: DataDirectory, path: string | undefined, log: Log): Promise<string> {
  if (path !== undefined) {
    const progress = fileProgress((line) => log('info', line));
    return need(await addRun(data, path, { progress, note: (sentence) => log('warn', sentence) }), badInput);
  }
  const active = data.store.activeRun();
  if (active !== null) return nextAfter(data, active.name);
  log('info', 'no run yet: taking the bundled one, whose text (7 MB, compressed) is fetched once');
  const bundled = need(await prepareBundledRun(LONG_RUN, join(WORK_FOLDER, 'corpus')), failed);
  const name = need(await addRun(data, bundled), failed);
  if (data.store.setting(`card ${name}`) === null)
    data.store.saveSetting(`card ${name}`, JSON.stringify(LONG_RUN.card));
  return name;
}

/** A run that is finished makes way for the next one of the queue. */
function nextAfter({ store }: DataDirectory, active: string): string {
  const { steps } = storedDocument(store, active).file.train;
  const isOver = store.committedSteps(active) >= steps;
  return (isOver ? takeNext(store, active) : null) ?? active;
}

export function accessOf({ tlsCert, tlsKey, publicUrl, trustProxy }: ServeOptions): Access {
  const tls = need(readTls(tlsCert, tlsKey), badInput) ?? undefined;
  return given({ tls, publicUrl, trustProxy });
}

export function networkOf({ iceServers, invite }: ServeOptions): NetworkOptions {
  const servers = iceServers === undefined ? undefined : need(readIceServers(iceServers), badInput);
  return given({ iceServers: servers, invite });
}

/** What a donor opens: a fragment is not sent to anyone nor logged. */
const donorLink = (url: string, { invite }: ServeOptions): string =>
  `${url}/${invite === undefined ? '' : `#invite=${encodeURIComponent(invite)}`}`;

const FINISHED = `This run is finished. To go on, press “New run” under Runs on the dashboard,
or try another text: npm start -- docs/examples/run.json
`;

/** With headless donors it trains by itself. */
const WATCH = 'next:           open the dashboard to watch; whoever opens the donor page can help\n';
const NEXT =
  'next:           open the donor page and press “Donate this GPU”; then open it in another browser, best on another machine\n';

/** Where it is and what opens it; `run`: a line about what it serves. */
export function announceAddress(
  { url: ownUrl, token, run }: { readonly url: string; readonly token: string; readonly run: string },
  { publicUrl }: Access,
  options: ServeOptions,
): void {
  const url = publicUrl ?? ownUrl;
  process.stdout.write(
    `donor page:     ${donorLink(url, options)}\n` +
      (options.ownKey === undefined ? '' : `own donors:     ${url}/#own=KEY, with the key in ${options.ownKey}\n`) +
      `dashboard:      ${url}/operator#token=${token}\n` +
      `operator token: ${token} (works once)\n` +
      `${run}\n`,
  );
  const isAny = ['0.0.0.0', '::'].includes(options.host) && publicUrl === undefined;
  const problem = secureContextProblem(isAny ? url.replace('localhost', 'this-machine') : url);
  if (problem !== null) process.stdout.write(`${problem}\n`);
}

export function announce({ url, run, operatorToken }: Server, access: Access, options: ServeOptions): void {
  const line = `run:            ${run.name}, ${run.snapshot().sentence}`;
  announceAddress({ url, token: operatorToken(), run: line }, access, options);
  process.stdout.write(run.phase === 'finished' ? FINISHED : options.donors > 0 ? WATCH : NEXT);
}

/** What every server of this command is opened with, whichever run it has. */
export const sharedOptions = (options: ServeOptions, access: Access) => ({
  ...{ host: options.host, port: options.port, access, pages: PAGES_FOLDER, api: options.api },
  hub: { url: options.hubUrl, clientId: options.hubClientId ?? null },
  ...given({
    ownKey: options.ownKey === undefined ? undefined : need(readOwnKey(options.ownKey), badInput),
    models: options.models,
    publicView: options.public,
    embedOn: options.embedOn,
    recordPath: options.record,
  }),
  ...wishesOf(options),
  ...networkOf(options),
});
