/** What an active run is given, and what it keeps of each donor that is connected. */
import type { Limits } from '../swarm/limits.ts';
import type { AdapterProfile, Profile } from '../swarm/messages.ts';
import type { BlobStore } from './blobs.ts';
import type { DonorLink } from './donorSocket.ts';
import type { NetworkOptions } from './network.ts';
import type { RunTerms } from './runStart.ts';
import type { Store } from './store.ts';

export interface RunOptions extends RunTerms, NetworkOptions {
  readonly store: Store;
  readonly blobs: BlobStore;
  readonly name: string;
  readonly log: (level: 'debug' | 'info' | 'warn', text: string) => void;
  readonly metricsPath?: string;
  readonly maxDonors?: number;
  /** Expected donors that are not there by then are not waited for; null: they are. */
  readonly gatherLimitMs?: number | null;
}

export interface Connection {
  readonly link: DonorLink;
  readonly token: string;
  readonly adapter: AdapterProfile;
  limits: Limits;
  /** Null until its GPU is checked and measured: nobody plans with it before. */
  profile: Profile | null;
}
