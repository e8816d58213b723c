/** What a mesh is given, what it asks for, and what it counts. */
import type { PeerId } from '../../../swarm/base.ts';
import type { OpenLink } from './link.ts';

export interface MeshOptions {
  readonly me: PeerId;
  readonly iceServers: readonly Readonly<Record<string, unknown>>[];
  readonly openLink: OpenLink;
  /** No other donor may learn this tab's address: by a TURN server, or else everything through the server. */
  readonly relayOnly?: boolean;
  readonly now: () => number;
  /** To be carried by the server. */
  sendSignal(to: PeerId, epoch: number, attempt: number, data: string): void;
  /** What goes through the server's socket, to be taken by `onBytes` of the other end; false where there is none. */
  sendBytes(message: Uint8Array<ArrayBuffer>): boolean;
  onFrame(from: PeerId, message: ArrayBuffer): void;
  /**
   * A link that had been open and was still wanted is gone; what was sent through it may not have arrived. Not while a
   * `connect` waits: that answers for its links itself.
   */
  onLost(peer: PeerId, reason: string): void;
}

/** What was not accepted from others, since the mesh began. */
export interface MeshRefusals {
  oversizedMessages: number;
  staleSignals: number;
  badSignals: number;
  /** Signals and frames of who is no partner. */
  strangers: number;
}

export interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}
