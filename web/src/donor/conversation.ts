/**
 * What of a donor's talk with others only its page can do: it holds the socket to the server, and makes the connections to
 * other donors for its worker. Fetched with the click: the first view is there sooner without it.
 */
import type { CallNews } from '../net/calls.ts';
import { canMoveChannels, PageCalls } from '../net/calls.ts';
import { dialPeer } from '../net/peerConnection.ts';
import { Signaling, type SignalingOptions } from '../net/signaling.ts';
import { openWebSocket } from '../net/socket.ts';
import { withRun } from '../page/ofRun.ts';

const SOCKET_PATH = '/api/donor';

interface ConversationOptions extends Omit<SignalingOptions, 'open' | 'random' | 'now'> {
  /** What became of a connection that the worker asked for. */
  onCall(id: number, news: CallNews): void;
}

/** Owns socket and connections; `close()` ends them. */
export class Conversation {
  readonly calls: PageCalls;
  readonly #signaling: Signaling;

  constructor({ onCall, ...options }: ConversationOptions) {
    this.calls = new PageCalls(dialPeer, canMoveChannels(), onCall);
    this.#signaling = new Signaling({
      ...options,
      open: () => openWebSocket(withRun(SOCKET_PATH)),
      random: Math.random,
      now: () => performance.now(),
    });
  }

  /** False where there is no connection now. */
  send(message: Parameters<Signaling['send']>[0]): boolean {
    return this.#signaling.send(message);
  }

  sendBytes(message: Uint8Array<ArrayBuffer>): void {
    this.#signaling.sendBytes(message);
  }

  drop(): void {
    this.#signaling.drop();
  }

  close(): void {
    this.#signaling.close();
    this.calls.close();
  }
}
