/**
 * The other donors, as this tab's worker knows them: the server introduces them to each other, so there is a mesh from its
 * welcome on. It outlives the connection that brought it as long as this tab may be the same peer again.
 */

import type { PeerId } from '../../../swarm/base.ts';
import type { PeerMessage, ServerMessage } from '../../../swarm/messages/messages.ts';
import type { LinkMeasurement, MeasuredLinks } from '../../../swarm/messages/profile.ts';
import { modelToTrain } from '../../../swarm/run/runFile.ts';
import { sizesOf } from '../../../swarm/ways/partners.ts';
import type { OpenLink } from './link.ts';
import { Mesh } from './mesh.ts';
import type { MeshOptions } from './meshOptions.ts';
import { Reach } from './reach.ts';
import type { TurnAnswer } from './turnGathering.ts';

/** How often links are asked whether they live. */
export const PULSE_MS = 1_000;

interface NeighbourhoodOptions extends Pick<MeshOptions, 'onFrame'> {
  readonly openLink: OpenLink;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** To the server. */
  send(message: PeerMessage): void;
  /** To be relayed by the server. */
  sendBytes(message: Uint8Array<ArrayBuffer>): void;
  onLost(peer: PeerId): void;
  /** The ways to the peers of the plan, as a step begins with them, and when they have been opened. */
  onMeasured(measured: MeasuredLinks): void;
  /** Whether a link may be measured that nothing else is sent through. */
  mayMeasure(): Promise<boolean>;
}

/** Owns the links; `close()` ends them. */
export class Neighbourhood {
  readonly #options: NeighbourhoodOptions;
  #mesh: Mesh | null = null;
  #me: PeerId | null = null;
  #reach: Reach | null = null;
  /** Codes by their URLs, as the newest connection found them. */
  readonly #turnErrors = new Map<string, number>();
  /** With the server. */
  #isConnected = false;

  constructor(options: NeighbourhoodOptions) {
    this.#options = options;
  }

  /**
   * Every server message but `snapshot`, in order, before anyone else here hears it: a signal of the other end never comes too
   * early. `relayOnly`: no other donor may learn this tab's address, as it is when the server welcomes it.
   */
  serverSaid(message: ServerMessage, relayOnly: boolean): void {
    if (message.type === 'signal') {
      this.#mesh?.signalled(message.from, message.epoch, message.attempt ?? 0, message.data);
      return;
    }
    if (message.type === 'welcome') this.#welcome(message, relayOnly);
    const beginsWork = message.type === 'start' || message.type === 'evaluate';
    if (beginsWork) this.#mesh?.changeOver();
    const partners = this.#reach?.told(message) ?? null;
    if (partners !== null) this.#mesh?.allow(partners);
    // None of them changes during the step.
    if (beginsWork) this.#tellWays();
    if (message.type === 'probe') this.#mesh?.probeAsked(message.peer);
  }

  /** A binary message of the server: what it relays. */
  serverSentBytes(message: ArrayBuffer): void {
    this.#mesh?.onBytes(message);
  }

  /** Of connections that tensors need not go by: it is told with the ways to others. */
  turnAnswered(answers: readonly TurnAnswer[]): void {
    for (const { url, code } of answers) {
      if (code === null) this.#turnErrors.delete(url);
      else this.#turnErrors.set(url, code);
    }
  }

  disconnected(isKept: boolean): void {
    this.#isConnected = false;
    if (!isKept) this.close();
  }

  pulse(): void {
    this.#mesh?.pulse();
  }

  // What a session asks for (SessionParts).

  async sendFrame(...sent: Parameters<Mesh['send']>): Promise<void> {
    await this.#open().send(...sent);
  }

  async connect(...how: Parameters<Mesh['connect']>): Promise<void> {
    await this.#open().connect(...how);
    // A meeting counts by them what it sends; a step's are told anew.
    this.#tellWays();
  }

  async openAhead(...which: Parameters<Mesh['openAhead']>): Promise<void> {
    await this.#mesh?.openAhead(...which);
  }

  bar(peer: PeerId): void {
    this.#mesh?.bar(peer);
  }

  async openDirect(peer: PeerId, epoch: number): Promise<boolean> {
    const isReached = (await this.#mesh?.openDirect(peer, epoch)) === true;
    return isReached && (await this.#options.mayMeasure());
  }

  async measure(peer: PeerId, messages: readonly ArrayBuffer[]): Promise<LinkMeasurement | null> {
    return (await this.#mesh?.measure(peer, messages)) ?? null;
  }

  close(): void {
    this.#mesh?.close();
    this.#mesh = null;
    this.#reach = null;
  }

  #open(): Mesh {
    if (!this.#mesh) throw new Error('there is no connection to the swarm');
    return this.#mesh;
  }

  #tellWays(): void {
    const links = this.#mesh?.reports() ?? [];
    const upload = this.#mesh?.line.bytesPerSecond ?? null;
    const turnErrors = [...this.#turnErrors].map(([url, code]) => ({ url, code }));
    this.#options.onMeasured({
      links,
      ...(upload !== null && { uploadBytesPerSecond: upload }),
      ...(turnErrors.length > 0 && { turnErrors }),
    });
  }

  /** Under its old name this tab keeps its links. */
  #welcome(message: Extract<ServerMessage, { type: 'welcome' }>, relayOnly: boolean): void {
    this.#isConnected = true;
    // What the server had to relay is lost.
    if (this.#mesh !== null && this.#me === message.peer) this.#mesh.relay.restart();
    else this.#openMesh(message, relayOnly);
    this.#me = message.peer;
  }

  #openMesh({ peer: me, iceServers, run }: Extract<ServerMessage, { type: 'welcome' }>, relayOnly: boolean): void {
    this.close();
    this.#turnErrors.clear();
    const model = modelToTrain(run);
    if (model.ok) this.#reach = new Reach(me, sizesOf(model.value, run)); // else the session says so
    const { openLink, now, onFrame, onLost, send, sendBytes } = this.#options;
    this.#mesh = new Mesh({
      ...{ me, iceServers, openLink, now, relayOnly, onFrame, onLost },
      sendSignal: (to, epoch, attempt, data) => send({ type: 'signal', to, epoch, attempt, data }),
      sendBytes: (message) => {
        if (this.#isConnected) sendBytes(message);
        return this.#isConnected;
      },
    });
  }
}
