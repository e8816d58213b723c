/** What an active run is given. */

import type { KeptLosses } from '../donors/keptLosses.ts';
import type { NetworkOptions } from '../donors/network.ts';
import type { WrongInvitations } from '../donors/wrongInvitations.ts';
import type { BlobStore } from '../files/blobs.ts';
import type { Log } from '../monitoring/log.ts';
import type { GroupsSearch, PlanSearch } from '../planning/planThread.ts';
import type { Store } from '../store/store.ts';
import type { Recorder } from './recorder.ts';
import type { RunTerms } from './runStart.ts';

export interface RunOptions extends RunTerms, NetworkOptions {
  readonly store: Store;
  readonly blobs: BlobStore;
  readonly name: string;
  readonly log: Log;
  readonly metricsPath?: string;
  /** Of the decisions; closed with the run. */
  readonly recorder?: Recorder;
  readonly maxDonors?: number;
  /** What the site's processes remember of addresses; absent: this one alone does. */
  readonly losses?: KeptLosses;
  readonly wrongInvitations?: WrongInvitations;
  /** Every donor's token begins with it. */
  readonly tokenPrefix?: string;
  /** What donors that this server opened itself say. */
  readonly ownKey?: string;
  /** Whether nobody of this network address may join. */
  readonly isBlocked?: (address: string) => boolean;
  /** An opaque name of a network address: the same for the same one. */
  readonly networkName: (address: string) => string;
  /** Whether donors of that address share a line. */
  readonly isOneLine: (address: string) => boolean;
  /** Searches for plans, where measurements decide. */
  readonly search: PlanSearch;
  readonly searchGroups: GroupsSearch;
  /** The search is not needed any more. */
  readonly release?: () => void;
  /** Expected donors that are not there by then are not waited for; null: they are. */
  readonly gatherLimitMs?: number | null;
}
