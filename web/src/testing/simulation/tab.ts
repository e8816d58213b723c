/**
 * A donor of a simulation: the product's session, signaling, neighbourhood and inbox, with a simulated worker, GPU, network
 * and files around them. It stands where `donor.ts` and `worker.ts` do, without a page to show.
 */
import { type PeerId, type Random, seededRandom } from '../../../../swarm/base.ts';
import { type Limits, NO_LIMITS } from '../../../../swarm/limits.ts';
import { HEARTBEAT_MS, type PeerMessage, type ServerMessage } from '../../../../swarm/messages/messages.ts';
import type { Profile } from '../../../../swarm/messages/profile.ts';
import { ADAPTER } from '../../../../swarm/testing/rehearsalTerms.ts';
import { runFiles } from '../../executor/runFiles.ts';
import { Session } from '../../executor/session.ts';
import { Neighbourhood, PULSE_MS } from '../../net/neighbourhood.ts';
import { Signaling, type SignalingState } from '../../net/signaling.ts';
import { Device } from './device.ts';
import { exactEngine } from './exactEngine.ts';
import type { Witness } from './exactShards.ts';
import type { TabFlaw } from './flaws.ts';
import type { LinkSwitch, VirtualLink } from './links.ts';
import { type Machine, Process } from './machine.ts';
import type { Line, Network } from './network.ts';
import type { Pace } from './pace.ts';
import type { SimulatedServer } from './simulatedServer.ts';
import { VirtualSocket } from './sockets.ts';

/** Whatever a plan has in main memory, everyone gives. */
const LIMITS: Limits = { ...NO_LIMITS, hostBytes: 2 ** 30 };

const MEASURING_MS = 300;
const RESTART_MS = 1_000;

const PROFILE: Profile = {
  layers: [
    { samples: 1, forwardSeconds: 0.001, backwardSeconds: 0.002 },
    { samples: 2, forwardSeconds: 0.002, backwardSeconds: 0.004 },
  ],
  memoryBytes: 2 ** 30,
  memoryTriedBytes: 2 ** 30,
  checkedKernels: 0,
};

/** What a hostile donor does in place of what its page does. */
export interface Malice {
  /** False: it keeps this frame back. */
  sends(to: PeerId, frame: ArrayBuffer): boolean;
  /** False: it takes it for not received. */
  takes(from: PeerId, frame: ArrayBuffer): boolean;
  /** Null: nothing. */
  says(message: PeerMessage): PeerMessage | null;
}

interface TabOptions {
  readonly network: Network;
  readonly links: LinkSwitch;
  readonly server: SimulatedServer;
  readonly machine: Machine;
  readonly witness: Witness;
  readonly seed: number;
  readonly flaw: TabFlaw;
  readonly isOrdered: boolean;
  readonly pace: Pace | null;
  /** Between page and worker a word takes its time; else it is heard at once. */
  readonly isBehind: boolean;
}

/** One way between a page and its worker. */
type Hop = (act: () => void) => void;
const HOP_MOST_MS = 20;
/** One that computes is behind by so much now and then. */
const BUSY = { chance: 0.02, mostMs: 1_000 };

export class Tab {
  readonly machine: Machine;
  /** As the server names it on this connection. */
  peer: PeerId | null = null;
  /** Nobody will hear of it again. */
  hasEnded = false;
  /** Null: it is honest. */
  malice: Malice | null = null;
  readonly #options: TabOptions;
  readonly #random: Random;
  #process: Process;
  #device: Device;
  #signaling: Signaling;
  #socket: VirtualSocket | null = null;
  /** No connection to the server is made until then. */
  #shutUntilMs = 0;

  constructor(options: TabOptions) {
    this.#options = options;
    this.machine = options.machine;
    this.#random = seededRandom(options.seed);
    [this.#process, this.#device, this.#signaling] = this.#begin();
  }

  /** The browser is killed: the system closes its sockets, or the machine takes everything with it. */
  kill(isSilent: boolean): void {
    this.hasEnded = true;
    if (!isSilent) this.#socket?.break(true);
    this.#end(isSilent);
  }

  /** Its connection to the server breaks, and the next one can be made after a while; its links live on. */
  loseSocket(ms: number, isNoticed: boolean): void {
    this.#shutUntilMs = this.machine.agenda.nowMs + ms;
    this.#socket?.break(isNoticed);
  }

  /** Its button, pressed. */
  leave(): void {
    this.#signaling.send({ type: 'leave' });
  }

  owns({ process }: VirtualLink): boolean {
    return process === this.#process;
  }

  hang(): void {
    this.#device.hangs = true;
  }

  /** The worker ends and begins anew, as a lost device has it. */
  loseDevice(): void {
    this.#end(false);
    this.#beginAfter(RESTART_MS);
  }

  #beginAfter(ms: number): void {
    this.machine.agenda.after(ms, () => {
      if (!this.hasEnded) [this.#process, this.#device, this.#signaling] = this.#begin();
    });
  }

  #end(isSilent: boolean): void {
    this.peer = null;
    this.#process.end();
    this.#options.links.tabEnded(this.#process, isSilent);
    if (!isSilent) this.#socket?.close();
  }

  #begin(): [Process, Device, Signaling] {
    const { network, links, server, witness, flaw, isOrdered, pace } = this.#options;
    const process = new Process(this.machine);
    const device = new Device(process);
    const send = (message: PeerMessage): void => {
      const said = this.malice ? this.malice.says(message) : message;
      if (said !== null) signaling.send(said);
    };
    const hops = seededRandom(this.#options.seed);
    const [toPage, toWorker] = [this.#hop(process, hops), this.#hop(process, hops)];
    const ways = new Neighbourhood({
      openLink: links.opener(process),
      now: process.now,
      send: (message) => toPage(() => signaling.send(message)),
      sendBytes: (message) => toPage(() => signaling.sendBytes(message)),
      onFrame: (from, message) => {
        if (this.malice?.takes(from, message) === false) return;
        for (const frame of flaw.frames?.(message) ?? [message]) session.peerSent(from, frame);
      },
      onLost: (peer) => session.linkLost(peer),
      onMeasured: ({ links }) => session.linksMeasured({ links }),
      mayMeasure: async () => true,
    });
    const session: Session = new Session({
      page: {
        sendServer: (message) => {
          const said = flaw.said ? flaw.said(message, (heard) => session.serverSaid(heard)) : message;
          if (said !== null) toPage(() => send(said));
        },
        showStatus: () => {},
        mayAnswer: async () => false,
      },
      ways: {
        sendFrame: async (peer, message, hasLeft) => {
          if (this.malice?.sends(peer, message) !== false) await ways.sendFrame(peer, message, hasLeft);
        },
        connect: (...how) => ways.connect(...how),
        openAhead: (...which) => ways.openAhead(...which),
        bar: (peer) => ways.bar(peer),
        openDirect: (...which) => ways.openDirect(...which),
        measure: (...what) => ways.measure(...what),
      },
      engine: (model) => {
        const engine = exactEngine(device, witness, model, {
          ...{ ...flaw, isOrdered },
          ...(pace && { pace: pace.of(() => this.peer) }),
        });
        return flaw.engine?.(engine) ?? engine;
      },
      files: (token) =>
        runFiles(this.#fetcher(process, token), new URL('http://server/'), token, (ms) => process.wait(ms)),
      now: () => process.now() / 1_000,
      wait: (seconds) => process.wait(1_000 * seconds),
    });
    const signaling: Signaling = new Signaling({
      adapter: ADAPTER,
      entry: { invite: null, own: null },
      key: null,
      limits: () => LIMITS,
      wait: (ms) => process.wait(ms),
      random: this.#random,
      now: process.now,
      open: () => {
        const isShut = (): boolean => this.machine.agenda.nowMs < this.#shutUntilMs;
        this.#socket = new VirtualSocket(network, process, () => (isShut() ? null : server.listener));
        return this.#socket;
      },
      onState: (state) =>
        this.#onState(state, (isKept) =>
          toWorker(() => {
            ways.disconnected(isKept);
            session.disconnected(isKept);
          }),
        ),
      onMessage: (message) => this.#onMessage(message, process, session, ways, toWorker),
      onBytes: (bytes) => toWorker(() => ways.serverSentBytes(bytes)),
    });
    this.#every(process, PULSE_MS, () => ways.pulse());
    this.#every(process, HEARTBEAT_MS, () => {
      const at = session.progress();
      send({ type: 'heartbeat', ...(at && { at }) });
    });
    return [process, device, signaling];
  }

  #every(process: Process, ms: number, act: () => void): void {
    process.after(ms, () => {
      act();
      this.#every(process, ms, act);
    });
  }

  /** From the page to its worker, or back: in order. */
  #hop(process: Process, random: Random): Hop {
    if (!this.#options.isBehind) return (act) => act();
    let arrivesMs = 0;
    return (act) => {
      const { nowMs } = this.machine.agenda;
      const mostMs = random() < BUSY.chance ? BUSY.mostMs : HOP_MOST_MS;
      arrivesMs = Math.max(arrivesMs, nowMs + mostMs * random());
      process.after(arrivesMs - nowMs, act);
    };
  }

  #onState(state: SignalingState, disconnected: (isKept: boolean) => void): void {
    if (state.kind === 'closed') {
      this.peer = null;
      disconnected(state.isKept);
    }
    if (state.kind !== 'refused') return;
    this.malice = null;
    this.#end(false);
    if (state.retrySeconds === null) this.hasEnded = true;
    else this.#beginAfter(1_000 * state.retrySeconds);
  }

  #onMessage(message: ServerMessage, process: Process, session: Session, ways: Neighbourhood, toWorker: Hop): void {
    if (message.type !== 'snapshot') toWorker(() => ways.serverSaid(message, false));
    if (message.type === 'signal') return;
    const { told } = this.#options.flaw;
    const heard = told ? told(message) : message;
    if (message.type === 'welcome') this.peer = message.peer;
    if (heard !== null && heard.type !== 'snapshot')
      toWorker(() => {
        const isStill = message.type === 'welcome' && session.isStill(message.peer);
        session.serverSaid(heard);
        if (message.type !== 'welcome' || isStill) return;
        process.after(MEASURING_MS, () => {
          if (this.peer === message.peer) session.measured(PROFILE);
        });
      });
    if (message.type === 'standby' && message.state === 'left') {
      this.hasEnded = true;
      this.#end(false);
    }
  }

  /** What the run's files need of `fetch`. */
  #fetcher(process: Process, token: () => string): typeof fetch {
    const { network, server } = this.#options;
    const ask = (url: URL, init: RequestInit): Promise<Response> =>
      new Promise((resolve, reject) => {
        const listening = server.listener;
        if (listening === null) {
          process.after(network.delayMs(), () => reject(new TypeError('Failed to fetch')));
          return;
        }
        const up: Line = network.line(this.machine, listening.process);
        const down = network.line(server.machine, process);
        const body = init.body instanceof Float32Array ? Float32Array.from(init.body) : null;
        up.carry(body ? 'upload' : 'fetch', () => {
          const found = server.files(token(), url, body);
          const status = found.ok ? 200 : Number(found.reason);
          const answer = {
            ...{ ok: found.ok, status, statusText: '' },
            arrayBuffer: async () => (found.ok ? found.value : null),
            json: async () => JSON.parse(found.ok ? String(found.value) : ''),
          };
          down.carry(body ? 'uploaded to' : 'fetched', () => resolve(answer as unknown as Response));
        });
        // A server that dies ends its calls.
        process.after(30_000, () => reject(new TypeError('Failed to fetch')));
      });
    return (url, init = {}) => ask(url as URL, init);
  }
}
