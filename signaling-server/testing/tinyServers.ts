/**
 * A run so small that the server's own work is all that takes time, and servers of it in a folder of their own: for the
 * server's tests and its benchmark. What was opened is closed with them, the newest first.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { invariant, type Result } from '../../swarm/base.ts';
import { createServer, type Server, type ServerOptions } from '../server.ts';
import { addRun, type DataDirectory, openDataDirectory } from '../store/dataDirectory.ts';

const TEXT = 'Call me Ishmael. Some years ago, never mind how long. '.repeat(9);
const HELD_OUT = 'It is not down in any map; true places never are. '.repeat(2);

interface TinyRun {
  readonly steps: number;
  readonly name?: string;
  readonly layers?: number;
  readonly samples?: number;
  /** Between two checkpoints; absent: the last step alone has one. */
  readonly checkpointEverySteps?: number;
  /** Between two held-out losses; absent: there is none. */
  readonly evaluationEverySteps?: number;
}

export const tinyRunFile = ({ steps, name = 'tiny', layers = 2, samples = 4, ...every }: TinyRun) => ({
  name,
  model: { model_type: 'gpt2', n_layer: layers, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 256 },
  data: { files: ['corpus.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  // Scripted donors make nothing up that could be done again.
  trust: { audit: 0 },
  train: {
    ...{ steps, globalBatchSize: samples, sequenceLength: 8 },
    optimizer: { type: 'adamw', learningRate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
  checkpoint: { everySteps: every.checkpointEverySteps ?? steps },
  ...(every.evaluationEverySteps === undefined
    ? {}
    : { evaluation: { files: ['held-out.txt'], everySteps: every.evaluationEverySteps } }),
});

export class TinyServers {
  readonly folder = mkdtempSync(join(tmpdir(), 'shoal-tiny-'));
  readonly dataFolder = join(this.folder, 'data');
  readonly runPath = join(this.folder, 'files', 'run.json');
  readonly #toClose: { close(): unknown }[] = [];
  readonly #isKept: boolean;
  #data: DataDirectory | null = null;

  /** `isKept` false: no thread copies its database, which may be on its way when the folder is removed. */
  constructor(run: TinyRun, isKept = true) {
    this.#isKept = isKept;
    mkdirSync(join(this.folder, 'files'));
    writeFileSync(join(this.folder, 'files', 'corpus.txt'), TEXT);
    writeFileSync(join(this.folder, 'files', 'held-out.txt'), HELD_OUT);
    this.writeRun(tinyRunFile(run));
  }

  writeRun(file: object): void {
    writeFileSync(this.runPath, JSON.stringify(file));
  }

  /** Closed with these servers. */
  closing<Thing extends { close(): unknown }>(thing: Thing): Thing {
    this.#toClose.push(thing);
    return thing;
  }

  /** The data directory of every server here, open. */
  async data(): Promise<DataDirectory> {
    this.#data ??= contentOf(await openDataDirectory(this.dataFolder, this.#isKept));
    return this.#data;
  }

  /** Names of strangers who left, in the data directory, which is closed then. */
  async nameStrangers(count: number): Promise<void> {
    const { store } = await this.data();
    for (let number = 0; number < count; number++)
      store.saveMember({ id: `stranger ${number}`, name: `Stranger ${number}`, team: '' }, number);
    this.closeData();
  }

  closeData(): void {
    this.#data?.close();
    this.#data = null;
  }

  /** `runPath`: of another run file than its own. */
  async serve(options: Partial<ServerOptions> = {}, runPath = this.runPath): Promise<Server> {
    const data = await this.data();
    const runName = contentOf(await addRun(data, runPath));
    return this.closing(contentOf(await createServer({ data, runName, port: 0, log: () => {}, ...options })));
  }

  async close(): Promise<void> {
    for (const thing of this.#toClose.splice(0).reverse()) await thing.close();
    this.closeData();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function contentOf<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}
