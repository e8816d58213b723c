/** What carries a donor's conversation, and where it comes from: a WebSocket that ends here, or at another process of the site. */
import type { Buffer } from 'node:buffer';
import type { RawData } from 'ws';
import type { Beside } from './relaysBeside.ts';

/** Where a connection comes from. */
export interface Origin {
  readonly address: string;
  readonly isHere: boolean;
  /** The process of a site at which it ends; absent: this one, which is alone. */
  readonly beside?: Beside;
  /** All that it sent so far, of a message on its way too: a slow line takes seconds for a relayed frame. */
  bytesRead(): number;
  /** What carries it is away for now: nobody is to blame that nothing comes and nothing is taken. */
  isCutOff?(): boolean;
}

/** What a conversation needs of a WebSocket: one that ends here, or at another process of the site. */
export interface DonorWire {
  send(data: Uint8Array, options: { readonly binary: boolean }, done: () => void): void;
  /** A text that many others are sent too; absent: as any. */
  sendShared?(text: Uint8Array, done: () => void): void;
  /** A plan counts on this donor: where its conversation begins anew it is among the first. */
  becomesMember?(): void;
  close(code: number): void;
  terminate(): void;
  ping(data: string): void;
  on(event: 'message', listener: (data: RawData, isBinary: boolean) => void): unknown;
  on(event: 'ping' | 'pong', listener: (data: Buffer) => void): unknown;
  on(event: 'close', listener: (code: number) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
}
