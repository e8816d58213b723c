/**
 * The links of this tab. The one idea: a link attempt is named by the epoch in which it was begun, and the newest
 * attempt wins at both ends. Whoever begins one tells the other: the initiator (the smaller id) by its offer, the other
 * by a call for an offer. So two ends that disagree about whether their link lives agree again at the next plan, and a
 * signal of an older attempt is known for what it is.
 *
 * It has no timer of its own, a hidden page's are late: `pulse()` is called about once a second from outside.
 */
import type { PeerId } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/frame.ts';
import type { Link, OpenLink } from './link.ts';

export const CONNECT_LIMIT_MS = 15_000;
/** Links at once, those included that others began before the plan came here. */
const LINKS_LIMIT = 256;
/** What the end that must not offer sends, in place of a signal of the link itself. */
const CALL = 'call';

export interface MeshOptions {
  readonly me: PeerId;
  readonly iceServers: readonly Readonly<Record<string, unknown>>[];
  readonly openLink: OpenLink;
  readonly now: () => number;
  /** To be carried by the server. */
  sendSignal(to: PeerId, epoch: number, data: string): void;
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
  /** In which this attempt was begun. */
  readonly epoch: number;
  readonly link: Link;
  deadlineMs: number;
  /** Why the attempt ended. */
  reason: string;
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Owns its links; `close()` closes them all. */
export class Mesh {
  readonly refusals: MeshRefusals = { oversizedMessages: 0, staleSignals: 0, badSignals: 0, tooManyLinks: 0 };
  readonly #options: MeshOptions;
  readonly #slots = new Map<PeerId, Slot>();
  #wanted: ReadonlySet<PeerId> = new Set();
  #epoch = 0;
  #waiting: Waiting | null = null;
  #closed = false;

  constructor(options: MeshOptions) {
    this.#options = options;
  }

  /**
   * Resolves when a link to each of these peers is open; rejects when one cannot be opened in time, or another call
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
    const deadlineMs = this.#options.now() + CONNECT_LIMIT_MS;
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      for (const peer of peers) {
        const slot = this.#slots.get(peer);
        if (slot && slot.link.state !== 'closed') slot.deadlineMs = deadlineMs;
        else this.#begin(peer, epoch, deadlineMs);
      }
      this.#settle();
    });
  }

  /** A signal from another donor, as the server delivered it. */
  signalled(from: PeerId, epoch: number, data: string): void {
    if (this.#closed) return;
    const slot = this.#slots.get(from);
    const isStale = slot ? epoch < slot.epoch : epoch < this.#epoch;
    if (isStale) {
      this.refusals.staleSignals += 1;
      return;
    }
    const isNew = !slot || epoch > slot.epoch;
    if (data === CALL) {
      if (!this.#initiates(from)) this.refusals.badSignals += 1;
      else if (isNew) this.#beginUnasked(from, epoch);
      return;
    }
    // Only the initiator begins with a signal of the link; what is left of an ended attempt begins nothing.
    if (isNew && this.#initiates(from)) this.refusals.staleSignals += 1;
    else if (!isNew && slot.link.state === 'closed') this.refusals.staleSignals += 1;
    else {
      if (isNew) this.#beginUnasked(from, epoch);
      if (this.#slots.get(from)?.link.signal(data) === false) this.refusals.badSignals += 1;
    }
  }

  /** Resolves when the link's channel has taken the message. */
  async send(peer: PeerId, message: ArrayBuffer): Promise<void> {
    const link = this.#slots.get(peer)?.link;
    if (!link) throw new Error(`there is no link to ${peer}`);
    await link.send(message);
  }

  /** Asks every open link whether it lives, and gives up those that did not open in time. */
  pulse(): void {
    const nowMs = this.#options.now();
    for (const slot of [...this.#slots.values()]) {
      if (slot.link.state === 'open') slot.link.ping(nowMs);
      else if (slot.link.state === 'connecting' && nowMs >= slot.deadlineMs) {
        slot.link.close();
        slot.reason = `no direct connection within ${CONNECT_LIMIT_MS / 1000} s`;
        this.#settle();
      }
    }
  }

  roundTripMs(peer: PeerId): number | null {
    return this.#slots.get(peer)?.link.roundTripMs ?? null;
  }

  close(): void {
    this.#closed = true;
    for (const { link } of this.#slots.values()) link.close();
    this.#slots.clear();
    this.#waiting?.reject(new Error('the mesh is closed'));
    this.#waiting = null;
  }

  #initiates(peer: PeerId): boolean {
    return this.#options.me < peer;
  }

  /** An attempt that this end decided on: the other end is told. */
  #begin(peer: PeerId, epoch: number, deadlineMs: number): void {
    this.#place(peer, epoch, deadlineMs);
    if (!this.#initiates(peer)) this.#options.sendSignal(peer, epoch, CALL);
  }

  /** An attempt that the other end decided on. */
  #beginUnasked(peer: PeerId, epoch: number): void {
    const slot = this.#slots.get(peer);
    if (!slot && this.#slots.size >= LINKS_LIMIT) {
      this.refusals.tooManyLinks += 1;
      return;
    }
    const wasOpen = slot?.link.state === 'open';
    slot?.link.close();
    this.#place(peer, epoch, this.#options.now() + CONNECT_LIMIT_MS);
    if (wasOpen) this.#lose(peer, 'the other end began anew');
  }

  #place(peer: PeerId, epoch: number, deadlineMs: number): void {
    const { openLink, iceServers, sendSignal, onFrame } = this.#options;
    let wasOpen = false;
    const link = openLink({
      peer,
      initiator: this.#initiates(peer),
      iceServers,
      events: {
        signal: (data) => sendSignal(peer, epoch, data),
        opened: () => {
          wasOpen = true;
          this.#settle();
        },
        message: (message) => {
          if (message.byteLength > FRAME_BYTES) this.refusals.oversizedMessages += 1;
          else onFrame(peer, message);
        },
        closed: (reason) => this.#onClosed(peer, slot, wasOpen, reason),
      },
    });
    const slot: Slot = { epoch, link, deadlineMs, reason: '' };
    this.#slots.set(peer, slot);
  }

  #onClosed(peer: PeerId, slot: Slot, wasOpen: boolean, reason: string): void {
    if (this.#slots.get(peer) !== slot) return;
    slot.reason = reason;
    if (wasOpen) this.#lose(peer, reason);
    this.#settle();
  }

  #lose(peer: PeerId, reason: string): void {
    if (this.#wanted.has(peer) && !this.#waiting) this.#options.onLost(peer, reason);
  }

  /** Where a connect waits: begins again what an older epoch left broken, then answers as soon as the answer is known. */
  #settle(): void {
    if (!this.#waiting) return;
    for (const peer of this.#wanted) {
      const slot = this.#slots.get(peer);
      if (slot?.link.state !== 'closed') continue;
      if (slot.epoch < this.#epoch && this.#options.now() < slot.deadlineMs) {
        this.#begin(peer, this.#epoch, slot.deadlineMs);
      } else {
        this.#answer(new Error(`no link to ${peer}: ${slot.reason}`));
        return;
      }
    }
    const isOpen = (peer: PeerId): boolean => this.#slots.get(peer)?.link.state === 'open';
    if ([...this.#wanted].every(isOpen)) this.#answer(null);
  }

  #answer(error: Error | null): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (error) waiting?.reject(error);
    else waiting?.resolve();
  }
}
