/**
 * Donors whose connection broke while this server lives: a network that fails for a moment, a proxy that is started again.
 * One who has a part in a plan is waited for as long as one who is silent, and goes on with the same conversation over another
 * connection, whether or not this end has noticed that the old one is dead. Rules RE in SPEC.md.
 */
import type { PeerId } from '../../swarm/base.ts';
import type { HelloMessage } from '../../swarm/messages/messages.ts';
import { isSameSecret } from '../http/secret.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { NetworkBreaks } from './breaks.ts';
import type { ConnectedDonors, Connection } from './connectedDonors.ts';
import type { DonorLink } from './donorSocket.ts';

interface ComebackOptions {
  readonly donors: ConnectedDonors;
  /** What proves that a tab was this peer. */
  readonly resumeKeyOf: (peer: PeerId) => string;
  /** It has a part in a plan, and nothing but words goes over its connection: tensors that are lost nobody sends again. */
  mayBreak(peer: PeerId): boolean;
  lost(peer: PeerId, detail: string): void;
}

export class Comebacks {
  readonly #options: ComebackOptions;
  readonly #networks = new NetworkBreaks();

  constructor(options: ComebackOptions) {
    this.#options = options;
  }

  /** The peer that this tab proves to have been; null: it is a new one. */
  provenBy({ resume }: HelloMessage): PeerId | null {
    if (resume === undefined || !isSameSecret(resume.key, this.#options.resumeKeyOf(resume.peer))) return null;
    return resume.peer;
  }

  /** Without a word of its own. */
  broke(connection: Connection): void {
    const { mayBreak, lost } = this.#options;
    const { peer, breaks } = connection;
    if (!mayBreak(peer) || !this.#may(connection)) lost(peer, 'its connection broke');
    else breaks.wait(() => lost(peer, 'its connection broke, and it did not come back in time'));
  }

  /** Not too often; those of this very machine are the server's own, or its operator's. */
  #may({ breaks, link }: Connection): boolean {
    const nowMs = monotonicMs();
    return breaks.may(nowMs) && (link.isHere || this.#networks.may(link.address, nowMs));
  }

  /** With whose conversation this one goes on, and what that one has not heard; null: none, and what was here of it is lost. */
  goesOn(
    hello: HelloMessage,
    link: DonorLink,
  ): { readonly connection: Connection; readonly unheard: readonly Buffer[] } | null {
    const { donors, mayBreak, lost } = this.#options;
    const peer = this.provenBy(hello);
    const connection = peer === null ? undefined : donors.of(peer);
    if (peer === null || connection === undefined || connection.link.address !== link.address) return null;
    const { breaks, link: before } = connection;
    const unheard = before.spoken.unheard(hello.resume?.heard ?? 0);
    if (unheard !== null && mayBreak(peer) && (breaks.isAway || this.#may(connection))) {
      breaks.over();
      return { connection, unheard };
    }
    before.supersede();
    lost(peer, 'its connection broke');
    return null;
  }
}
