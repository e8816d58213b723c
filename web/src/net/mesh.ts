/**
 * The ways of this tab to others: direct links, and the server's socket where a direct one does not open. One way by itself
 * is in way.ts; here is what they have in common.
 * Each end chooses its own way to the other: frames arrive by either. An end that gives up waiting for the direct way
 * tells the other, so that both wait no longer than the first; later it tries again behind what is relayed, and changes
 * over at a step boundary. Nothing changes ways in the middle of a step but by losing a link, which ends the step.
 *
 * A link that no plan wants is opened where both ends were asked to measure it; it is direct or not at all.
 * It has no timer of its own, a hidden page's are late: `pulse()` is called about once a second from outside.
 */
import { assertNever, type PeerId } from '../../../swarm/base.ts';
import { FRAME_BYTES } from '../../../swarm/messages/frame.ts';
import type { LinkMeasurement, LinkReport, RelayReason } from '../../../swarm/messages/profile.ts';
import { CALL, RELAYED } from '../../../swarm/messages/signal.ts';
import { offers } from '../../../swarm/ways/partners.ts';
import type { Link } from './link.ts';
import type { MeshOptions, MeshRefusals, Waiting } from './meshOptions.ts';
import type { Stranding } from './peerConnection.ts';
import { PlanPeers } from './planPeers.ts';
import { Probes } from './probes.ts';
import { Arrivals, LineMeter } from './rateMeter.ts';
import { Relay } from './relay.ts';
import { begun, CONNECT_LIMIT_MS, isDue, meaningOf, nextAttempt, reportOf, retryLater, type Way } from './way.ts';

/** What may come over a link that is open to be measured alone. */
const PROBE_MESSAGES = 8;

/** Owns its links; `close()` closes them all. */
export class Mesh {
  readonly refusals: MeshRefusals = { oversizedMessages: 0, staleSignals: 0, badSignals: 0, strangers: 0 };
  readonly #options: MeshOptions;
  readonly relay: Relay;
  /** What goes out to all others. */
  readonly line = new LineMeter();
  readonly #ways = new Map<PeerId, Way>();
  readonly #plan = new PlanPeers();
  #waitingNext: (() => void) | null = null;
  readonly #probes = new Probes();
  readonly #arrivals = new Arrivals();
  #epoch = 0;
  #waiting: Waiting | null = null;
  #closed = false;

  constructor(options: MeshOptions) {
    this.#options = options;
    this.relay = new Relay({ ...options, line: this.line, mayCome: (peer) => this.#plan.isPartner(peer) });
  }

  /** From now on these are the plan's partners of this tab: links are opened to and taken from them alone. */
  allow(peers: ReadonlySet<PeerId>): void {
    this.#plan.allow(peers, this.#options.now());
    // It is the plan's from now on, though only the other end may have begun to use it.
    for (const [peer, way] of this.#ways) if (peers.has(peer)) way.isProbe = false;
    this.#settle();
  }

  /** The server asks this tab, and this peer at the same moment, to measure the link between them. */
  probeAsked(peer: PeerId): void {
    this.#probes.asked(peer, this.#options.now());
  }

  /** It sends what nobody asked for: no link to it and no frame of it until the next plan. */
  bar(peer: PeerId): void {
    this.#plan.bar(peer);
    this.#drop(peer);
  }

  /**
   * Resolves when there is a way to each of these peers, a direct one where one opens in time, of so many connections where
   * they open in time; rejects when another call takes this one's place. Open links to these peers stay, those to others
   * close.
   */
  connect(
    peers: readonly PeerId[],
    epoch: number,
    relayed: readonly PeerId[] = [],
    streams: ReadonlyMap<PeerId, number> = new Map(),
  ): Promise<void> {
    if (this.#closed) return Promise.reject(new Error('the mesh is closed'));
    if (!this.#plan.allAllowed(peers))
      return Promise.reject(new Error(`another plan took the place of epoch ${epoch}`));
    this.#waiting?.reject(new Error(`epoch ${epoch} took the place of epoch ${this.#epoch}`));
    this.#epoch = epoch;
    this.#plan.want(peers, relayed, streams);
    for (const peer of relayed) this.#drop(peer);
    // A newer attempt belongs to a plan that is still on its way here.
    for (const [peer, way] of this.#ways) if (!this.#plan.isWanted(peer) && way.epoch <= epoch) this.#drop(peer);
    for (const peer of this.#probes.peers)
      if (this.#plan.wanted.has(peer) || !this.#ways.has(peer)) this.#endProbe(peer);
    this.changeOver();
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      for (const peer of peers) {
        if (this.#plan.told.has(peer)) continue;
        const way = this.#ways.get(peer);
        if (way) {
          way.deadlineMs = this.#options.now() + CONNECT_LIMIT_MS;
          way.link.openStreams(this.#plan.streamsTo(peer));
        }
        if (way?.route === 'relayed') continue;
        if (!way || way.link.state === 'closed') this.#begin(peer);
      }
      this.#settle();
    });
  }

  /**
   * For a plan that may come: opens ways to these peers beside those in use. Resolves when there is one to each, or when
   * other peers, or none, take their place.
   */
  openAhead(peers: readonly PeerId[], epoch: number): Promise<void> {
    if (this.#closed || !this.#plan.allAllowed(peers)) return Promise.resolve();
    this.#waitingNext?.();
    this.#plan.wantNext(peers);
    return new Promise((resolve) => {
      this.#waitingNext = resolve;
      for (const peer of peers) {
        if (this.#plan.told.has(peer)) continue;
        const way = this.#ways.get(peer);
        if (!way || (way.route !== 'relayed' && way.link.state === 'closed')) this.#begin(peer, epoch);
      }
      this.#settle();
    });
  }

  /**
   * Resolves when a direct link is open to a donor that no plan connects this one with, for a while; false where none opens
   * then. The other end is asked the same at this moment: whoever is to offer begins.
   */
  openDirect(peer: PeerId, epoch: number): Promise<boolean> {
    if (this.#closed || this.#plan.wanted.has(peer) || this.#probes.has(peer)) return Promise.resolve(false);
    const reached = this.#probes.begin(peer, this.#options.now());
    if (this.#ways.get(peer)?.link.state === 'open') this.#probes.opened(peer);
    else if (this.#initiates(peer)) this.#begin(peer, epoch);
    return reached;
  }

  /** Over the link that was reached; null where it is gone. */
  async measure(peer: PeerId, messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null> {
    const way = this.#probes.has(peer) ? this.#ways.get(peer) : undefined;
    return way?.link.state === 'open' ? way.link.measure(messages) : null;
  }

  /** Between two steps: who was relayed and has a direct link by now uses it from here on. */
  changeOver(): void {
    for (const way of this.#ways.values()) if (way.link.state === 'open') way.route = 'direct';
  }

  /** A signal from another donor, as the server delivered it. */
  signalled(from: PeerId, epoch: number, attempt: number, data: string): void {
    if (this.#closed || this.#plan.told.has(from)) return;
    if (!this.#plan.isPartner(from) && !this.#probes.isExpected(from)) {
      this.refusals.strangers += 1;
      return;
    }
    const way = this.#ways.get(from);
    const initiates = this.#initiates(from);
    const meaning = meaningOf({ epoch, attempt, data }, way, initiates, this.#epoch);
    switch (meaning) {
      case 'stale':
        this.refusals.staleSignals += 1;
        return;
      case 'bad':
        this.refusals.badSignals += 1;
        return;
      case 'relayed':
        if (way && !way.isProbe) this.#giveUpWaiting(way, 'otherEnd');
        return;
      case 'call':
        this.#beginUnasked(from, epoch, attempt);
        return;
      case 'offer':
      case 'more':
        if (meaning === 'offer') this.#beginUnasked(from, epoch, attempt);
        if (this.#ways.get(from)?.link.signal(data) === false) this.refusals.badSignals += 1;
        return;
      case 'known':
        return;
      default:
        assertNever(meaning);
    }
  }

  /** Resolves when the link's channel, or the server's socket, has taken the message. */
  async send(peer: PeerId, message: ArrayBuffer, hasLeft?: boolean): Promise<void> {
    if (this.#plan.told.has(peer)) return this.relay.send(peer, message);
    const way = this.#ways.get(peer);
    if (!way?.route) throw new Error(`there is no link to ${peer}`);
    await (way.route === 'direct' ? way.link.send(message, hasLeft) : this.relay.send(peer, message));
  }

  /** A binary message of the server: a frame that was relayed, or a word about one. */
  onBytes(message: ArrayBuffer): void {
    if (!this.#closed) this.relay.onBytes(message);
  }

  /** Asks every other end whether it lives, gives up what did not open in time, begins again what is due. */
  pulse(): void {
    const nowMs = this.#options.now();
    for (const peer of this.#plan.told) this.relay.ping(peer);
    for (const way of [...this.#ways.values()]) {
      if (way.route === 'relayed') this.relay.ping(way.peer);
      if (way.link.state === 'open') way.link.ping(nowMs);
      else if (way.link.state === 'connecting' && nowMs >= way.attemptEndMs) {
        way.link.close();
        this.#retryLater(way);
      }
      if (!way.isProbe && way.route === null && nowMs >= way.deadlineMs && way.link.state !== 'open')
        this.#relayFrom(way, 'noAnswer');
      if (isDue(way, nowMs) && this.#plan.isWanted(way.peer)) this.#begin(way.peer);
    }
    for (const peer of this.#probes.over(nowMs)) this.#endProbe(peer);
    if (this.#plan.isParting(nowMs)) this.#part();
    this.#settle();
  }

  /** The ways to the peers of the plan. */
  reports(): LinkReport[] {
    return [...this.#plan.wanted].flatMap((peer) => {
      const way = this.#plan.told.has(peer)
        ? ({ peer, route: 'relayed', why: 'server' } as const)
        : this.#ways.get(peer);
      const report = way && reportOf(way, this.relay.measured(peer));
      return report ? { ...report, ...this.#arrivals.measured(peer) } : [];
    });
  }

  close(): void {
    this.#closed = true;
    for (const { link } of this.#ways.values()) link.close();
    this.#ways.clear();
    for (const peer of this.#probes.peers) this.#endProbe(peer);
    this.relay.close();
    this.#waiting?.reject(new Error('the mesh is closed'));
    this.#waiting = null;
    this.#waitingNext?.();
    this.#waitingNext = null;
  }

  #drop(peer: PeerId): void {
    this.#arrivals.forget(peer);
    const way = this.#ways.get(peer);
    this.#ways.delete(peer);
    way?.link.close();
  }

  #initiates(peer: PeerId): boolean {
    return offers(this.#options.me, peer);
  }

  /** From who is no partner any more. */
  #part(): void {
    for (const peer of this.#ways.keys())
      if (!this.#plan.isPartner(peer) && !this.#probes.isExpected(peer)) this.#drop(peer);
  }

  /** An attempt that this end decided on: the other end is told. */
  #begin(peer: PeerId, leastEpoch = this.#epoch): void {
    const way = this.#ways.get(peer);
    const { epoch, attempt } = nextAttempt(way, Math.max(this.#epoch, leastEpoch));
    this.#place(peer, epoch, attempt);
    if (!this.#initiates(peer)) this.#options.sendSignal(peer, epoch, attempt, CALL);
  }

  /** An attempt that the other end decided on. */
  #beginUnasked(peer: PeerId, epoch: number, attempt: number): void {
    const way = this.#ways.get(peer);
    const wasUsed = way?.route === 'direct' && way.link.state === 'open';
    way?.link.close();
    this.#place(peer, epoch, attempt);
    if (wasUsed) this.#lose(peer, 'the other end began anew');
  }

  /** Whether it opened or not: the link closes unless it is a plan's by now. */
  #endProbe(peer: PeerId): void {
    const way = this.#ways.get(peer);
    if (way?.isProbe) way.link.close();
    this.#probes.end(peer);
  }

  #place(peer: PeerId, epoch: number, attempt: number): void {
    const nowMs = this.#options.now();
    const link = this.#openLink(peer, epoch, attempt);
    const before = this.#ways.get(peer);
    this.#ways.set(peer, {
      ...begun(link, { peer, epoch, attempt }, before, nowMs),
      isProbe: this.#probes.isExpected(peer) && !this.#plan.isPartner(peer),
      deadlineMs: before && this.#waiting ? before.deadlineMs : nowMs + CONNECT_LIMIT_MS,
    });
  }

  #openLink(peer: PeerId, epoch: number, attempt: number): Link {
    const { openLink, iceServers, relayOnly = false, sendSignal, onFrame } = this.#options;
    /** Undefined: another attempt has taken this one's place. */
    const current = (): Way | undefined => {
      const way = this.#ways.get(peer);
      return way?.link === link ? way : undefined;
    };
    const link = openLink({
      peer,
      initiator: this.#initiates(peer),
      iceServers,
      relayOnly,
      line: this.line,
      events: {
        signal: (data) => sendSignal(peer, epoch, attempt, data),
        opened: () => this.#onOpened(current()),
        message: (message) => {
          if (message.byteLength > FRAME_BYTES) this.refusals.oversizedMessages += 1;
          else if (current()?.isProbe) this.#onProbed(peer, message);
          else if (this.#plan.isPartner(peer)) {
            this.#arrivals.arrived(peer, message, this.#options.now());
            onFrame(peer, message);
          } else this.refusals.strangers += 1;
        },
        stranded: (why) => this.#onStranded(current(), why),
        closed: (reason) => this.#onClosed(current(), reason),
      },
    });
    return link;
  }

  /** Counted as whatever comes; more than a measurement sends ends it. */
  #onProbed(peer: PeerId, message: ArrayBuffer): void {
    if (this.#probes.received(peer) <= PROBE_MESSAGES) this.#options.onFrame(peer, message);
    else this.#endProbe(peer);
  }

  #onOpened(way: Way | undefined): void {
    if (!way) return;
    way.route ??= 'direct';
    way.why = null;
    way.link.openStreams(this.#plan.streamsTo(way.peer));
    this.#probes.opened(way.peer);
    this.#settle();
  }

  #onStranded(way: Way | undefined, why: Stranding): void {
    if (!way) return;
    way.link.close();
    if (way.isProbe) this.#endProbe(way.peer);
    else {
      this.#relayFrom(way, why === 'noAddress' && this.#options.relayOnly ? 'hidden' : why);
      this.#retryLater(way);
    }
  }

  #onClosed(way: Way | undefined, reason: string): void {
    if (!way) return;
    if (way.isProbe) {
      this.#endProbe(way.peer);
      return;
    }
    this.#retryLater(way);
    way.why = 'failed';
    if (way.route !== 'direct') return;
    way.route = null;
    way.deadlineMs = Math.max(way.deadlineMs, this.#options.now() + (this.#waiting ? 0 : CONNECT_LIMIT_MS));
    this.#lose(way.peer, reason);
  }

  /** Frames to this peer go through the server from here on; the other end need not wait for this one. */
  #relayFrom(way: Way, why: RelayReason): void {
    if (way.route === null) this.#options.sendSignal(way.peer, way.epoch, way.attempt, RELAYED);
    this.#giveUpWaiting(way, why);
  }

  #giveUpWaiting(way: Way, why: RelayReason): void {
    if (way.route === null) way.why ??= why;
    way.route ??= 'relayed';
    this.#settle();
  }

  #retryLater(way: Way): void {
    retryLater(way, this.#waiting !== null, this.#options.now());
  }

  #lose(peer: PeerId, reason: string): void {
    if (this.#plan.wanted.has(peer) && !this.#waiting) this.#options.onLost(peer, reason);
  }

  /** Answers a connect that waits as soon as there is a way to everyone. */
  #settle(): void {
    const hasWay = (peer: PeerId): boolean =>
      this.#plan.told.has(peer) || (this.#ways.get(peer)?.route ?? null) !== null;
    // It goes on with fewer connections where the others do not open in time.
    const isWhole = (peer: PeerId): boolean => {
      const way = this.#ways.get(peer);
      if (way?.route !== 'direct' || this.#options.now() >= way.deadlineMs) return true;
      return way.link.streams >= this.#plan.streamsTo(peer);
    };
    if (this.#waitingNext && [...this.#plan.wantedNext].every(hasWay)) {
      this.#waitingNext();
      this.#waitingNext = null;
    }
    if (!this.#waiting || ![...this.#plan.wanted].every((peer) => hasWay(peer) && isWhole(peer))) return;
    this.#waiting.resolve();
    this.#waiting = null;
  }
}
