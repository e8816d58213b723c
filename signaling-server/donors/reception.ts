/**
 * Where donors come in, talk and go: who may, what of their words is the run's affair, and when. Behind it the run
 * hears only of donors whose GPU is checked, and of whoever comes, rests and comes back all the time only as often as
 * it can bear. Owns the connections.
 */
import type { PeerId } from '../../swarm/base.ts';
import {
  type HelloMessage,
  type PeerMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
} from '../../swarm/messages/messages.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { forDonors, type Snapshot } from '../../swarm/messages/snapshot.ts';
import { isSameSecret } from '../http/secret.ts';
import { throttled } from '../http/throttled.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { donorHash } from '../store/profileStore.ts';
import { Comebacks } from './comebacks.ts';
import { ConnectedDonors, type Connection } from './connectedDonors.ts';
import type { DonorHost, DonorLink } from './donorSocket.ts';
import { DONORS_PER_ADDRESS } from './door.ts';
import { JoinDelays } from './joinDelays.ts';
import type { KeptLosses } from './keptLosses.ts';
import type { Network } from './network.ts';
import { PendingPlaces } from './pendingPlaces.ts';
import { Resumes } from './resumes.ts';

/** Whose WebSockets end at one process: it keeps a flood of connections from filling memory. */
const MAX_DONORS = 1_000;
/** Donors are told their partners' limits at most so often. */
const DOWNLOADS_INTERVAL_MS = 250;
/** Of snapshots to all donors together. */
const SNAPSHOT_BYTES_PER_MS = 10_000;
/** Who leaves sooner by its button has cost everyone two changes of plan for little. */
const SHORT_VISIT_MS = 120_000;

type Welcome = Extract<ServerMessage, { type: 'welcome' }>;

/** What a donor says to the run itself. */
export type RunMessage = Exclude<PeerMessage, { type: 'hello' | 'measured' | 'signal' }>;

/** The run, as its reception sees it. */
export interface ReceptionHost {
  /** Why nobody may come in now; null: they may. */
  shut(): RefusalReason | null;
  greeting(
    peer: PeerId,
    donor: string | null,
  ): Pick<Welcome, 'run' | 'generation' | 'epoch' | 'committedSteps' | 'lastCommit' | 'met' | 'memory'>;
  /** Donors who were here before are waited for, with the state that they have. */
  isAwaiting(): boolean;
  /** Whether this peer, which was here before, is let in under its name. */
  mayReturn(peer: PeerId): boolean;
  /** Its GPU is checked: it may be planned for. */
  joined(connection: Connection): void;
  /** Limits, or what one says that may be planned for; a reason where it does not fit. */
  said(connection: Connection, message: RunMessage): RefusalReason | null;
  /** Who loses by it if it vanishes now, and whether it means to stay; null: it has no part in a plan. */
  missing(peer: PeerId): { readonly by: 'others' | 'nobody'; readonly stays: boolean } | null;
  gone(peer: PeerId, detail: string): void;
  failed(error: unknown): void;
  countRefusal(reason: RefusalReason): void;
}

interface ReceptionOptions {
  readonly network: Network;
  /** Of all processes; absent: as many as of one. */
  readonly maxDonors?: number;
  /** Whether nobody of this network address may join. */
  readonly isBlocked?: (address: string) => boolean;
  /** What the operator's own donors say, those that this server opened itself among them: they need no invitation, and never wait to join. */
  readonly ownKey?: string;
  /** What is remembered of addresses; absent: nothing yet, and by nobody else. */
  readonly losses?: KeptLosses;
  /** Every donor's token begins with it. */
  readonly tokenPrefix?: string;
  /** What proves that a tab was this peer. */
  readonly resumeKeyOf: (peer: PeerId) => string;
  /** By the key that its browser remembers. */
  readonly nameOf: (key: string | undefined) => PeerId;
}

export class Reception implements DonorHost {
  readonly #options: ReceptionOptions;
  readonly #host: ReceptionHost;
  readonly #donors: ConnectedDonors;
  readonly #resumes = new Resumes();
  readonly #joinDelays: JoinDelays;
  readonly #comebacks: Comebacks;
  /** Of those who are not admitted yet. */
  readonly #places = new PendingPlaces();
  /** Throttled: a donor that changes its limits all the time would flood all others with messages. */
  readonly #downloads = throttled(DOWNLOADS_INTERVAL_MS, () => this.#tellDownloads());
  /** Whose limits its partners have not been told yet. */
  readonly #changed = new Set<PeerId>();
  /** Of donors whose work was shown to be wrong, by which each is known. */
  readonly #convicted = new Set<string>();
  #closed = false;

  constructor(options: ReceptionOptions, host: ReceptionHost) {
    this.#options = options;
    this.#host = host;
    this.#donors = new ConnectedDonors(options.tokenPrefix ?? '', options.nameOf);
    this.#joinDelays = new JoinDelays(options.losses);
    this.#comebacks = new Comebacks({
      ...options,
      donors: this.#donors,
      mayBreak: (peer) => !this.#closed && host.missing(peer)?.stays === true && !options.network.relay.isUsedBy(peer),
      lost: (peer, detail) => this.gone(peer, detail, false),
    });
  }

  arrived(link: DonorLink): RefusalReason | null {
    if (this.#host.isAwaiting() && this.#places.comesUnnamed(link)) return null;
    return this.#places.enter(link, monotonicMs()) ? null : 'serverFull';
  }

  ended(link: DonorLink): void {
    this.#places.leave(link);
  }

  /** Whoever comes from there is refused. */
  isBlocked(address: string): boolean {
    return this.#options.isBlocked?.(address) ?? false;
  }

  admit(hello: HelloMessage, link: DonorLink): PeerId | RefusalReason {
    const { network, ownKey } = this.#options;
    const hasNoPlace = this.#places.isNamed(link);
    const isOwn = ownKey !== undefined && hello.own !== undefined && isSameSecret(hello.own, ownKey);
    const uninvited = isOwn ? null : network.invitation.problem(hello.invite, link.address);
    if (uninvited !== null) return uninvited;
    if (this.isBlocked(link.address)) return 'blocked';
    if (hello.key !== undefined && this.#convicted.has(donorHash(hello.key, hello.adapter))) return 'convicted';
    const still = this.#comebacks.goesOn(hello, link);
    if (still !== null) return this.#goOn(still.connection, link, still.unheard);
    const shut = this.#closed ? 'serverFull' : this.#host.shut();
    if (shut !== null) return shut;
    const returning = this.#returning(hello);
    // What only it has of the state no crowd may cost the run.
    if (returning === null && this.#isFullFor(link)) return 'serverFull';
    if (isOwn || returning !== null) this.#places.leave(link);
    else if (hasNoPlace && !this.#places.enter(link, monotonicMs())) return 'serverFull';
    const wasHere = this.#comebacks.provenBy(hello) !== null;
    const connection = this.#donors.enter(hello, link, { isOwn, wasHere }, returning);
    network.connected(connection.peer, link);
    link.send(this.#greeting(connection, null));
    return connection.peer;
  }

  #greeting({ peer, token, donor }: Connection, heard: number | null): ServerMessage {
    const { iceServers } = this.#options.network;
    const said = { ...this.#host.greeting(peer, donor), resumeKey: this.#options.resumeKeyOf(peer), iceServers, heard };
    return { type: 'welcome', protocol: PROTOCOL_VERSION, peer, token, ...said };
  }

  /** The peer that it may be again, of those who are not here. */
  #returning(hello: HelloMessage): PeerId | null {
    const peer = this.#comebacks.provenBy(hello);
    return peer !== null && this.#host.mayReturn(peer) && !this.#donors.of(peer) ? peer : null;
  }

  /** The same conversation, over another connection. */
  #goOn(connection: Connection, link: DonorLink, unheard: readonly Buffer[]): PeerId {
    const { peer, link: before } = connection;
    this.#places.leave(link);
    connection.link = link;
    link.goOnFrom(before, this.#greeting(connection, before.spoken.heard), unheard);
    this.#options.network.moved(peer, link);
    return peer;
  }

  broke(peer: PeerId, link: DonorLink): void {
    const connection = this.#donors.of(peer);
    if (connection?.link === link) this.#comebacks.broke(connection);
  }

  onMessage(peer: PeerId, message: PeerMessage): RefusalReason | null {
    const connection = this.#donors.of(peer);
    if (!connection) return null;
    switch (message.type) {
      case 'hello':
        return 'outOfOrder';
      case 'measured':
        if (connection.profile !== null) return null; // what it measured first counts, and what a plan rests on
        if (!this.#host.mayReturn(peer) && this.#isFullFor(connection.link)) return 'serverFull';
        connection.profile = message.profile;
        this.#take(connection);
        return null;
      case 'limits':
        connection.limits = message.limits;
        this.#changed.add(peer);
        this.#downloads.request();
        return this.#host.said(connection, message);
      case 'heartbeat':
        return message.at && connection.profile ? this.#host.said(connection, message) : null;
    }
    if (connection.profile === null) return 'outOfOrder';
    if (message.type === 'signal') {
      this.#signal(peer, message);
      return null;
    }
    if (message.type === 'resume') {
      this.#resumes.asked(peer, () => this.#later(connection, () => this.#host.said(connection, message)));
      return null;
    }
    if (message.type === 'pause' || message.type === 'leave') this.#resumes.withdrawn(peer);
    if (message.type === 'pause') connection.hasPaused ||= this.#isMissed(peer);
    if (message.type === 'leave' && this.#isShort(peer) && this.#isMissed(peer)) this.#lost(connection);
    if (message.type === 'fault' && message.reason === 'deviceLost') return this.#lostDevice(connection, message);
    return this.#host.said(connection, message);
  }

  relayed(peer: PeerId, bytes: Uint8Array<ArrayBuffer>): RefusalReason | null {
    const connection = this.#donors.of(peer);
    if (!connection) return null;
    return this.#isAdmitted(connection) ? this.#options.network.relay.accept(peer, bytes) : 'outOfOrder';
  }

  gone(peer: PeerId, detail: string, isAtFault: boolean): void {
    this.#options.network.gone(peer);
    const connection = this.#donors.of(peer);
    connection?.breaks.over();
    if (this.#closed || connection === undefined) return;
    this.#donors.leave(peer);
    if (isAtFault || this.#isMissed(peer) || (connection.hasPaused && this.#isShort(peer))) this.#lost(connection);
    this.#resumes.gone(peer);
    this.#joinDelays.gone(peer);
    this.#host.gone(peer, detail);
  }

  strangerFailed(address: string, sinceMs: number): void {
    this.#joinDelays.lost(address, sinceMs, monotonicMs());
  }

  failed(error: unknown): void {
    this.#host.failed(error);
  }

  countRefusal(reason: RefusalReason): void {
    this.#host.countRefusal(reason);
  }

  /** Those whose GPU is checked and who need not wait, in the order in which they connected. */
  measured(): readonly Connection[] {
    return this.#donors.measured().filter((connection) => this.#isAdmitted(connection));
  }

  /** The donor whose HTTP calls carry this token: before it is admitted nobody's do. */
  ofToken(token: string): PeerId | null {
    const connection = this.#donors.ofToken(token);
    return connection !== null && this.#isAdmitted(connection) ? connection.peer : null;
  }

  isOwn(peer: PeerId): boolean {
    return this.#donors.of(peer)?.isOwn === true;
  }

  /** Nothing happens where that donor is gone. Before a plan it hears of its new partners' caps. */
  send(to: PeerId, message: ServerMessage): void {
    if (message.type === 'prepare') this.#donors.send(to, this.#downloadsFor(to));
    this.#options.network.beside.around(to, message.type, () => this.#donors.send(to, message));
  }

  /**
   * One text for all who are admitted; who has not read the one before gets the newest when it has. The answer is when the
   * next one may follow: it grows with the donors and so does their number, and a server has more to do than to show.
   */
  publish(snapshot: Snapshot): number {
    const text = Buffer.from(
      JSON.stringify({ type: 'snapshot', snapshot: forDonors(snapshot) } satisfies ServerMessage),
    );
    const donors = this.measured();
    for (const { link } of donors) link.sendNewest(text);
    return (text.length * donors.length) / SNAPSHOT_BYTES_PER_MS;
  }

  /** Ends its connection with this reason; the run is told when the connection has closed. */
  throwOut(peer: PeerId, reason: RefusalReason, detail: string): void {
    if (reason === 'faulty') this.#convict(peer);
    this.#donors.of(peer)?.link.refuse(reason, detail);
    this.#dropAway(peer, detail);
  }

  /** As `throwOut`, but its connection is forgotten at once. `isProven`: it was shown to harm the run. */
  refuse(peer: PeerId, reason: RefusalReason, detail: string, isProven: boolean): void {
    if (isProven) this.#convict(peer);
    const connection = this.#donors.of(peer);
    if (reason === 'convicted' && connection?.donor && !isTrusted(connection)) this.#convicted.add(connection.donor);
    connection?.link.refuse(reason, detail);
    this.#dropAway(peer, detail);
    this.#donors.leave(peer);
  }

  /** As if this server had been killed: tabs come back, with what they have. */
  breakAll(): void {
    for (const { peer, link } of [...this.#donors.all()]) {
      link.supersede();
      this.ended(link);
      this.gone(peer, 'the run begins again from its store', false);
    }
  }

  /** Nobody can be told anything whose connection is broken: it is not waited for. */
  #dropAway(peer: PeerId, detail: string): void {
    if (this.#donors.of(peer)?.breaks.isAway) this.gone(peer, detail, true);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#resumes.close();
    this.#joinDelays.close();
    this.#downloads.close();
    this.#donors.close();
  }

  /** Its GPU is checked, and its address need not wait: before that it reaches nobody and reads nothing. */
  #isAdmitted({ peer, profile }: Connection): boolean {
    return profile !== null && !this.#joinDelays.isWaiting(peer);
  }

  /** Both ends change plans at their own time: a signal of another epoch, or to someone gone, is no fault. */
  #signal(from: PeerId, { to, epoch, attempt, data }: Extract<PeerMessage, { type: 'signal' }>): void {
    const told = this.#options.network.signal(from, to, data, monotonicMs());
    if (told !== null) this.#donors.send(to, { type: 'signal', from, epoch, attempt, data: told });
  }

  /** What a donor has to know of others' caps: senders share what a receiver takes. */
  #downloadsFor(peer: PeerId): ServerMessage {
    const downloads = this.#options.network.pairs.partners(peer).flatMap((other) => {
      const bytesPerSecond = this.#donors.of(other)?.limits.downloadBytesPerSecond ?? null;
      return bytesPerSecond === null ? [] : { peer: other, bytesPerSecond };
    });
    return { type: 'limits', downloads };
  }

  #tellDownloads(): void {
    const { pairs } = this.#options.network;
    const concerned = new Set([...this.#changed].flatMap((peer) => pairs.partners(peer)));
    this.#changed.clear();
    for (const peer of concerned) this.#donors.send(peer, this.#downloadsFor(peer));
  }

  /** A donor's word that may have had to wait: whatever throws over it costs that donor alone. */
  #later({ link }: Connection, work: () => unknown): void {
    try {
      work();
    } catch (error) {
      this.failed(error);
      link.refuse('unhandled', 'what it asked for');
    }
  }

  /** Connections that are not admitted have places of their own. */
  #isFullFor({ beside, address }: DonorLink): boolean {
    const measured = this.#donors.measured();
    if (measured.length >= (this.#options.maxDonors ?? MAX_DONORS)) return true;
    // Of one address each gateway lets in as many: here they are counted together.
    const ofAddress = beside && measured.filter(({ link }) => link.address === address).length;
    if (ofAddress !== undefined && ofAddress >= DONORS_PER_ADDRESS) return true;
    return measured.filter(({ link }) => link.beside?.gateway === beside?.gateway).length >= MAX_DONORS;
  }

  /** Its GPU is checked. */
  #take(connection: Connection): void {
    const { peer, link } = connection;
    this.#places.leave(link);
    const join = (): void => this.#later(connection, () => this.#host.joined(connection));
    if (isTrusted(connection) || this.#host.mayReturn(peer)) join();
    else if (this.#joinDelays.asked(peer, link.address, join) === 'later')
      link.send({ type: 'standby', state: 'spare', why: 'mustWait' });
  }

  /** Once the run has heard of that it has forgotten the donor: what it costs is known before. */
  #lostDevice(connection: Connection, message: RunMessage): RefusalReason | null {
    const { peer, link } = connection;
    const isMissed = this.#isMissed(peer);
    const problem = this.#host.said(connection, message);
    if (problem !== null) return problem;
    link.close();
    this.gone(peer, 'it lost its GPU', isMissed);
    return null;
  }

  #isMissed(peer: PeerId): boolean {
    return this.#host.missing(peer)?.by === 'others';
  }

  /** By its button: two changes of plan, where it comes only to go. */
  #isShort(peer: PeerId): boolean {
    return this.#joinDelays.inForMs(peer, monotonicMs()) < SHORT_VISIT_MS;
  }

  #convict(peer: PeerId): void {
    const connection = this.#donors.of(peer);
    if (connection && !isTrusted(connection)) this.#joinDelays.convicted(connection.link.address, monotonicMs());
  }

  #lost(connection: Connection): void {
    const { peer, link } = connection;
    const nowMs = monotonicMs();
    if (!isTrusted(connection))
      this.#joinDelays.lost(link.address, nowMs - this.#joinDelays.inForMs(peer, nowMs), nowMs);
  }
}

/** It never waits: this server's own, or someone who tries the server out. */
const isTrusted = ({ isOwn, link }: Connection): boolean => isOwn || link.isHere;
