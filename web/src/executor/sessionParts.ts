/** What a session is given: its page, the ways to other donors, its engine, the run's files, time. */
import type { PeerId } from '../../../swarm/base.ts';
import type { LinkMeasurement } from '../../../swarm/messages/profile.ts';
import type { OpenEngine } from './joinedRun.ts';
import type { DonorPage } from './protocol.ts';
import type { RunFiles } from './runFiles.ts';
import type { PieceStore } from './standingBase.ts';

/** To other donors, and with what is between. */
export interface Ways {
  /**
   * The message belongs to the way afterwards. Resolves once there is room again, with `hasLeft` once all of it has left
   * (through the server: has been taken); rejects when the link is gone.
   */
  sendFrame(peer: PeerId, message: ArrayBuffer, hasLeft?: boolean): Promise<void>;
  /**
   * `relayed`: to these the server, because it says so. `streams`: to these by so many connections. Resolves when there is
   * a way to each of these peers: a direct link, or the server where none opens in time.
   */
  connect(
    peers: readonly PeerId[],
    epoch: number,
    relayed: readonly PeerId[],
    streams: ReadonlyMap<PeerId, number>,
  ): Promise<void>;
  /**
   * For a plan that may come: opens ways to these peers beside those in use; resolves when there is one to each, or this
   * tab need not wait for it any more.
   */
  openAhead(peers: readonly PeerId[], epoch: number): Promise<void>;
  /** This peer sends what nobody asked for: nothing of it is taken until the next plan. */
  bar(peer: PeerId): void;
  /** Resolves when a direct link is open to a donor that no plan connects this one with; false where there is none soon. */
  openDirect(peer: PeerId, epoch: number): Promise<boolean>;
  /** Over the link that was reached. Null where it is gone. */
  measure(peer: PeerId, messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null>;
}

export interface SessionParts {
  readonly page: Pick<DonorPage, 'sendServer' | 'showStatus' | 'mayAnswer'>;
  readonly ways: Ways;
  readonly engine: OpenEngine;
  /** `token`: of the connection that there is now. */
  readonly files: (token: () => string) => RunFiles;
  /** What this browser keeps of weights that stand; absent: nothing. */
  readonly pieces?: PieceStore;
  /** Seconds, monotonic. */
  readonly now: () => number;
  readonly wait: (seconds: number) => Promise<void>;
}
