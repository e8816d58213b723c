/** The part of `ws` that the server and its tests touch; the package brings no types of its own. */
declare module 'ws' {
  import type { EventEmitter } from 'node:events';
  import type { Server as HttpServer } from 'node:http';

  export type RawData = Buffer | ArrayBuffer | Buffer[];

  export interface ClientOptions {
    readonly headers?: Readonly<Record<string, string>>;
    readonly maxPayload?: number;
  }

  export class WebSocket extends EventEmitter {
    constructor(address: string, options?: ClientOptions);
    static readonly OPEN: 1;
    readonly readyState: 0 | 1 | 2 | 3;
    readonly bufferedAmount: number;
    send(data: string | Uint8Array): void;
    send(data: string | Uint8Array, options: { readonly binary: boolean }, done: () => void): void;
    close(code?: number, reason?: string): void;
    terminate(): void;
    pause(): void;
    resume(): void;
    ping(data?: string): void;
    on(event: 'message', listener: (data: RawData, isBinary: boolean) => void): this;
    on(event: 'ping' | 'pong', listener: (data: Buffer) => void): this;
    on(event: 'close', listener: (code: number, reason: Buffer) => void): this;
    on(event: 'error', listener: (error: Error) => void): this;
    on(event: 'open', listener: () => void): this;
    once(event: 'pong', listener: () => void): this;
  }

  export interface ServerOptions {
    readonly maxPayload?: number;
    readonly maxFragments?: number;
    readonly maxBufferedChunks?: number;
    readonly closeTimeout?: number;
    readonly server?: HttpServer;
    readonly path?: string;
  }

  export class WebSocketServer extends EventEmitter {
    constructor(options?: ServerOptions);
    readonly clients: ReadonlySet<WebSocket>;
    on(event: 'connection', listener: (socket: WebSocket) => void): this;
  }

  export default WebSocket;
}
