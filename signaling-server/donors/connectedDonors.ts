/**
 * Who is connected to a run: the names and tokens that the server gave them, their limits, what they measured of
 * themselves, and the way to each. It knows nothing of plans: who computes what is the coordinator's.
 */
import { randomBytes } from 'node:crypto';
import type { PeerId } from '../../swarm/base.ts';
import { type Limits, NO_LIMITS } from '../../swarm/limits.ts';
import type { HelloMessage, ServerMessage } from '../../swarm/messages/messages.ts';
import type { AdapterProfile, Profile } from '../../swarm/messages/profile.ts';
import { memberId } from '../store/memberStore.ts';
import { donorHash } from '../store/profileStore.ts';
import { Breaks } from './breaks.ts';
import type { DonorLink } from './donorSocket.ts';

export interface Connection {
  readonly peer: PeerId;
  /** The newest: the conversation may go on over another one. */
  link: DonorLink;
  readonly breaks: Breaks;
  /** Bearer of its HTTP calls. */
  readonly token: string;
  /** The operator's own: this server opened it itself, or its link has the operator's key. */
  readonly isOwn: boolean;
  /** It proved that this server, or the one before, once gave its tab a name. */
  readonly wasHere: boolean;
  readonly adapter: AdapterProfile;
  /** By which its last measurements are kept; null: nothing of it is kept. */
  readonly donor: string | null;
  /** By which its name is kept, where it chose one. */
  readonly member: string | null;
  limits: Limits;
  /** Null until its GPU is checked and measured: nobody plans with it before. */
  profile: Profile | null;
  /** Others had a part in a plan beside it as it asked to rest. */
  hasPaused: boolean;
}

export class ConnectedDonors {
  readonly #connections = new Map<PeerId, Connection>();
  readonly #byToken = new Map<string, Connection>();

  readonly #tokenPrefix: string;
  readonly #nameOf: (key: string | undefined) => PeerId;

  constructor(tokenPrefix: string, nameOf: (key: string | undefined) => PeerId) {
    this.#tokenPrefix = tokenPrefix;
    this.#nameOf = nameOf;
  }

  /** A new token on each connection, and a new name unless it comes back. */
  enter(
    hello: HelloMessage,
    link: DonorLink,
    from: Pick<Connection, 'isOwn' | 'wasHere'>,
    returning: PeerId | null,
  ): Connection {
    const { adapter, limits = NO_LIMITS, key } = hello;
    const peer = returning ?? this.#nameOf(key);
    const token = `${this.#tokenPrefix}${randomBytes(24).toString('base64url')}`;
    const donor = key === undefined ? null : donorHash(key, adapter);
    const member = key === undefined ? null : memberId(key);
    const fresh = { limits, breaks: new Breaks(), profile: null, hasPaused: false };
    const connection = { peer, link, token, ...from, adapter, donor, member, ...fresh };
    this.#connections.set(peer, connection);
    this.#byToken.set(token, connection);
    return connection;
  }

  /** Whether it was still there. */
  leave(peer: PeerId): boolean {
    this.#byToken.delete(this.#connections.get(peer)?.token ?? '');
    return this.#connections.delete(peer);
  }

  of(peer: PeerId): Connection | undefined {
    return this.#connections.get(peer);
  }

  ofToken(token: string): Connection | null {
    return this.#byToken.get(token) ?? null;
  }

  /** Those whose GPU is checked, in the order in which they connected. */
  measured(): Connection[] {
    return [...this.#connections.values()].filter(({ profile }) => profile !== null);
  }

  /** Nothing happens where that donor is gone. */
  send(to: PeerId, message: ServerMessage): void {
    this.#connections.get(to)?.link.send(message);
  }

  all(): Iterable<Connection> {
    return this.#connections.values();
  }

  close(): void {
    for (const { link } of this.#connections.values()) link.close();
  }
}
