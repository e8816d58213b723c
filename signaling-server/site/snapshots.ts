/**
 * Snapshots of a site's store, so that a start reads no more of the journal than came since the newest one. Each is named
 * with a message of the journal, up to which it has everything; it may have more, and says up to which transaction. Of the
 * journal stays what came since the newest but one.
 */
import { createReadStream, createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { messageOf } from '../files/errorWords.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import { examine } from '../store/copies.ts';
import { snapshot } from '../store/copyThread.ts';
import type { Journal } from './journal.ts';
import type { Replica } from './replica.ts';
import type { SharedSite } from './sharedSite.ts';

/** How many there are. */
export const SNAPSHOTS_KEPT = 2;
/** As many messages of the journal are worth one. */
export const MESSAGES_BETWEEN = 200;
/** One that takes a second is followed by none for so many. */
const REST = 100;

const nameOf = (sequence: number): string => `after-${String(sequence).padStart(12, '0')}`;
const sequenceOf = (name: string): number => Number(name.replace('after-', ''));

export class Snapshots {
  readonly #shared: SharedSite;
  readonly #replica: Replica;
  readonly #directory: string;
  readonly #log: Log;
  #isBusy = false;
  #nextMs = 0;

  constructor(shared: SharedSite, replica: Replica, directory: string, log: Log) {
    this.#shared = shared;
    this.#replica = replica;
    this.#directory = directory;
    this.#log = log;
  }

  /** Makes the replica what the newest snapshot that is whole has: answers with the message that it is named with. */
  async restore(): Promise<number> {
    const names = (await this.#shared.snapshots.list()).toReversed();
    for (const name of names) {
      const fetched = await this.#fetched(name);
      if (fetched === null) continue;
      this.#replica.replaceBy(fetched);
      return sequenceOf(name);
    }
    const { first } = await this.#shared.journal.bounds();
    if (first > 1) throw new Error('no snapshot of the site is whole: use a backup');
    this.#replica.replaceBy(null);
    return 0;
  }

  async #fetched(name: string): Promise<string | null> {
    const path = join(this.#directory, 'fetched.sqlite');
    rmSync(path, { force: true });
    const chunks = await this.#shared.snapshots.get(name);
    if (chunks === null) return null;
    await pipeline(chunks, createWriteStream(path));
    const examined = examine(path);
    if (examined.ok) return path;
    this.#log('warn', `The snapshot ${name} of the site cannot be used: ${examined.reason}.`);
    return null;
  }

  /** Makes one, where it is time. Answers with what a person should know. */
  async make(journal: Journal): Promise<readonly string[]> {
    if (this.#isBusy || !journal.isLeading || monotonicMs() < this.#nextMs) return [];
    this.#isBusy = true;
    const beganMs = monotonicMs();
    const path = join(this.#directory, 'snapshot.sqlite');
    try {
      const names = await this.#shared.snapshots.list();
      const newest = sequenceOf(names.at(-1) ?? nameOf(0));
      const { sequence } = journal;
      if (sequence - newest < MESSAGES_BETWEEN) return [];
      const made = await snapshot(this.#replica.path, path);
      if (!made.ok) return [`No snapshot of the site could be made: ${made.reason}.`];
      // It has what is not kept yet, too.
      await new Promise<void>((resolve, reject) => journal.whenKept(resolve, () => reject(new Error('another leads'))));
      await this.#shared.snapshots.put(nameOf(sequence), createReadStream(path));
      const kept = [...names, nameOf(sequence)].slice(-SNAPSHOTS_KEPT);
      for (const name of names) if (!kept.includes(name)) await this.#shared.snapshots.remove(name);
      const [oldest] = kept;
      if (oldest !== undefined && kept.length === SNAPSHOTS_KEPT)
        await this.#shared.journal.purge(sequenceOf(oldest) + 1);
      return [];
    } catch (error) {
      return [`No snapshot of the site could be made: ${messageOf(error)}.`];
    } finally {
      rmSync(path, { force: true });
      this.#nextMs = monotonicMs() + REST * (monotonicMs() - beganMs);
      this.#isBusy = false;
    }
  }
}
