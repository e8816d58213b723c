/**
 * How the donors of a run reach each other, as far as the server has a part in it: who may come in, which servers help
 * them to a direct way, what is relayed where there is none, and what they measured.
 */
import type { PeerId } from '../../swarm/base.ts';
import type { LinkReport } from '../../swarm/messages/profile.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import type { IceServer } from './iceServers.ts';
import { Invitation } from './invitation.ts';
import { Relay, type RelayPort } from './relay.ts';

export interface NetworkOptions {
  readonly iceServers?: readonly IceServer[];
  /** Only donors whose link carries it may join. */
  readonly invite?: string;
}

export class Network {
  readonly relay = new Relay();
  readonly iceServers: IceServer[];
  readonly invitation: Invitation;
  readonly #reports = new Map<PeerId, readonly LinkReport[]>();
  #plan: Plan | null = null;

  constructor({ iceServers = [], invite }: NetworkOptions) {
    this.iceServers = [...iceServers];
    this.invitation = new Invitation(invite ?? null);
  }

  connected(peer: PeerId, port: RelayPort): void {
    this.relay.connected(peer, port);
  }

  gone(peer: PeerId): void {
    this.relay.gone(peer);
    this.#reports.delete(peer);
  }

  /** A plan begins; members of the one before may have state to hand over. */
  planned(plan: Plan): void {
    this.relay.allow(new Set([...peers(plan), ...(this.#plan ? peers(this.#plan) : [])]));
    this.#plan = plan;
  }

  /** Its members get ready beside the plan in force. */
  warmingUp(plan: Plan): void {
    this.relay.allow(new Set([...peers(plan), ...(this.#plan ? peers(this.#plan) : [])]));
  }

  /** As each donor last told it. */
  get reports(): ReadonlyMap<PeerId, readonly LinkReport[]> {
    return this.#reports;
  }

  reported(from: PeerId, links: readonly LinkReport[]): void {
    this.#reports.set(from, links);
  }

  /** The ways between the plan's donors, as they last reported them. */
  links(): NonNullable<Snapshot['links']> {
    const members = this.#plan ? peers(this.#plan) : [];
    return members.flatMap((from) =>
      (this.#reports.get(from) ?? []).filter(({ peer }) => members.includes(peer)).map((link) => ({ from, ...link })),
    );
  }
}
