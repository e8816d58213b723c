/**
 * A data channel that a browser does not let out of its page, for the page's worker: a port on each side, and messages
 * that are handed over, not copied. At the worker's side it is a channel like any other, whose `bufferedAmount` counts
 * what is on its way to the page too.
 */
import type { FlowChannel } from './flow.ts';

/** What a connection needs of an RTCDataChannel. */
export interface DataChannel extends FlowChannel {
  readonly readyState: RTCDataChannelState;
  binaryType: BinaryType;
  send(message: ArrayBuffer | string): void;
  addEventListener(type: 'bufferedamountlow' | 'open', listener: () => void): void;
  addEventListener(type: 'message', listener: (event: MessageEvent) => void): void;
}

type Message = ArrayBuffer | string;
type ToPage = { readonly send: Message } | { readonly threshold: number };
type ToWorker =
  | { readonly state: RTCDataChannelState }
  | { readonly message: Message }
  /** `sent`: messages that the channel has taken so far. */
  | { readonly buffered: number; readonly sent: number };

const moved = (message: Message): Transferable[] => (message instanceof ArrayBuffer ? [message] : []);
const bytesOf = (message: Message): number => (message instanceof ArrayBuffer ? message.byteLength : message.length);

/** The page's side; the port is for the worker. */
export function portTo(channel: RTCDataChannel): MessagePort {
  const { port1: own, port2: given } = new MessageChannel();
  const tell = (news: ToWorker, transfer: Transferable[] = []): void => own.postMessage(news, transfer);
  let sent = 0;
  const tellBuffered = (): void => tell({ buffered: channel.bufferedAmount, sent });
  channel.binaryType = 'arraybuffer';
  for (const type of ['open', 'closing', 'close'] as const)
    channel.addEventListener(type, () => tell({ state: channel.readyState }));
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => tell({ message: data }, moved(data)));
  channel.addEventListener('bufferedamountlow', tellBuffered);
  own.onmessage = ({ data }: MessageEvent<ToPage>) => {
    if ('threshold' in data) {
      channel.bufferedAmountLowThreshold = data.threshold;
      return;
    }
    sent += 1;
    // What comes too late is lost with the channel, as what it still held.
    if (channel.readyState === 'open') channel.send(data.send as ArrayBuffer);
    tellBuffered();
  };
  return given;
}

/** The worker's side. */
export class PortChannel implements DataChannel {
  readyState: RTCDataChannelState = 'connecting';
  binaryType: BinaryType = 'arraybuffer';
  readonly #port: MessagePort;
  readonly #events = new EventTarget();
  #threshold = 0;
  /** As the page said last. */
  #buffered = 0;
  /** Of messages that it has not taken yet, oldest first. */
  readonly #onTheWay: number[] = [];
  #onTheWayBytes = 0;
  #sent = 0;

  constructor(port: MessagePort) {
    this.#port = port;
    port.onmessage = ({ data }: MessageEvent<ToWorker>) => this.#hear(data);
  }

  get bufferedAmount(): number {
    return this.#buffered + this.#onTheWayBytes;
  }

  get bufferedAmountLowThreshold(): number {
    return this.#threshold;
  }

  set bufferedAmountLowThreshold(bytes: number) {
    this.#threshold = bytes;
    this.#tell({ threshold: bytes });
  }

  addEventListener(type: string, listener: (event: MessageEvent) => void): void {
    this.#events.addEventListener(type, listener as EventListener); // of each type what `#hear` dispatches
  }

  removeEventListener(type: string, listener: () => void): void {
    this.#events.removeEventListener(type, listener);
  }

  /** The message belongs to the page afterwards. Throws where the channel is not open, as a channel does. */
  send(message: Message): void {
    if (this.readyState !== 'open') throw new Error(`the channel is ${this.readyState}`);
    const bytes = bytesOf(message);
    this.#onTheWay.push(bytes);
    this.#onTheWayBytes += bytes;
    this.#tell({ send: message }, moved(message));
  }

  #tell(what: ToPage, transfer: Transferable[] = []): void {
    this.#port.postMessage(what, transfer);
  }

  #hear(news: ToWorker): void {
    if ('message' in news) this.#events.dispatchEvent(new MessageEvent('message', { data: news.message }));
    else if ('state' in news) {
      this.readyState = news.state;
      if (news.state === 'open') this.#events.dispatchEvent(new Event('open'));
    } else {
      const before = this.bufferedAmount;
      for (; this.#sent < news.sent; this.#sent++) this.#onTheWayBytes -= this.#onTheWay.shift() ?? 0;
      this.#buffered = news.buffered;
      if (before > this.#threshold && this.bufferedAmount <= this.#threshold)
        this.#events.dispatchEvent(new Event('bufferedamountlow'));
    }
  }
}
