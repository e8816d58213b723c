/** A server with its dashboard's calls, for tests: a small run in a folder of its own, donors that answer by a script. */
import { invariant } from '../../swarm/base.ts';
import { decodeWatchMessage, type WatchMessage } from '../../swarm/messages/watch.ts';
import type { Server, ServerOptions } from '../server.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { TinyServers } from './tinyServers.ts';

export const OPERATED_STEPS = 40;

interface OperatorSessionCalls {
  get(path: string): Promise<Response>;
  post(path: string, body: unknown): Promise<Response>;
  postBytes(path: string, body: Uint8Array<ArrayBuffer>): Promise<Response>;
}

export class OperatedServer {
  /** Its run's files may be changed before it serves. */
  readonly servers: TinyServers;
  #server: Server | null = null;
  #data: DataDirectory | null = null;
  #calls: OperatorSessionCalls | null = null;
  /** Of the newest session. */
  cookie = '';

  constructor(steps = OPERATED_STEPS) {
    this.servers = new TinyServers({ steps, checkpointEverySteps: 10 });
  }

  get server(): Server {
    invariant(this.#server, 'it serves');
    return this.#server;
  }

  get data(): DataDirectory {
    invariant(this.#data, 'it serves');
    return this.#data;
  }

  async serve(expectedDonors: number | null, options: Partial<ServerOptions> = {}): Promise<Server> {
    this.#data = await this.servers.data();
    this.#server = await this.servers.serve({ expectedDonors, ...options });
    return this.#server;
  }

  /** The dashboard's calls with the cookie of a new session. */
  async logIn(): Promise<OperatorSessionCalls> {
    const { url, operatorToken } = this.server;
    const headers = { 'content-type': 'application/json', origin: url };
    const login = await fetch(`${url}/api/operator/login`, {
      ...{ method: 'POST', headers, body: JSON.stringify({ token: operatorToken() }) },
    });
    const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
    this.cookie = cookie;
    this.#calls = {
      get: (path) => fetch(`${url}${path}`, { headers: { cookie } }),
      post: (path, body) =>
        fetch(`${url}${path}`, { method: 'POST', headers: { ...headers, cookie }, body: JSON.stringify(body) }),
      postBytes: (path, body) => {
        const type = { 'content-type': 'application/octet-stream' };
        return fetch(`${url}${path}`, { method: 'POST', headers: { ...headers, cookie, ...type }, body });
      },
    };
    return this.#calls;
  }

  /** What a dashboard that has just opened is shown. */
  async shown(): Promise<WatchMessage> {
    invariant(this.#calls, 'someone is logged in');
    const decoded = decodeWatchMessage(await (await this.#calls.get('/api/snapshot')).text());
    invariant(decoded.ok, 'the dashboard understands it');
    return decoded.value;
  }

  close(): Promise<void> {
    return this.servers.close();
  }
}

/** What a call that was refused answers: its status and its sentence. */
export const errorOf = async (response: Response): Promise<[number, string]> => [
  response.status,
  ((await response.json()) as { error: string }).error,
];
