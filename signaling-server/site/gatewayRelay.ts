/**
 * Relayed frames of a run whose donors' WebSockets end at gateways: from the sender's gateway they go to the receiver's, or stay
 * within it where it is the same one. Who may send whom how much is the word of the process that leads (donors/relaysBeside.ts),
 * and is kept while nobody leads; what it has said nothing of goes to it. Windows and credits are the relay's own
 * (donors/relay.ts): the pipe to a receiver's gateway is to it what the receiver's socket would be.
 */
import type { PeerId } from '../../swarm/base.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { decodeEnvelope, type Envelope } from '../../swarm/messages/relay.ts';
import { granted } from '../donors/allowance.ts';
import { FRAME_COST, MessageBudget } from '../donors/messageBudget.ts';
import { Relay } from '../donors/relay.ts';
import type { SendersBeside, WaysBeside, WentBeside } from '../donors/relaysBeside.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { Exchange } from './exchange.ts';
import { encodeOpening } from './opening.ts';
import type { Pipe } from './pipe.ts';

/** The one message of a pipe to a receiver's gateway: an envelope for it. */
const ENVELOPE = 1;
/** What went by is told the process that leads so often, and at once where nothing did before. */
const TELL_MS = 1_000;
/** So long a receiver's gateway waits to hear that something may come from its sender. */
const AWAITED_MS = 10_000;

/** A donor's WebSocket that ends here. */
interface DonorSide {
  send(envelope: Uint8Array, taken: () => void): void;
  /** To the process that leads, where one does. */
  tell(went: WentBeside): void;
}

interface Coming extends Pick<Envelope, 'kind' | 'peer'> {
  readonly bytes: Uint8Array;
  readonly taken: () => void;
  readonly sinceMs: number;
}

interface Donor {
  readonly side: DonorSide;
  readonly budget: MessageBudget;
  peer: PeerId | null;
  readonly ways: Map<PeerId, { readonly gateway: string; readonly socket: number; bytesLeft: number }>;
  senders: ReadonlySet<PeerId>;
  /** Came before the word that it may. */
  awaiting: Coming[];
  /** Not told yet. */
  readonly sent: Map<PeerId, { frames: number; bytes: number }>;
  came: boolean;
  isTold: boolean;
}

/** At this process or another one. */
interface Receiver {
  readonly gateway: string;
  readonly socket: number;
  readonly pipe: Pipe | null;
}

export class GatewayRelay {
  readonly #exchange: Pick<Exchange, 'process' | 'open'>;
  readonly #run: string | null;
  readonly #relay: Relay;
  /** By the number of their sockets. */
  readonly #donors = new Map<number, Donor>();
  readonly #senders = new Map<PeerId, Donor>();
  readonly #receivers = new Map<PeerId, Receiver>();
  readonly #timer = setInterval(() => this.#look(), TELL_MS);

  constructor(exchange: Pick<Exchange, 'process' | 'open'>, run: string | null) {
    this.#exchange = exchange;
    this.#run = run;
    this.#relay = new Relay({
      isPair: (from, to) => this.#senders.get(from)?.ways.has(to) ?? false,
      take: (from, to, bytes) => this.#take(from, to, bytes),
      stepsSince: () => null,
    });
  }

  came(socket: number, side: DonorSide): void {
    this.#donors.set(socket, {
      ...{ side, budget: memberBudget(), peer: null, ways: new Map(), senders: new Set(), awaiting: [] },
      ...{ sent: new Map(), came: false, isTold: false },
    });
  }

  gone(socket: number): void {
    this.restart(socket);
    this.#donors.delete(socket);
    this.#dropUnused();
  }

  /** Its page begins anew, with whoever leads by now: nothing of what it was told before counts. */
  restart(socket: number): void {
    const donor = this.#donors.get(socket);
    if (donor === undefined) return;
    const { peer, awaiting } = donor;
    if (peer !== null && this.#senders.get(peer) === donor) {
      this.#senders.delete(peer);
      this.#receivers.delete(peer);
      this.#relay.gone(peer);
    }
    donor.peer = null;
    donor.ways.clear();
    donor.sent.clear();
    donor.came = false;
    donor.senders = new Set();
    donor.awaiting = [];
    for (const { taken } of awaiting) taken();
  }

  /** The process that leads says to whom it may send, and how much more than before. */
  toldWays(socket: number, { peer, ways }: WaysBeside): void {
    const donor = this.#donors.get(socket);
    if (donor === undefined) return;
    donor.peer = peer;
    this.#senders.set(peer, donor);
    this.#reach(peer, { gateway: this.#exchange.process, socket });
    const before = new Map(donor.ways);
    donor.ways.clear();
    for (const { to, gateway, socket, ...grant } of ways)
      donor.ways.set(to, { gateway, socket, bytesLeft: granted(before.get(to)?.bytesLeft ?? 0, grant) });
    if ([...before.keys()].some((to) => !donor.ways.has(to))) this.#dropUnused();
  }

  toldSenders(socket: number, { from }: SendersBeside): void {
    const donor = this.#donors.get(socket);
    if (donor === undefined) return;
    donor.senders = new Set(from);
    const { awaiting } = donor;
    donor.awaiting = [];
    for (const coming of awaiting) this.#deliver(donor, coming);
  }

  /** A binary message of a donor: 'passed', or why it is let go; null: the process that leads has to see to it. */
  accept(socket: number, message: Uint8Array): 'passed' | RefusalReason | null {
    const donor = this.#donors.get(socket);
    if (donor === undefined || donor.peer === null || this.#senders.get(donor.peer) !== donor) return null;
    const bytes = new Uint8Array(message);
    const decoded = decodeEnvelope(bytes);
    if (!decoded.ok || decoded.value.kind === 'credit') return null;
    const { kind, peer: to, content } = decoded.value;
    const way = donor.ways.get(to);
    if (way === undefined || (kind === 'frame' && way.bytesLeft < content.length)) return null;
    this.#reach(to, way);
    if (!this.#receivers.has(to)) return null;
    if (!donor.budget.may(FRAME_COST, monotonicMs())) return 'tooManyMessages';
    const reason = this.#relay.accept(donor.peer, bytes);
    if (reason !== null) return reason;
    if (kind === 'frame') this.#sent(donor, to, content.length);
    return 'passed';
  }

  /** Another gateway's pipe to a donor here; false: it is not here. */
  accepted(pipe: Pipe, socket: number): boolean {
    const donor = this.#donors.get(socket);
    if (donor === undefined) return false;
    pipe.read({
      onMessage: (_kind, message, taken) => {
        if (this.#donors.get(socket) === donor) this.#arrived(donor, message, taken);
        else taken();
      },
      onClosed: () => {},
    });
    return true;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const { pipe } of this.#receivers.values()) pipe?.reset();
    this.#receivers.clear();
  }

  #take(from: PeerId, to: PeerId, bytes: number): boolean {
    const way = this.#senders.get(from)?.ways.get(to);
    if (way === undefined || way.bytesLeft < bytes) return false;
    way.bytesLeft -= bytes;
    return true;
  }

  #connectHere(peer: PeerId, socket: number, donor: Donor): void {
    this.#receivers.get(peer)?.pipe?.end();
    this.#receivers.set(peer, { gateway: this.#exchange.process, socket, pipe: null });
    this.#relay.connected(peer, {
      sendBytes: (bytes, taken = () => {}) => this.#arrived(donor, bytes, taken),
    });
  }

  #arrived(donor: Donor, bytes: Uint8Array, taken: () => void): void {
    const decoded = decodeEnvelope(new Uint8Array(bytes));
    if (decoded.ok) this.#deliver(donor, { ...decoded.value, bytes, taken, sinceMs: monotonicMs() });
    else taken();
  }

  /** So that the relay has a receiver of this name, and it is this one. */
  #reach(to: PeerId, { gateway, socket }: { readonly gateway: string; readonly socket: number }): void {
    const known = this.#receivers.get(to);
    if (known?.gateway === gateway && known.socket === socket) return;
    known?.pipe?.end();
    this.#relay.gone(to);
    this.#receivers.delete(to);
    if (gateway === this.#exchange.process) {
      const donor = this.#donors.get(socket);
      if (donor !== undefined) this.#connectHere(to, socket, donor);
      return;
    }
    const named = this.#run === null ? {} : { run: this.#run };
    const pipe = this.#exchange.open(gateway, encodeOpening({ what: 'relay', socket, ...named }));
    const receiver = { gateway, socket, pipe };
    pipe.read({
      onMessage: (_kind, _message, taken) => taken(),
      onClosed: () => {
        if (this.#receivers.get(to) !== receiver) return;
        this.#receivers.delete(to);
        this.#relay.gone(to);
      },
    });
    this.#receivers.set(to, receiver);
    this.#relay.connected(to, { sendBytes: (envelope, taken) => pipe.send(ENVELOPE, envelope, taken) });
  }

  #deliver(donor: Donor, coming: Coming): void {
    const { kind, peer, bytes, taken } = coming;
    if (kind !== 'credit' && !donor.senders.has(peer)) {
      donor.awaiting.push(coming);
      return;
    }
    donor.side.send(bytes, taken);
    if (kind !== 'frame') return;
    donor.came = true;
    this.#tellFirst(donor);
  }

  #sent(donor: Donor, to: PeerId, bytes: number): void {
    const sent = donor.sent.get(to) ?? { frames: 0, bytes: 0 };
    donor.sent.set(to, { frames: sent.frames + 1, bytes: sent.bytes + bytes });
    this.#tellFirst(donor);
  }

  /** Whether anything went by is known at once. */
  #tellFirst(donor: Donor): void {
    if (!donor.isTold) this.#tell(donor);
    donor.isTold = true;
  }

  #tell(donor: Donor): void {
    const sent = [...donor.sent].map(([to, counts]) => ({ to, ...counts }));
    if (sent.length > 0 || donor.came) donor.side.tell({ sent, came: donor.came });
    donor.sent.clear();
    donor.came = false;
  }

  #look(): void {
    const nowMs = monotonicMs();
    for (const donor of this.#donors.values()) {
      this.#tell(donor);
      donor.isTold = false;
      const late = donor.awaiting.filter(({ sinceMs }) => nowMs - sinceMs > AWAITED_MS);
      if (late.length === 0) continue;
      donor.awaiting = donor.awaiting.filter((one) => !late.includes(one));
      for (const { taken } of late) taken();
    }
  }

  /** No pipe stays to whom nobody here may send anything any more. */
  #dropUnused(): void {
    const reached = new Set([...this.#senders.values()].flatMap(({ ways }) => [...ways.keys()]));
    for (const [to, { pipe }] of this.#receivers) {
      if (pipe === null || reached.has(to)) continue;
      this.#receivers.delete(to);
      this.#relay.gone(to);
      pipe.end();
    }
  }
}

function memberBudget(): MessageBudget {
  const budget = new MessageBudget(monotonicMs());
  budget.becomeMember();
  return budget;
}
