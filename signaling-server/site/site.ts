/**
 * A site: any number of processes over one NATS that have the same runs. What they keep is in the journal and the object
 * folders there; each has a working folder that may be lost. One of them leads, which is the only one that writes.
 */
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { KV } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { given, type Result, refusal, success } from '../../swarm/base.ts';
import { openBlobs } from '../files/blobs.ts';
import { messageOf } from '../files/errorWords.ts';
import type { Log } from '../monitoring/log.ts';
import { type DataDirectory, DOWNLOADS_FOLDER } from '../store/dataDirectory.ts';
import { lockDataDirectory } from '../store/dataLock.ts';
import { sweepBlobs } from '../store/keptBlobs.ts';
import { Journal, NOT_LEADING } from './journal.ts';
import { UnreadableMessage } from './journalStream.ts';
import { openLeases } from './lease.ts';
import { connectNats } from './natsConnection.ts';
import { openNatsFolder } from './natsFolder.ts';
import { openNatsJournal } from './natsJournal.ts';
import { endsWithin, isNotReady, Patience } from './patience.ts';
import { NewerStore, Replica } from './replica.ts';
import type { SharedSite } from './sharedSite.ts';
import { openAddresses, type SiteAddresses } from './siteAddresses.ts';
import { siteBlobs } from './siteBlobs.ts';
import { parseSiteName } from './siteName.ts';
import { runIdOf } from './siteRun.ts';
import { siteStore } from './siteStore.ts';
import { Snapshots } from './snapshots.ts';

/** What waits to be kept when a site is closed is waited for so long. */
const CLOSE_LIMIT_MS = 5_000;

export interface SiteData {
  /** This process's replica and its blobs: to be read by any process, to be written by the one that leads. */
  readonly data: DataDirectory;
  /** Reads the journal to its end and fences whoever wrote before. */
  lead(): Promise<Result<void>>;
  /**
   * Called when another leads, before anything else: what was not kept is dropped, and nothing more can be written. The
   * replica is made anew then: whoever has a run open on it closes it at once, within this call.
   */
  onFenced(listener: () => void): void;
  /** Whether the run stands because nothing comes of other processes, whose donors it waits for. */
  cutOff(isCutOff: boolean): void;
  /** Waits some seconds, once, for what is written and not kept; says what is given up. */
  keepLast(): Promise<void>;
  close(): Promise<void>;
}

export interface Site extends SiteData {
  /** What is kept, and who leads: nothing else goes through it that these could have to wait for. */
  readonly nats: NatsConnection;
  /** What the processes say to each other. */
  readonly exchange: NatsConnection;
  readonly name: string;
  /** Who leads which run (lease.ts). */
  readonly leases: KV;
  /** What is remembered of addresses. */
  readonly addresses: SiteAddresses;
  /** What a run has that trains beside the first one: a journal, blobs and a working folder of its own. */
  openRun(run: string): Promise<Result<SiteData>>;
}

interface SiteOptions {
  readonly urls: readonly string[];
  readonly site: string;
  readonly creds?: string;
  /** This process's own, of which nothing need be kept. */
  readonly directory: string;
  readonly log: Log;
  /** So long NATS may take to be ready. */
  readonly patienceMs?: number;
  /** Where it is aborted, nobody waits for that any more. */
  readonly signal?: AbortSignal;
}

/** Refuses with one sentence. */
export async function openSite(options: SiteOptions): Promise<Result<Site>> {
  const { urls, site, creds, directory, log, patienceMs = 0, signal } = options;
  const named = parseSiteName(site);
  if (!named.ok) return named;
  const patience = new Patience(patienceMs, log, signal);
  const address = { urls, ...given({ creds }) };
  const connected = await connectNats(address, patience);
  if (!connected.ok) return connected;
  const nats = connected.value;
  const second = await connectNats(address, patience);
  if (!second.ok) {
    await nats.close();
    return second;
  }
  const exchange = second.value;
  const disconnect = async (): Promise<void> => {
    await exchange.close();
    await nats.close();
  };
  try {
    const { shared, leases, addresses } = await patience.has(async () => {
      const shared = await openShared(nats, site);
      const leases = await openLeases(nats, site, shared.replicas);
      return { shared, leases, addresses: await openAddresses(nats, site, shared.replicas) };
    });
    const opened = await patience.has(() => openSiteData(shared, directory, log));
    if (!opened.ok) {
      await disconnect();
      return opened;
    }
    const close = async (): Promise<void> => {
      await opened.value.close();
      await disconnect();
    };
    const openRun = async (run: string): Promise<Result<SiteData>> => {
      const id = runIdOf(run);
      try {
        // No name of a site has this sign in it.
        const ofRun = await openShared(nats, `${site}_${id}`);
        return await openSiteData(ofRun, join(directory, 'runs', id), log);
      } catch (error) {
        return refusal(`the run ${run} cannot be opened: ${messageOf(error)}`);
      }
    };
    return success({ ...opened.value, close, nats, exchange, name: site, leases, addresses, openRun });
  } catch (error) {
    await disconnect();
    return refusal(`the site ${site} cannot be opened: ${messageOf(error)}`);
  }
}

/** What the site, or a run of it, has in NATS, made where it is not there. */
async function openShared(nats: NatsConnection, name: string): Promise<SharedSite & { readonly replicas: number }> {
  const { journal, replicas } = await openNatsJournal(nats, `shoal-${name}-journal`);
  const blobs = await openNatsFolder(nats, `shoal-${name}-blobs`, replicas);
  const snapshots = await openNatsFolder(nats, `shoal-${name}-snapshots`, replicas);
  return { journal, blobs, snapshots, replicas };
}

/** The same over whatever it is shared by. Rejects where NATS is not ready. */
export async function openSiteData(shared: SharedSite, path: string, log: Log): Promise<Result<SiteData>> {
  const directory = resolve(path);
  const lock = lockDataDirectory(directory);
  if (!lock.ok) return lock;
  let replica: Replica | undefined;
  try {
    await rm(join(directory, DOWNLOADS_FOLDER), { recursive: true, force: true });
    const opened = new Replica(directory);
    replica = opened;
    const snapshots = new Snapshots(shared, opened, directory, log);
    const journal = new Journal(
      shared.journal,
      {
        get applied() {
          return opened.applied;
        },
        apply: (entry) => opened.apply(entry),
        rebuild: () => snapshots.restore(),
      },
      log,
    );
    await journal.open();
    const store = siteStore(opened, journal, () => snapshots.make(journal));
    const local = await openBlobs(join(directory, 'blobs'));
    await sweepBlobs(store, local);
    const blobs = siteBlobs(local, shared.blobs, journal, () => store.kept());
    const close = (): void => {
      journal.close();
      store.close();
      lock.value.release();
    };
    let last: Promise<void> | null = null;
    const keepLast = (): Promise<void> => {
      last ??= endsWithin(store.kept(), CLOSE_LIMIT_MS).then((isKept) => {
        const { unkept, problem } = journal;
        if (!isKept && unkept > 0)
          log('warn', `What this server wrote last is not kept, and given up (${unkept} transactions): ${problem}.`);
      });
      return last;
    };
    const data: DataDirectory = { directory, store, blobs, found: lock.value.found, close };
    return success({
      data,
      lead: async () => {
        const led = await journal.lead();
        if (!led.ok) return led;
        // What was on its way to whoever led before.
        await sweepBlobs(store, blobs).catch(() => {});
        // Another may have begun to lead meanwhile: `onFenced` has said so already, and says it once.
        return journal.isLeading ? led : refusal(NOT_LEADING);
      },
      onFenced: (listener) => journal.onFenced(listener),
      cutOff: (isCutOff) => {
        journal.isCutOff = isCutOff;
      },
      keepLast,
      close: async () => {
        await keepLast();
        close();
      },
    });
  } catch (error) {
    replica?.close();
    lock.value.release();
    if (isNotReady(error)) throw error;
    if (error instanceof UnreadableMessage || error instanceof NewerStore) return refusal(error.message);
    return refusal(`the working folder ${directory} cannot be used: ${messageOf(error)}`);
  }
}
