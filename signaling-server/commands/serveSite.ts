/** `shoal serve --nats`: one of several servers of a site, which goes on with the run where the one that leads is gone. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { given, type Result, refusal, success } from '../../swarm/base.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { aborted, onInterrupt } from '../headless/interrupt.ts';
import type { Access } from '../http/access.ts';
import { type Log, terminalLog } from '../monitoring/log.ts';
import { createServer } from '../server.ts';
import { isSiteLed } from '../site/lease.ts';
import { SiteMember } from '../site/member.ts';
import { withoutPassword } from '../site/natsConnection.ts';
import { SITE_DONORS } from '../site/room.ts';
import { openSite } from '../site/site.ts';
import { SiteInvite } from '../site/siteInvite.ts';
import { holdsStore } from '../store/dataDirectory.ts';
import { storedDocument } from '../store/runDocument.ts';
import type { Store } from '../store/store.ts';
import { badInput, failed, need } from './failure.ts';
import { DEFAULT_SITE } from './options.ts';
import { announceAddress, checkServed, chooseRun, type ServeOptions, sharedOptions } from './servedRun.ts';

interface SiteOptions extends ServeOptions {
  readonly nats: readonly string[];
}

/** A cluster of NATS that has just begun, or begins meanwhile, is waited for. */
const NATS_PATIENCE_MS = 60_000;

/** `directory`: the working folder, of which nothing need be kept; null: a new one, removed at the end. */
export async function serveSite(
  path: string | undefined,
  options: SiteOptions,
  access: Access,
  directory: string | null,
): Promise<void> {
  if (options.donors > 0)
    throw badInput('--donors opens headless donors beside a single server: leave it out with --nats');
  if (directory !== null && holdsStore(directory)) throw badInput(storeThere(directory, options));
  const log = terminalLog();
  const interrupt = onInterrupt();
  const folder = directory ?? mkdtempSync(join(tmpdir(), 'shoal-site-'));
  const { nats: urls, site: name, natsCreds: creds } = options;
  const site = need(
    await openSite({
      ...{ urls, site: name, directory: folder, log, ...given({ creds }) },
      ...{ patienceMs: NATS_PATIENCE_MS, signal: interrupt.signal },
    }),
    failed,
  );
  const { data } = site;
  const { invite, openToAll: isOpening } = options;
  const inviting = new SiteInvite({ store: data.store, site: name, invite, isOpening, log });
  const otherwise = inviting.startProblem(await isSiteLed(site.leases).catch(() => false));
  if (otherwise !== null) {
    await site.close();
    if (directory === null) rmSync(folder, { recursive: true, force: true });
    throw badInput(otherwise);
  }
  const onOperatorToken = (token: string): void => log('info', `the next operator token: ${token}`);
  const shared = { ...sharedOptions(options, access), maxDonors: SITE_DONORS };
  // One file has one run's events.
  const { record: _record, ...unrecorded } = options;
  const besideOptions = { ...sharedOptions(unrecorded, access), maxDonors: SITE_DONORS };
  /** What the operator chose here, until it is opened: later somebody else may have chosen. */
  let chosen: string | null = null;
  let hasLed = false;
  let opened: SiteMember | null = null;
  const unused = new UnusedRunFile(path, data.store, log);
  const member = need(
    await SiteMember.open({
      ...{ site, access, host: options.host, port: options.port, pages: shared.pages, log, onOperatorToken },
      ...given({ embedOn: options.embedOn }),
      hub: shared.hub,
      open: async (url, { name, data: ofRun, runs }) => {
        const isAlone = opened?.isAlone ?? true;
        const invited = name === null ? inviting.lead(isAlone) : inviting.leadBeside();
        if (!invited.ok) return invited;
        if (name !== null)
          return createServer({ ...besideOptions, data: ofRun, log, runName: name, knownAs: url, site: runs });
        // What others have led meanwhile goes on; a file says what a site begins with.
        const isOurs = data.store.activeRun() === null || (!hasLed && isAlone);
        hasLed = true;
        if (!isOurs) unused.look();
        const wanted = chosen ?? (await chooseRun(data, isOurs ? path : undefined, log));
        chosen = null;
        const first = firstRun(data.store, wanted);
        if (!first.ok) return first;
        const runName = first.value;
        if (runName !== wanted) log('warn', `${wanted} trains beside ${runName}: it is not the first run of the site`);
        checkServed(options, storedDocument(data.store, runName).file, path ?? runName);
        const onActivate = (run: string): void => {
          chosen = run;
          void opened?.reopen();
        };
        return createServer({ ...shared, data: ofRun, log, runName, knownAs: url, onActivate, site: runs });
      },
      onFollow: () => {
        inviting.followed();
        unused.look();
      },
      onRole: (server) => {
        if (server !== null) log('info', `${server.run.name}: ${server.run.snapshot().sentence}`);
      },
    }),
    failed,
  );
  opened = member;
  announceAddress({ url: member.url, token: member.operatorToken, run: `site:           ${name}` }, access, options);
  await aborted(interrupt.signal);
  const left = await member.leave();
  log('info', left === 'alone' ? 'stopping after this step' : 'the other servers of the site go on');
  await (left === 'alone' ? member.stop() : member.close());
  await site.close();
  if (directory === null) rmSync(folder, { recursive: true, force: true });
}

/** A working folder's files are taken away where the site does not name them: it may be nobody's only copy. */
function storeThere(directory: string, { nats, site }: SiteOptions): string {
  const to = `${nats.map(withoutPassword).join(',')}${site === DEFAULT_SITE ? '' : ` --site ${site}`}`;
  return `--data-dir ${directory}: has the runs of a single server, and with --nats a site keeps its runs in NATS: bring them there with shoal store copy --from ${directory} --to ${to}, or choose another folder`;
}

/**
 * Which run a site trains first: never one that trains beside it, whoever led before and whatever was asked for there.
 * `wanted`: by this process's file or its operator. Where it trains beside, the one that was the first goes on being it.
 */
export function firstRun(store: Pick<Store, 'activeRun' | 'besideRuns'>, wanted: string): Result<string> {
  const beside = store.besideRuns();
  if (!beside.includes(wanted)) return success(wanted);
  const active = store.activeRun();
  if (active !== null && !beside.includes(active.name)) return success(active.name);
  return refusal(`${wanted} trains beside another run already, and which one is the first is not known`);
}

/** Of several servers that begin a site one decides its run: another one's run file is not dropped without a word. */
export class UnusedRunFile {
  readonly #store: Pick<Store, 'activeRun'>;
  readonly #log: Log;
  /** Null: there is none, or what there is to say about it is said. */
  #path: string | null;

  constructor(path: string | undefined, store: Pick<Store, 'activeRun'>, log: Log) {
    this.#path = path ?? null;
    this.#store = store;
    this.#log = log;
  }

  /** Says, once, that the site trains another run than the file's. Called when another server's choice stands. */
  look(): void {
    const path = this.#path;
    const active = this.#store.activeRun();
    if (path === null || active === null) return;
    this.#path = null;
    void readRunFile(path).then((read) => {
      if (!read.ok) this.#log('warn', `${path} is not used: the site trains ${active.name}, and ${read.reason}`);
      else if (read.value.name !== active.name)
        this.#log(
          'warn',
          `${path} is not used: the site trains ${active.name}; to train ${read.value.name}, add it on the dashboard (New run) or take another --site`,
        );
    });
  }
}
