/** `shoal store copy`: from a data directory to a site, or back. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { given } from '../../swarm/base.ts';
import { aborted, onInterrupt } from '../headless/interrupt.ts';
import { type Log, terminalLog } from '../monitoring/log.ts';
import { withoutPassword } from '../site/natsConnection.ts';
import { openSite, type SiteData } from '../site/site.ts';
import { COPY_FILES, STORE_FILE } from '../store/copies.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { type CopiedData, copyData } from '../store/storeCopy.ts';
import { badInput, failed, mustHave, need } from './failure.ts';
import { openData } from './openData.ts';
import { DEFAULT_SITE, natsUrls, siteName, tryIt } from './options.ts';

interface CopyOptions {
  readonly from?: string;
  readonly to?: string;
  readonly site: string;
  readonly natsCreds?: string;
  readonly json?: boolean;
}

interface Place {
  readonly data: DataDirectory;
  /** Runs that have a store of their own there. */
  readonly beside: readonly { readonly name: string; readonly data: DataDirectory }[];
  close(): Promise<void>;
}

/** Where the file itself is lost, a copy of it may be there. */
const mayHoldStore = (path: string): boolean =>
  [STORE_FILE, ...COPY_FILES].some((file) => existsSync(join(path, file)));

const isNats = (place: string): boolean => /^(nats|tls):\/\//.test(place);

export function addStoreCommand(program: Command): void {
  const store = program.command('store').description('copy what a data directory or a site keeps');
  store
    .command('copy')
    .description('copy all runs from a data directory to a site over NATS, or back')
    .option('--from <place>', 'a data directory, or nats://HOST:PORT,…: no server may be using the directory')
    .option('--to <place>', 'the same, with no run in it yet')
    .option('--site <name>', 'the name of that site', siteName, DEFAULT_SITE)
    .option('--nats-creds <file>', 'a credentials file for that NATS')
    .option('--json', 'one JSON document')
    .addHelpText('after', tryIt('store copy --from .shoal/example --to nats://localhost:4222', 'swarm'))
    .action(copyCommand);
}

async function copyCommand(options: CopyOptions): Promise<void> {
  const from = mustHave('--from <place>', options.from);
  const to = mustHave('--to <place>', options.to);
  if (isNats(from) === isNats(to))
    throw badInput('one of --from and --to must be a data directory, the other nats://HOST:PORT');
  if (!isNats(from) && !existsSync(from)) throw badInput(`--from ${from}: there is no such folder`);
  const folder = mkdtempSync(join(tmpdir(), 'shoal-copy-'));
  const interrupt = onInterrupt();
  const places: Place[] = [];
  const copied = copyBetween({ ...options, from, to }, folder, places);
  copied.catch(() => {}); // where nobody waits for it any more
  try {
    const stopped = aborted(interrupt.signal).then(() => {
      throw failed(`stopped: not all is copied to ${to}`);
    });
    const { runs, blobs } = await Promise.race([copied, stopped]);
    const sentence = `copied ${runs.join(', ')} with ${blobs} files to ${to}`;
    process.stdout.write(options.json ? `${JSON.stringify({ from, to, runs, files: blobs })}\n` : `${sentence}\n`);
  } finally {
    interrupt.release();
    for (const place of places) await place.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What it opens is among `places`, to be closed by whoever asked. */
async function copyBetween(
  options: CopyOptions & { readonly from: string; readonly to: string },
  folder: string,
  places: Place[],
): Promise<CopiedData> {
  const open = async (place: string, isTarget: boolean): Promise<Place> => {
    const opened = isNats(place)
      ? await openedSite(place, options, folder, isTarget)
      : await openedDirectory(place, isTarget);
    places.push(opened);
    return opened;
  };
  const { from, to } = options;
  const source = await open(from, false);
  if (source.data.store.runNames().length === 0) throw failed(`${placeName('--from', from, options)}: has no run`);
  const target = await open(to, true);
  return need(await copyData(source.data, target.data, source.beside), (reason) =>
    failed(`${placeName('--to', to, options)}: ${reason}`),
  );
}

/** Without the password of an address. */
function placeName(option: '--from' | '--to', place: string, { site }: CopyOptions): string {
  return `${option} ${isNats(place) ? `${natsUrls(place).map(withoutPassword).join(',')}, site ${site}` : place}`;
}

async function openedDirectory(path: string, isTarget: boolean): Promise<Place> {
  // One that holds nothing is not made into one that does.
  if (!isTarget && !mayHoldStore(path)) throw badInput(`--from ${path} holds no runs: it has no ${STORE_FILE}`);
  const data = await openData(path, false);
  return { data, beside: [], close: async () => data.close() };
}

async function openedSite(place: string, options: CopyOptions, directory: string, isTarget: boolean): Promise<Place> {
  const { site: name, natsCreds: creds } = options;
  // How a copy ends is said once: what a site that it fills has to say would be that again.
  const log: Log = isTarget ? () => {} : terminalLog('warn');
  const site = need(await openSite({ urls: natsUrls(place), site: name, directory, log, ...given({ creds }) }), failed);
  const opened: SiteData[] = [];
  const close = async (): Promise<void> => {
    for (const ofRun of opened) await ofRun.close();
    await site.close();
  };
  try {
    // Whoever leads a site that has runs goes on leading it.
    if (isTarget && site.data.store.runNames().length === 0)
      need(await site.lead(), (reason) => failed(`${placeName('--to', place, options)}: ${reason}`));
    const beside: { readonly name: string; readonly data: DataDirectory }[] = [];
    for (const name of site.data.store.besideRuns()) {
      const ofRun = need(await site.openRun(name), failed);
      opened.push(ofRun);
      beside.push({ name, data: ofRun.data });
    }
    return { data: site.data, beside, close };
  } catch (error) {
    await close();
    throw error;
  }
}
