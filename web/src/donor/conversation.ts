/**
 * What a donor says and hears: with the server by its socket, with other donors by the mesh. The server introduces
 * donors to each other, so a mesh begins with a welcome. It outlives the connection that brought it as long as this tab may be the same
 * peer again.
 */
import type { PeerId, Random } from '../../../swarm/base.ts';
import type { PeerMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { sizesOf } from '../../../swarm/ways/partners.ts';
import { type OpenLink, openSimplePeerLink } from '../net/link.ts';
import { Mesh } from '../net/mesh.ts';
import { Reach } from '../net/reach.ts';
import { Signaling, type SignalingOptions, type SignalingState } from '../net/signaling.ts';
import { type DonorWebSocket, openWebSocket } from '../net/socket.ts';
import { withRun } from '../page/ofRun.ts';

const SOCKET_PATH = '/api/donor';

interface ConversationOptions
  extends Pick<SignalingOptions, 'adapter' | 'entry' | 'key' | 'limits' | 'wait' | 'onState'> {
  /** No other donor may learn this tab's address; as it is when the server welcomes it. */
  relayOnly(): boolean;
  /** All that the server says but other donors' signals. */
  onMessage(message: ServerMessage): void;
  onFrame(from: PeerId, message: ArrayBuffer): void;
  onLost(peer: PeerId): void;
}

/** What a conversation asks of its browser; a simulated one has no other. */
export interface Ports {
  open(): DonorWebSocket;
  readonly openLink: OpenLink;
  readonly random: Random;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
}

const BROWSER: Ports = {
  open: () => openWebSocket(withRun(SOCKET_PATH)),
  openLink: openSimplePeerLink,
  random: Math.random,
  now: () => performance.now(),
};

/** Owns the socket and the links; `close()` ends them. */
export class Conversation {
  readonly #options: ConversationOptions;
  readonly #ports: Ports;
  readonly #signaling: Signaling;
  #mesh: Mesh | null = null;
  #me: PeerId | null = null;
  #reach: Reach | null = null;

  constructor(options: ConversationOptions, ports: Ports = BROWSER) {
    this.#options = options;
    this.#ports = ports;
    const { adapter, entry, key, limits, wait } = options;
    this.#signaling = new Signaling({
      ...{ adapter, entry, key, limits, wait },
      ...{ open: ports.open, random: ports.random, now: ports.now },
      onState: (state) => this.#onState(state),
      onMessage: (message) => this.#onMessage(message),
      onBytes: (bytes) => this.#mesh?.onBytes(bytes),
    });
  }

  /** The ways to other donors; null while the server has not welcomed this one. */
  get mesh(): Mesh | null {
    return this.#mesh;
  }

  /** False where there is no connection now. */
  send(message: PeerMessage): boolean {
    return this.#signaling.send(message);
  }

  drop(): void {
    this.#signaling.drop();
  }

  close(): void {
    this.#signaling.close();
    this.#endMesh();
  }

  #onState(state: SignalingState): void {
    if (state.kind === 'closed' && !state.isKept) this.#endMesh();
    this.#options.onState(state);
  }

  #onMessage(message: ServerMessage): void {
    if (message.type === 'signal') {
      this.#mesh?.signalled(message.from, message.epoch, message.attempt ?? 0, message.data);
      return;
    }
    if (message.type === 'start' || message.type === 'evaluate') this.#mesh?.changeOver();
    if (message.type === 'welcome') this.#welcome(message);
    const partners = this.#reach?.told(message) ?? null;
    if (partners !== null) this.#mesh?.allow(partners);
    if (message.type === 'probe') this.#mesh?.probeAsked(message.peer);
    this.#options.onMessage(message);
  }

  /** Under its old name this tab keeps its links. */
  #welcome(message: Extract<ServerMessage, { type: 'welcome' }>): void {
    // What the server had to relay is lost.
    if (this.#mesh !== null && this.#me === message.peer) this.#mesh.relay.restart();
    else this.#openMesh(message);
    this.#me = message.peer;
  }

  #openMesh({ peer: me, iceServers, run }: Extract<ServerMessage, { type: 'welcome' }>): void {
    this.#endMesh();
    const model = modelFromConfig(run.model);
    if (model.ok) this.#reach = new Reach(me, sizesOf(model.value, run)); // else the worker says so
    const { relayOnly, onFrame, onLost } = this.#options;
    this.#mesh = new Mesh({
      me,
      iceServers,
      ...{ openLink: this.#ports.openLink, now: this.#ports.now },
      relayOnly: relayOnly(),
      sendSignal: (to, epoch, attempt, data) => void this.send({ type: 'signal', to, epoch, attempt, data }),
      sendBytes: (message) => this.#signaling.sendBytes(message),
      onFrame,
      onLost,
    });
  }

  #endMesh(): void {
    this.#mesh?.close();
    this.#mesh = null;
    this.#reach = null;
  }
}
