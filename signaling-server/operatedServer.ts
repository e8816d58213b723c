/** A server with its dashboard's calls, for tests: a small run in a folder of its own, donors that answer by a script. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { invariant } from '../swarm/base.ts';
import { decodeWatchMessage, type WatchMessage } from '../swarm/watch.ts';
import { addRun, type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { createServer, type Server, type ServerOptions } from './server.ts';

export const OPERATED_STEPS = 40;
const RUN = {
  name: 'tiny',
  model: { model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 256 },
  data: { files: ['corpus.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: {
    steps: OPERATED_STEPS,
    globalBatchSize: 4,
    sequenceLength: 8,
    optimizer: { type: 'adamw', learningRate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
  checkpoint: { everySteps: 10 },
};

export interface OperatorSessionCalls {
  get(path: string): Promise<Response>;
  post(path: string, body: unknown): Promise<Response>;
}

export class OperatedServer {
  readonly #directory = mkdtempSync(join(tmpdir(), 'shoal-operator-'));
  readonly #toClose: { close(): unknown }[] = [];
  #server: Server | null = null;
  #data: DataDirectory | null = null;
  #calls: OperatorSessionCalls | null = null;

  get server(): Server {
    invariant(this.#server, 'it serves');
    return this.#server;
  }

  get data(): DataDirectory {
    invariant(this.#data, 'it serves');
    return this.#data;
  }

  async serve(expectedDonors: number | null, options: Partial<ServerOptions> = {}): Promise<Server> {
    const files = join(this.#directory, 'files');
    mkdirSync(files);
    writeFileSync(join(files, 'corpus.txt'), 'Call me Ishmael. Some years ago. '.repeat(9));
    writeFileSync(join(files, 'run.json'), JSON.stringify(RUN));
    const data = await openDataDirectory(join(this.#directory, 'data'));
    invariant(data.ok, 'the data directory opens');
    this.#data = data.value;
    this.#toClose.push(data.value);
    const name = await addRun(data.value, join(files, 'run.json'));
    invariant(name.ok, 'the run is a run');
    const server = await createServer({
      ...{ data: data.value, runName: name.value, port: 0, log: () => {}, expectedDonors },
      ...options,
    });
    invariant(server.ok, 'the server listens');
    this.#toClose.push(server.value);
    this.#server = server.value;
    return server.value;
  }

  /** The dashboard's calls with the cookie of a new session. */
  async logIn(): Promise<OperatorSessionCalls> {
    const { url, operatorToken } = this.server;
    const headers = { 'content-type': 'application/json', origin: url };
    const login = await fetch(`${url}/api/operator/login`, {
      ...{ method: 'POST', headers, body: JSON.stringify({ token: operatorToken() }) },
    });
    const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
    this.#calls = {
      get: (path) => fetch(`${url}${path}`, { headers: { cookie } }),
      post: (path, body) =>
        fetch(`${url}${path}`, { method: 'POST', headers: { ...headers, cookie }, body: JSON.stringify(body) }),
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

  async close(): Promise<void> {
    for (const thing of this.#toClose.reverse()) await thing.close();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
