/**
 * The ways of this tab to others: direct links, and the server's socket where a direct one does not open. The ideas:
 *
 * An attempt at a direct link is named by the epoch in which it was begun and its number there, and the newest one wins
 * at both ends. Whoever begins one tells the other: the initiator (the smaller id) by its offer, the other by a call for
 * an offer. So two ends that disagree about whether their link lives agree again at the next attempt, and a signal of an
 * older one is known for what it is.
 *
 * Each end chooses its own way to the other: frames arrive by either. An end that gives up waiting for the direct way
 * tells the other, so that both wait no longer than the first; later it tries again behind what is relayed, and changes
 * over at a step boundary. Nothing changes ways in the middle of a step but by losing a link, which ends the step.
 *
 * A link that no plan wants is opened to be measured (`reach`), where both ends were asked to, and closed again some time
 * later; it is direct or not at all.
 *
 * It has no timer of its own, a hidden page's are late: `pulse()` is called about once a second from outside.
 */
import { doubledMs, type PeerId } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import type { LinkMeasurement, LinkReport, RelayReason, Route } from '../../../swarm/messages/profile.ts';
import type { Link, OpenLink } from './link.ts';
import { Probes } from './probes.ts';
import { Relay } from './relay.ts';

/** A direct link has so long to open before frames go through the server. */
export const CONNECT_LIMIT_MS = 15_000;
/** An attempt that has not opened by then is closed; the next one begins after a pause. */
export const ATTEMPT_LIMIT_MS = 30_000;
/** The pause while someone waits for the link, and the first one behind what is relayed; that one doubles. */
export const SOON_MS = 1_000;
export const RETRY_FIRST_MS = 30_000;
export const RETRY_MOST_MS = 600_000;
/** Links at once, those included that others began before the plan came here. */
const LINKS_LIMIT = 256;
/** What the end that must not offer sends, in place of a signal of the link itself. */
const CALL = 'call';
/** What the end sends that does not wait for the direct way any more. */
const RELAYED = 'relayed';

export interface MeshOptions {
  readonly me: PeerId;
  readonly iceServers: readonly Readonly<Record<string, unknown>>[];
  readonly openLink: OpenLink;
  /** No other donor may learn this tab's address: by a TURN server, or else everything through the server. */
  readonly relayOnly?: boolean;
  readonly now: () => number;
  /** To be carried by the server. */
  sendSignal(to: PeerId, epoch: number, attempt: number, data: string): void;
  /** What goes through the server's socket, to be taken by `heard` of the other end; false where there is none. */
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
  tooManyLinks: number;
}

interface Slot {
  readonly peer: PeerId;
  link: Link;
  epoch: number;
  attempt: number;
  /** Null: not decided yet, or lost. */
  route: Route | null;
  /** What kept the direct way from opening. */
  why: RelayReason | null;
  /** Until then `connect` waits for the direct way. */
  deadlineMs: number;
  attemptEndMs: number;
  /** When the direct way is tried again; null: not, while the link is not closed. */
  retryAtMs: number | null;
  failures: number;
  /** The plan has nothing to do with it. */
  isProbe: boolean;
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Owns its links; `close()` closes them all. */
export class Mesh {
  readonly refusals: MeshRefusals = { oversizedMessages: 0, staleSignals: 0, badSignals: 0, tooManyLinks: 0 };
  readonly #options: MeshOptions;
  readonly #relay: Relay;
  readonly #slots = new Map<PeerId, Slot>();
  #wanted: ReadonlySet<PeerId> = new Set();
  readonly #probes = new Probes();
  #epoch = 0;
  #waiting: Waiting | null = null;
  #closed = false;

  constructor(options: MeshOptions) {
    this.#options = options;
    this.#relay = new Relay({ sendBytes: options.sendBytes, now: options.now, onFrame: options.onFrame });
  }

  /**
   * Resolves when there is a way to each of these peers, a direct one where one opens in time; rejects when another call
   * takes this one's place. Open links to these peers stay, those to others close.
   */
  connect(peers: readonly PeerId[], epoch: number): Promise<void> {
    if (this.#closed) return Promise.reject(new Error('the mesh is closed'));
    this.#waiting?.reject(new Error(`epoch ${epoch} took the place of epoch ${this.#epoch}`));
    this.#epoch = epoch;
    this.#wanted = new Set(peers);
    for (const [peer, slot] of this.#slots) {
      // A newer attempt belongs to a plan that is still on its way here.
      if (this.#wanted.has(peer) || slot.epoch > epoch) continue;
      slot.link.close();
      this.#slots.delete(peer);
    }
    for (const peer of this.#probes.peers) if (this.#wanted.has(peer) || !this.#slots.has(peer)) this.#endProbe(peer);
    this.changeOver();
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      for (const peer of peers) {
        const slot = this.#slots.get(peer);
        if (slot) {
          slot.isProbe = false;
          slot.deadlineMs = this.#options.now() + CONNECT_LIMIT_MS;
        }
        if (slot?.route === 'relayed') continue;
        if (!slot || slot.link.state === 'closed') this.#begin(peer);
      }
      this.#settle();
    });
  }

  /**
   * Resolves when a direct link is open to a donor that no plan connects this one with, for a while; false where none opens
   * then. The other end is asked the same at this moment: whoever is to offer begins.
   */
  reach(peer: PeerId, epoch: number): Promise<boolean> {
    if (this.#closed || this.#wanted.has(peer) || this.#probes.has(peer)) return Promise.resolve(false);
    const reached = this.#probes.begin(peer, this.#options.now());
    if (this.#slots.get(peer)?.link.state === 'open') this.#probes.opened(peer);
    else if (this.#initiates(peer)) this.#begin(peer, epoch);
    return reached;
  }

  /** Over the link that was reached; null where it is gone. */
  async measure(peer: PeerId, messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null> {
    const slot = this.#probes.has(peer) ? this.#slots.get(peer) : undefined;
    return slot?.link.state === 'open' ? slot.link.measure(messages) : null;
  }

  /** Between two steps: who was relayed and has a direct link by now uses it from here on. */
  changeOver(): void {
    for (const slot of this.#slots.values()) if (slot.link.state === 'open') slot.route = 'direct';
  }

  /** A signal from another donor, as the server delivered it. */
  signalled(from: PeerId, epoch: number, attempt: number, data: string): void {
    if (this.#closed) return;
    const slot = this.#slots.get(from);
    const order = slot ? epoch - slot.epoch || attempt - slot.attempt : 1;
    if (slot ? order < 0 : epoch < this.#epoch) {
      this.refusals.staleSignals += 1;
      return;
    }
    if (data === RELAYED) {
      if (slot && !slot.isProbe) this.#giveUpWaiting(slot, 'otherEnd');
      return;
    }
    const isNew = order > 0;
    if (data === CALL) {
      if (!this.#initiates(from)) this.refusals.badSignals += 1;
      else if (isNew) this.#beginUnasked(from, epoch, attempt);
      return;
    }
    // Only the initiator begins with a signal of the link; what is left of an ended attempt begins nothing.
    if (isNew && this.#initiates(from)) this.refusals.staleSignals += 1;
    else if (!isNew && slot?.link.state === 'closed') this.refusals.staleSignals += 1;
    else {
      if (isNew) this.#beginUnasked(from, epoch, attempt);
      if (this.#slots.get(from)?.link.signal(data) === false) this.refusals.badSignals += 1;
    }
  }

  /** Resolves when the link's channel, or the server's socket, has taken the message. */
  async send(peer: PeerId, message: ArrayBuffer): Promise<void> {
    const slot = this.#slots.get(peer);
    if (!slot?.route) throw new Error(`there is no link to ${peer}`);
    await (slot.route === 'direct' ? slot.link.send(message) : this.#relay.send(peer, message));
  }

  /** A binary message of the server: a frame that was relayed, or a word about one. */
  heard(message: ArrayBuffer): void {
    if (!this.#closed) this.#relay.heard(message);
  }

  /** Asks every other end whether it lives, gives up what did not open in time, begins again what is due. */
  pulse(): void {
    const nowMs = this.#options.now();
    for (const slot of [...this.#slots.values()]) {
      if (slot.route === 'relayed') this.#relay.ping(slot.peer);
      if (slot.link.state === 'open') slot.link.ping(nowMs);
      else if (slot.link.state === 'connecting' && nowMs >= slot.attemptEndMs) {
        slot.link.close();
        this.#retryLater(slot);
      }
      if (!slot.isProbe && slot.route === null && nowMs >= slot.deadlineMs && slot.link.state !== 'open')
        this.#relayFrom(slot, 'noAnswer');
      const isDue = slot.link.state === 'closed' && slot.retryAtMs !== null && nowMs >= slot.retryAtMs;
      if (isDue && this.#wanted.has(slot.peer)) this.#begin(slot.peer);
    }
    for (const peer of this.#probes.over(nowMs)) this.#endProbe(peer);
  }

  /** The ways to the peers of the plan. */
  reports(): LinkReport[] {
    return [...this.#wanted].flatMap((peer) => {
      const slot = this.#slots.get(peer);
      if (!slot?.route) return [];
      const { roundTripMs, bytesPerSecond } = slot.route === 'direct' ? slot.link : this.#relay.measured(peer);
      const why = slot.route === 'relayed' && slot.why !== null ? { why: slot.why } : {};
      return { peer, route: slot.route, roundTripMs, bytesPerSecond, ...why };
    });
  }

  close(): void {
    this.#closed = true;
    for (const { link } of this.#slots.values()) link.close();
    this.#slots.clear();
    for (const peer of this.#probes.peers) this.#endProbe(peer);
    this.#relay.close();
    this.#waiting?.reject(new Error('the mesh is closed'));
    this.#waiting = null;
  }

  #initiates(peer: PeerId): boolean {
    return this.#options.me < peer;
  }

  /** An attempt that this end decided on: the other end is told. */
  #begin(peer: PeerId, leastEpoch = this.#epoch): void {
    const slot = this.#slots.get(peer);
    const epoch = Math.max(this.#epoch, leastEpoch, slot?.epoch ?? 0);
    const attempt = slot?.epoch === epoch ? slot.attempt + 1 : 0;
    this.#place(peer, epoch, attempt);
    if (!this.#initiates(peer)) this.#options.sendSignal(peer, epoch, attempt, CALL);
  }

  /** An attempt that the other end decided on. */
  #beginUnasked(peer: PeerId, epoch: number, attempt: number): void {
    const slot = this.#slots.get(peer);
    if (!slot && this.#slots.size >= LINKS_LIMIT && !this.#dropClosed()) {
      this.refusals.tooManyLinks += 1;
      return;
    }
    const wasUsed = slot?.route === 'direct' && slot.link.state === 'open';
    slot?.link.close();
    this.#place(peer, epoch, attempt);
    if (wasUsed) this.#lose(peer, 'the other end began anew');
  }

  /** A link that was is kept for its number alone. */
  #dropClosed(): boolean {
    const closed = [...this.#slots.values()].find(
      ({ peer, link }) => link.state === 'closed' && !this.#wanted.has(peer),
    );
    return closed !== undefined && this.#slots.delete(closed.peer);
  }

  /** Whatever came of it: a link that no plan wants by now closes. */
  #endProbe(peer: PeerId): void {
    const slot = this.#slots.get(peer);
    if (slot?.isProbe && !this.#wanted.has(peer)) slot.link.close();
    this.#probes.end(peer);
  }

  #place(peer: PeerId, epoch: number, attempt: number): void {
    const nowMs = this.#options.now();
    const link = this.#openLink(peer, epoch, attempt);
    const before = this.#slots.get(peer);
    this.#slots.set(peer, {
      ...{ peer, link, epoch, attempt, retryAtMs: null, failures: before?.failures ?? 0 },
      route: before?.route === 'relayed' ? 'relayed' : null,
      why: before?.why ?? null,
      isProbe: this.#probes.has(peer) && !this.#wanted.has(peer),
      deadlineMs: before && this.#waiting ? before.deadlineMs : nowMs + CONNECT_LIMIT_MS,
      attemptEndMs: nowMs + ATTEMPT_LIMIT_MS,
    });
  }

  #openLink(peer: PeerId, epoch: number, attempt: number): Link {
    const { openLink, iceServers, relayOnly = false, sendSignal, onFrame } = this.#options;
    /** Undefined: another attempt has taken this one's place. */
    const current = (): Slot | undefined => {
      const slot = this.#slots.get(peer);
      return slot?.link === link ? slot : undefined;
    };
    const link = openLink({
      peer,
      initiator: this.#initiates(peer),
      iceServers,
      relayOnly,
      events: {
        signal: (data) => sendSignal(peer, epoch, attempt, data),
        opened: () => this.#onOpened(current()),
        message: (message) => {
          if (message.byteLength > FRAME_BYTES) this.refusals.oversizedMessages += 1;
          else onFrame(peer, message);
        },
        stranded: () => this.#onStranded(current()),
        closed: (reason) => this.#onClosed(current(), reason),
      },
    });
    return link;
  }

  #onOpened(slot: Slot | undefined): void {
    if (!slot) return;
    slot.route ??= 'direct';
    slot.why = null;
    this.#probes.opened(slot.peer);
    this.#settle();
  }

  #onStranded(slot: Slot | undefined): void {
    if (!slot) return;
    slot.link.close();
    if (slot.isProbe) {
      this.#endProbe(slot.peer);
      return;
    }
    this.#relayFrom(slot, this.#options.relayOnly ? 'hidden' : 'noAddress');
    this.#retryLater(slot);
  }

  #onClosed(slot: Slot | undefined, reason: string): void {
    if (!slot) return;
    if (slot.isProbe) {
      this.#endProbe(slot.peer);
      return;
    }
    this.#retryLater(slot);
    slot.why = 'failed';
    if (slot.route !== 'direct') return;
    slot.route = null;
    slot.deadlineMs = Math.max(slot.deadlineMs, this.#options.now() + (this.#waiting ? 0 : CONNECT_LIMIT_MS));
    this.#lose(slot.peer, reason);
  }

  /** Frames to this peer go through the server from here on; the other end need not wait for this one. */
  #relayFrom(slot: Slot, why: RelayReason): void {
    if (slot.route === null) this.#options.sendSignal(slot.peer, slot.epoch, slot.attempt, RELAYED);
    this.#giveUpWaiting(slot, why);
  }

  #giveUpWaiting(slot: Slot, why: RelayReason): void {
    if (slot.route === null) slot.why ??= why;
    slot.route ??= 'relayed';
    this.#settle();
  }

  /** Soon where a connect waits for it, else after a pause that doubles. */
  #retryLater(slot: Slot): void {
    const nowMs = this.#options.now();
    if (this.#waiting && slot.route !== 'relayed') {
      slot.retryAtMs = nowMs + SOON_MS;
      return;
    }
    slot.retryAtMs = nowMs + doubledMs(RETRY_FIRST_MS, RETRY_MOST_MS, slot.failures);
    slot.failures += 1;
  }

  #lose(peer: PeerId, reason: string): void {
    if (this.#wanted.has(peer) && !this.#waiting) this.#options.onLost(peer, reason);
  }

  /** Answers a connect that waits as soon as there is a way to everyone. */
  #settle(): void {
    const hasWay = (peer: PeerId): boolean => (this.#slots.get(peer)?.route ?? null) !== null;
    if (!this.#waiting || ![...this.#wanted].every(hasWay)) return;
    this.#waiting.resolve();
    this.#waiting = null;
  }
}
