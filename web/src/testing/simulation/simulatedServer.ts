/**
 * The server of a simulation: the product's decisions behind sockets, relay and files as short as they can be, and a disk
 * that outlives it. Each effect is performed before the next one; killed between two of them, it leaves the disk as it is.
 */
import { got, invariant, type PeerId, peerId, type Result, refusal } from '../../../../swarm/base.ts';
import { isPair } from '../../../../swarm/coordinator/blame.ts';
import { SILENCE } from '../../../../swarm/coordinator/deadlines.ts';
import type { Pair } from '../../../../swarm/coordinator/events.ts';
import { mayReturn } from '../../../../swarm/coordinator/returning.ts';
import { missedBy } from '../../../../swarm/coordinator/successor.ts';
import type { DecisionConfig, DecisionEffect, DecisionEvent } from '../../../../swarm/decisions/events.ts';
import { NO_LIMITS } from '../../../../swarm/limits.ts';
import { decodeFrame } from '../../../../swarm/messages/frame.ts';
import {
  decodePeerMessage,
  type HelloMessage,
  type PeerMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
} from '../../../../swarm/messages/messages.ts';
import { retrySeconds } from '../../../../swarm/messages/refusals.ts';
import { creditContent, decodeEnvelope, encodeEnvelope } from '../../../../swarm/messages/relay.ts';
import type { RunFacts } from '../../../../swarm/messages/runFacts.ts';
import { Spoken } from '../../../../swarm/messages/spoken.ts';
import type { Recording } from '../../../../swarm/recording/recording.ts';
import type { RehearsedEffect } from '../../../../swarm/testing/decider.ts';
import { happen, type Rehearsal, rehearseDecisions, restart } from '../../../../swarm/testing/rehearsal.ts';
import { WentBy } from '../../../../swarm/ways/wentBy.ts';
import type { Disk } from './disk.ts';
import type { Flaw } from './flaws.ts';
import { Machine, Process } from './machine.ts';
import type { Network } from './network.ts';
import type { Accepted, Listener, SocketData } from './sockets.ts';

const RESTART_MS = 2_000;
const SEARCH_MS = 80;
/** A server that came back waits so long for the donors that it expects. */
const GATHERING_MS = 10_000;

type Search = Extract<DecisionEffect, { type: 'search' }>;
type Searched = Extract<DecisionEvent, { type: 'searched' }>;

interface Connected {
  readonly peer: PeerId;
  /** The newest. */
  socket: Accepted;
  readonly hello: HelloMessage;
  readonly spoken: Spoken<string>;
  isMeasured: boolean;
  /** Its connection broke. */
  isAway: boolean;
  /** By the server's own looks: while it stood still itself nobody was silent. */
  silentMs: number;
}

interface ServerOptions {
  readonly network: Network;
  readonly config: DecisionConfig;
  readonly facts: RunFacts;
  readonly disk: Disk;
  readonly recording: Recording | null;
  readonly flaw: Flaw;
  /** What a search for a plan comes to. */
  search(wanted: Search): Searched['found'];
  /** Told of each effect, right before it is performed and after it is stored. */
  onEffect(effect: RehearsedEffect): void;
  /** Of what a donor says to the run. */
  onSaid(peer: PeerId, message: PeerMessage): void;
}

export class SimulatedServer {
  readonly machine: Machine;
  readonly run: Rehearsal;
  readonly disk: Disk;
  readonly #options: ServerOptions;
  readonly #connected = new Map<PeerId, Connected>();
  /** Frames of the plan in force go by the sockets of these. */
  readonly #relaying = new Set<PeerId>();
  /** Of the epoch in progress: between whom frames are looked at, and which went by. */
  #watched: { readonly epoch: number; readonly pairs: readonly Pair[]; readonly wentBy: WentBy } | null = null;
  #process: Process;
  #names = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.disk = options.disk;
    this.machine = new Machine(options.network.agenda);
    this.#process = new Process(this.machine);
    this.run = rehearseDecisions(options.config, options.recording, false);
    const { flaw } = options;
    const { decider } = this.run;
    const decide = decider.decide.bind(decider);
    if (flaw.effects) decider.decide = (...of) => flaw.effects?.(decide(...of)) ?? [];
    this.#findSilent();
  }

  /** Null: it is dead. */
  get listener(): Listener | null {
    return this.#process.isAlive ? { process: this.#process, accept: (socket) => this.#accept(socket) } : null;
  }

  /** At this instant; it comes back from its disk. */
  kill(): void {
    if (!this.#process.isAlive) return;
    this.#process.end();
    for (const { socket } of this.#connected.values()) socket.close();
    this.#connected.clear();
    this.machine.agenda.after(RESTART_MS, () => {
      this.#process = new Process(this.machine);
      restart(this.run, true);
      this.#findSilent();
      this.#setTimer();
      this.#process.after(GATHERING_MS, () => this.#happened({ type: 'gatheringEnded' }));
    });
  }

  /** An HTTP call of this donor; what it reads or writes. */
  files(token: string, url: URL, body: Float32Array | null): Result<ArrayBuffer | string> {
    const isKnown = this.#connected.get(peerId(token))?.isMeasured === true;
    return isKnown ? this.disk.call(url, body) : refusal('401');
  }

  #accept(socket: Accepted): void {
    let connected: Connected | null = null;
    // Another one may have taken its place.
    const current = (): Connected | null => (connected?.socket === socket ? connected : null);
    socket.onMessage = (data) => {
      const from = current();
      if (from !== null) this.#received(from, data);
      else connected ??= this.#greet(socket, data);
    };
    socket.onClosed = () => this.#gone(current()?.peer ?? null, 'its connection closed');
    socket.onBroken = () => this.#broke(current());
  }

  #greet(socket: Accepted, data: SocketData): Connected {
    const hello = decoded(data);
    invariant(hello.type === 'hello', 'a donor says hello first');
    const still = this.#goesOn(hello, socket);
    if (still !== null) return still;
    const peer = this.#returning(hello) ?? peerId(`d${this.#names++}`);
    const spoken = new Spoken<string>();
    const connected = { peer, socket, hello, spoken, isMeasured: false, isAway: false, silentMs: 0 };
    this.#connected.set(peer, connected);
    this.#welcome(connected, null);
    return connected;
  }

  #welcome(to: Connected, heard: number | null): void {
    const { generation, epoch, committedSteps, lastCommit } = this.run.state;
    const { peer } = to;
    const memory = { draftedBytes: 0, known: null };
    this.#send(to, {
      ...{ type: 'welcome', protocol: PROTOCOL_VERSION, peer, token: peer, run: this.#options.facts, iceServers: [] },
      ...{ resumeKey: keyOf(peer), heard, generation, epoch, committedSteps, lastCommit, memory },
    });
  }

  /** What `Reception` has: the same conversation, on another socket. */
  #goesOn({ resume }: HelloMessage, socket: Accepted): Connected | null {
    const known = resume && this.#connected.get(resume.peer);
    if (!resume || !known) return null;
    known.socket.close();
    const unheard = known.spoken.unheard(resume.heard);
    if (unheard === null || !this.#mayBreak(known)) {
      this.#gone(known.peer, 'its connection broke');
      return null;
    }
    Object.assign(known, { socket, isAway: false, silentMs: 0 });
    this.#welcome(known, known.spoken.heard);
    for (const text of unheard) socket.send(text, 'again');
    return known;
  }

  #mayBreak({ peer, isMeasured }: Connected): boolean {
    return isMeasured && missedBy(this.run.state, peer) !== null && !this.#relaying.has(peer);
  }

  #broke(from: Connected | null): void {
    if (from === null) return;
    if (!this.#mayBreak(from)) this.#gone(from.peer, 'its connection broke');
    else Object.assign(from, { isAway: true, silentMs: 0 });
  }

  #returning({ resume }: HelloMessage): PeerId | null {
    if (resume?.key !== undefined && resume.key !== keyOf(resume.peer)) throw new Error('a donor says its own key');
    const may = resume !== undefined && mayReturn(this.run.state, resume.peer) && !this.#connected.has(resume.peer);
    return may ? resume.peer : null;
  }

  #received(from: Connected, data: SocketData): void {
    if (this.#connected.get(from.peer) !== from) return;
    from.silentMs = 0;
    if (typeof data !== 'string') {
      this.#relay(from.peer, new Uint8Array(data));
      return;
    }
    const said = decoded(data);
    const message = this.#options.flaw.heard?.(said) ?? said;
    if (message.type === 'heartbeat') from.spoken.confirm(message.heard ?? 0);
    else from.spoken.heard += 1;
    switch (message.type) {
      case 'hello':
        throw new Error('a donor says hello once');
      case 'heartbeat':
        if (message.at) this.#happened({ type: 'donorSaid', peer: from.peer, message });
        return;
      case 'measured': {
        from.isMeasured = true;
        const { peer, hello } = from;
        this.#happened({
          ...{ type: 'donorJoined', peer, adapter: hello.adapter, limits: hello.limits ?? NO_LIMITS },
          ...{ profile: message.profile, rememberedAs: null, remembered: null, address: peer, isOwn: false },
        });
        return;
      }
      case 'signal': {
        const { to, ...signal } = message;
        const other = this.#connected.get(to);
        if (other) this.#send(other, { ...signal, from: from.peer });
        return;
      }
      case 'answered':
      case 'unanswered':
        return;
      default:
        this.#options.onSaid(from.peer, message);
        this.#happened({ type: 'donorSaid', peer: from.peer, message });
    }
  }

  #relay(from: PeerId, message: Uint8Array<ArrayBuffer>): void {
    const envelope = decodeEnvelope(message);
    invariant(envelope.ok, 'a donor sends envelopes');
    const { kind, peer: to, content } = envelope.value;
    if (kind === 'frame') {
      this.#relaying.add(from).add(to);
      this.#look(from, to, content);
    }
    this.#connected.get(to)?.socket.send(encodeEnvelope(kind, from, content).buffer, `relayed ${kind}`);
    if (kind !== 'frame') return;
    const credit = encodeEnvelope('credit', to, creditContent(content.length)).buffer;
    this.#connected.get(from)?.socket.send(credit, 'relayed credit');
  }

  #look(from: PeerId, to: PeerId, content: Uint8Array<ArrayBuffer>): void {
    const frame = decodeFrame(content.slice().buffer);
    if (!this.#watched || !isPair(this.#watched.pairs, from, to) || !frame.ok) return;
    const isArriving = this.run.state.phase.name === 'preparing';
    if (frame.value.epoch === this.#watched.epoch)
      this.#watched.wentBy.saw(from, to, frame.value, isArriving ? null : 0);
  }

  #send({ socket, spoken, isAway }: Connected, message: ServerMessage): void {
    const text = JSON.stringify(message);
    if (message.type !== 'welcome') spoken.say(text, Infinity);
    if (!isAway) socket.send(text, message.type);
  }

  #gone(peer: PeerId | null, detail: string): void {
    const connected = peer && this.#connected.get(peer);
    if (!connected) return;
    const { peer: gone } = connected;
    this.#connected.delete(gone);
    connected.socket.close();
    if (connected.isMeasured) this.#happened({ type: 'donorGone', peer: gone, detail });
  }

  /** Whoever was silent for too long is gone. */
  #findSilent(): void {
    for (const one of [...this.#connected.values()]) {
      one.silentMs += SILENCE.lookMs;
      const limitMs = one.isMeasured ? SILENCE.donorMs : SILENCE.strangerMs;
      if (one.silentMs > limitMs) this.#gone(one.peer, 'it was silent for too long');
    }
    this.#process.after(SILENCE.lookMs, () => this.#findSilent());
  }

  #happened(event: DecisionEvent): void {
    happen(this.run, event, this.#process.now(), (effect) => this.#perform(effect));
    if (this.#process.isAlive) this.#setTimer();
  }

  #setTimer(): void {
    const { deadline } = this.run.decider;
    if (deadline === null) return;
    const process = this.#process;
    process.after(deadline - process.now(), () => {
      const due = this.run.decider.deadline;
      if (due !== null && process.now() >= due) this.#happened({ type: 'deadlineReached' });
    });
  }

  /** False: the server is dead, and does nothing more. */
  #perform(effect: RehearsedEffect): boolean {
    this.#options.onEffect(effect);
    if (!this.#process.isAlive) return false;
    switch (effect.type) {
      case 'storeEpoch':
        this.#relaying.clear();
        this.#watched = { epoch: effect.epoch, pairs: effect.relayed, wentBy: new WentBy() };
        break;
      case 'relayAsked': {
        if (this.#watched === null) break;
        const { epoch, wentBy } = this.#watched;
        const { whole, moved } = wentBy;
        this.#process.after(0, () => this.#happened({ type: 'relaySaw', epoch, whole, moved, full: [] }));
        break;
      }
      case 'send':
        this.#send(got(this.#connected, effect.to), effect.message);
        break;
      case 'refuse': {
        const { peer, reason, detail } = effect;
        const connected = got(this.#connected, peer);
        this.#connected.delete(peer);
        this.#send(connected, { type: 'refused', reason, detail, retrySeconds: retrySeconds(reason, () => 0) });
        connected.socket.close();
        break;
      }
      case 'storeCheckpoint':
        this.disk.checkpoints.set(effect.step, effect.shards);
        break;
      case 'compareCopy': {
        // Whole numbers have no rounding.
        const { epoch, step, key, keeper } = effect;
        this.#process.after(0, () => this.#happened({ type: 'copyCompared', epoch, step, key, keeper, isNear: false }));
        break;
      }
      case 'search': {
        const found = this.#options.search(effect);
        this.#process.after(SEARCH_MS, () => this.#happened({ type: 'searched', search: effect.search, found }));
        break;
      }
    }
    return true;
  }
}

const keyOf = (peer: PeerId): string => `key of ${peer}`;

function decoded(data: SocketData): PeerMessage {
  invariant(typeof data === 'string', 'a donor says hello first');
  const message = decodePeerMessage(data);
  invariant(message.ok, `a donor says what the schema has: ${data.slice(0, 300)}`);
  return message.value;
}
