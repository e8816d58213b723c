/**
 * How the donors of a run reach each other, as far as the server has a part in it: who may come in, which servers help
 * them to a direct way, what is relayed where there is none, and what they measured.
 */
import type { PeerId } from '../../swarm/base.ts';
import { isSameNetwork } from '../../swarm/messages/addresses.ts';
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import type { LinkReport } from '../../swarm/messages/profile.ts';
import { filteredSignal } from '../../swarm/messages/signal.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import { type TurnError, turnUrls } from '../../swarm/messages/turn.ts';
import type { DonorLink } from './donorSocket.ts';
import { GroupPairs } from './groupPairs.ts';
import type { IceServer } from './iceServers.ts';
import { Invitation } from './invitation.ts';
import type { RunSizes } from './pairs.ts';
import { Relay } from './relay.ts';
import { RelaysBeside } from './relaysBeside.ts';
import { StateNeeds } from './stateNeeds.ts';
import type { WrongInvitations } from './wrongInvitations.ts';

export interface NetworkOptions {
  readonly iceServers?: readonly IceServer[];
  /** Only donors whose link carries it may join. */
  readonly invite?: string;
}

interface InvitedNetworkOptions extends NetworkOptions {
  /** Of all processes of the site; absent: this one alone counts. */
  readonly wrongInvitations?: WrongInvitations;
}

export class Network {
  readonly pairs: GroupPairs;
  readonly needs: StateNeeds;
  readonly relay: Relay;
  /** What gateways of a site relay, where there are any. */
  readonly beside: RelaysBeside;
  readonly iceServers: IceServer[];
  readonly invitation: Invitation;
  readonly #reports = new Map<PeerId, readonly LinkReport[]>();
  readonly #turnErrors = new Map<PeerId, readonly TurnError[]>();
  readonly #addresses = new Map<PeerId, string>();
  /** Of any plan: donors that do islands of their own have one each. */
  readonly #members = new Set<PeerId>();

  constructor({ iceServers = [], invite, wrongInvitations }: InvitedNetworkOptions, sizes: RunSizes) {
    this.pairs = new GroupPairs(sizes);
    this.needs = new StateNeeds(sizes);
    this.relay = new Relay(this.pairs, (from, to) => this.beside.passed(from, to));
    this.beside = new RelaysBeside(this.relay, this.pairs);
    this.iceServers = [...iceServers];
    this.invitation = new Invitation(invite ?? null, wrongInvitations);
  }

  connected(peer: PeerId, link: DonorLink): void {
    this.relay.connected(peer, link);
    this.beside.connected(peer, link);
    this.#addresses.set(peer, link.address);
  }

  /** Its conversation goes on over another connection. */
  moved(peer: PeerId, link: DonorLink): void {
    this.relay.gone(peer);
    this.connected(peer, link);
    this.beside.moved(peer);
  }

  gone(peer: PeerId): void {
    this.relay.gone(peer);
    this.beside.gone(peer);
    this.pairs.gone(peer);
    this.needs.gone(peer);
    this.#addresses.delete(peer);
    this.#reports.delete(peer);
    this.#turnErrors.delete(peer);
    this.#members.delete(peer);
  }

  /** What the run tells a donor, before it is sent: whom it may reach, and what it may read, follows from that. */
  told(to: PeerId, message: ServerMessage, nowMs: number): void {
    if (message.type === 'prepare') {
      this.#members.add(to);
      this.relay.forgive();
    } else if (message.type === 'abandon' || (message.type === 'standby' && message.state !== 'finished'))
      this.#members.delete(to);
    this.pairs.told(to, message, nowMs);
    this.needs.told(to, message);
  }

  /** What of a signal goes on to that donor; null: nothing. */
  signal(from: PeerId, to: PeerId, data: string, nowMs: number): string | null {
    if (!this.pairs.maySignal(from, to, data.length, nowMs)) return null;
    const [one, other] = [this.#addresses.get(from), this.#addresses.get(to)];
    const isNear = one !== undefined && other !== undefined && isSameNetwork(one, other);
    return filteredSignal(data, isNear ? 'all' : 'public');
  }

  /** As each donor last told it. */
  get reports(): ReadonlyMap<PeerId, readonly LinkReport[]> {
    return this.#reports;
  }

  reported(from: PeerId, links: readonly LinkReport[], turnErrors: readonly TurnError[] = []): void {
    this.#reports.set(from, links);
    this.#turnErrors.set(from, turnErrors);
  }

  /** By server and code, of this server's own alone: so many donors say so in their last reports. */
  turnErrors(): NonNullable<Snapshot['turnErrors']> {
    const all = [...this.#turnErrors.values()];
    return turnUrls(this.iceServers).flatMap((url) => {
      const codes = all.flatMap((errors) => errors.find((error) => error.url === url)?.code ?? []);
      return [...new Set(codes)].map((code) => ({ url, code, donors: codes.filter((one) => one === code).length }));
    });
  }

  /** The ways between donors that have a part, as they last reported them: in a step, and at meetings of islands. */
  links(): NonNullable<Snapshot['links']> {
    const members = this.#members;
    return [...members].flatMap((from) =>
      (this.#reports.get(from) ?? []).filter(({ peer }) => members.has(peer)).map((link) => ({ from, ...link })),
    );
  }
}
