/** WebSockets of a simulation: the donor's end is what `Signaling` uses, the server's end is handed to who listens. */
import type { DonorWebSocket } from '../../net/socket.ts';
import type { Process } from './machine.ts';
import type { Line, Network } from './network.ts';

export type SocketData = string | ArrayBuffer;

/** The server's end. */
export interface Accepted {
  onMessage: (data: SocketData) => void;
  /** The donor's end closed. */
  onClosed: () => void;
  /** Nothing comes any more, and nobody said why. */
  onBroken: () => void;
  send(data: SocketData, what: string): void;
  close(): void;
}

export interface Listener {
  readonly process: Process;
  accept(socket: Accepted): void;
}

/** `listener`: who listens at this moment; null: nobody does. */
const nameOf = (data: SocketData): string =>
  typeof data === 'string' ? (/"type":"(\w+)"/.exec(data)?.[1] ?? 'text') : 'envelope';

export class VirtualSocket implements DonorWebSocket {
  binaryType: BinaryType = 'arraybuffer';
  onopen: DonorWebSocket['onopen'] = null;
  onmessage: DonorWebSocket['onmessage'] = null;
  onclose: DonorWebSocket['onclose'] = null;
  readonly #network: Network;
  readonly #client: Process;
  #up: Line | null = null;
  #accepted: Accepted | null = null;
  #isClosed = false;
  #isBroken = false;

  constructor(network: Network, client: Process, listener: () => Listener | null) {
    this.#network = network;
    this.#client = client;
    client.after(network.delayMs(), () => {
      const listening = listener();
      if (listening === null) this.#closed();
      else if (!this.#isClosed) this.#meet(listening);
    });
  }

  send(data: string | Uint8Array<ArrayBuffer>): void {
    const copy = typeof data === 'string' ? data : data.slice().buffer;
    this.#up?.carry(nameOf(copy), () => {
      if (!this.#isBroken) this.#accepted?.onMessage(copy);
    });
  }

  /** What is on its way is lost. The donor's end hears of it; the server's as well, or not before it misses what should come. */
  break(isNoticed: boolean): void {
    if (this.#isClosed || this.#isBroken) return;
    this.#isBroken = true;
    this.#client.after(this.#network.delayMs(), () => this.#closed());
    if (isNoticed) this.#up?.carry('socket broken', () => this.#accepted?.onBroken());
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#up?.carry('socket closed', () => {
      if (!this.#isBroken) this.#accepted?.onClosed();
    });
  }

  #meet({ process, accept }: Listener): void {
    const up = this.#network.line(this.#client.machine, process);
    const down = this.#network.line(process.machine, this.#client);
    let isOpen = true;
    const accepted: Accepted = {
      onMessage: () => {},
      onClosed: () => {},
      onBroken: () => {},
      send: (data, what) => {
        if (isOpen) down.carry(what, () => this.#message(data));
      },
      close: () => {
        if (isOpen) down.carry('socket closed', () => this.#closed());
        isOpen = false;
      },
    };
    this.#up = up;
    this.#accepted = accepted;
    up.carry('socket opened', () => {
      accept(accepted);
      down.carry('socket opened', () => {
        if (!this.#isClosed) this.onopen?.(new Event('open'));
      });
    });
  }

  #message(data: SocketData): void {
    if (!this.#isClosed && !this.#isBroken) this.onmessage?.(new MessageEvent('message', { data }));
  }

  #closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onclose?.({} as CloseEvent); // nobody reads it
  }
}
