/**
 * Relayed frames that do not come by the server of their run. Where the WebSockets of two donors end at gateways of a site,
 * these are told that the one may send the other so much, and pass it on between them; what they are not told of comes here as
 * ever (relay.ts), and so does what is to be looked at. Gateways say what went by them.
 */
import { z } from 'zod';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import { REFUSAL_REASONS, type RefusalReason } from '../../swarm/messages/refusals.ts';
import type { Grant } from './allowance.ts';
import { isProcessName } from './processName.ts';
import type { Relay } from './relay.ts';

const peer = z.string().transform(peerId);

/** Told to a sender's gateway: it carries nothing to anyone who is not among `ways`. */
export const waysBesideSchema = z.object({
  /** Who it is. */
  peer,
  ways: z.array(
    z.object({
      ...{ to: peer, gateway: z.string().refine(isProcessName), socket: z.number() },
      ...{ most: z.number().nullable(), more: z.number() },
    }),
  ),
});
export type WaysBeside = z.infer<typeof waysBesideSchema>;

/** Told to a receiver's gateway: from whom something may come there. */
export const sendersBesideSchema = z.object({ from: z.array(peer) });
export type SendersBeside = z.infer<typeof sendersBesideSchema>;

/** Told by a gateway: what it carried of this donor, whether anything came for it, and what it did that is not done. */
export const wentBesideSchema = z.object({
  sent: z.array(z.object({ to: peer, frames: z.number().min(0), bytes: z.number().min(0) })),
  came: z.boolean(),
  fault: z.enum(REFUSAL_REASONS).optional(),
});
export type WentBeside = z.infer<typeof wentBesideSchema>;

/** Where a donor's WebSocket ends, and the way to tell it. */
export interface Beside {
  readonly gateway: string;
  readonly socket: number;
  tellWays(ways: WaysBeside): void;
  tellSenders(senders: SendersBeside): void;
  /** Called with what it says, from now on. */
  hear(listener: (went: WentBeside) => void): void;
}

/** After which other ways may be open, or more may go on them. */
const CHANGES: readonly ServerMessage['type'][] = ['prepare', 'start', 'evaluate', 'meet', 'meetingOver', 'standby'];

interface BesidePairs {
  /** Whom it may send tensors to, and who may send it some. */
  reached(peer: PeerId): PeerId[];
  handOn(from: PeerId, to: PeerId): Grant | null;
}

/** The way to a donor, as far as it concerns this. */
interface RelayingLink {
  readonly beside?: Beside | undefined;
  refuse(reason: RefusalReason, detail: string): void;
}

interface Told {
  readonly beside: Beside;
  senders: string;
}

export class RelaysBeside {
  readonly #relay: Relay;
  readonly #pairs: BesidePairs;
  readonly #told = new Map<PeerId, Told>();
  /** Whose frames or pings to whom came through a server: gateways hear of no others. */
  readonly #relaying = new Map<PeerId, Set<PeerId>>();

  constructor(relay: Relay, pairs: BesidePairs) {
    this.#relay = relay;
    this.#pairs = pairs;
  }

  connected(from: PeerId, link: RelayingLink): void {
    const { beside } = link;
    if (beside === undefined) return;
    this.#told.set(from, { beside, senders: '' });
    beside.hear(({ sent, came, fault }) => {
      if (this.#told.get(from)?.beside !== beside) return;
      for (const { to, frames, bytes } of sent) this.#relay.wentBeside(from, to, frames, bytes);
      if (came) this.#relay.uses(from);
      if (fault !== undefined) link.refuse(fault, 'a binary message');
    });
  }

  /** Its conversation goes on over another connection: who sends it something is told where that ends. */
  moved(to: PeerId): void {
    this.#tellSenders(to);
    for (const from of [to, ...this.#pairs.reached(to)]) this.#tellWays(from);
  }

  gone(who: PeerId): void {
    this.#told.delete(who);
    this.#relaying.delete(who);
    for (const others of this.#relaying.values()) others.delete(who);
  }

  /** Something of the one for the other came to the server: what follows need not. */
  passed(from: PeerId, to: PeerId): void {
    const others = this.#relaying.get(from) ?? new Set<PeerId>();
    if (others.has(to) || !this.#told.has(from) || !this.#told.has(to)) return;
    this.#relaying.set(from, others.add(to));
    this.#tellWays(from);
  }

  /**
   * What the run says to a donor, with `send`. Its gateway hears before it how much it may send: nothing of a new plan goes
   * by an old word. It hears after it who may send to it: nothing comes there before the plan by which it is awaited.
   */
  around(to: PeerId, type: ServerMessage['type'], send: () => void): void {
    const changes = CHANGES.includes(type);
    if (changes) this.#tellWays(to);
    send();
    if (changes) this.#tellSenders(to);
  }

  #tellWays(from: PeerId): void {
    const told = this.#told.get(from);
    const relaying = this.#relaying.get(from);
    if (told === undefined || relaying === undefined) return;
    const ways = this.#pairs.reached(from).flatMap((to) => {
      const other = this.#told.get(to);
      if (other === undefined || !relaying.has(to) || this.#relay.isWatched(from, to)) return [];
      const grant = this.#pairs.handOn(from, to);
      const { gateway, socket } = other.beside;
      return grant === null ? [] : { to, gateway, socket, ...grant };
    });
    told.beside.tellWays({ peer: from, ways });
  }

  #tellSenders(to: PeerId): void {
    const told = this.#told.get(to);
    const from = this.#pairs.reached(to);
    if (told === undefined || told.senders === from.join()) return;
    told.senders = from.join();
    told.beside.tellSenders({ from });
  }
}
