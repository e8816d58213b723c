/**
 * The tokens of any micro-batch. Any peer can say which windows the next steps read, so their shards are fetched while
 * this one is computed: a step waits for tokens only where the network is slower than the steps. What is expected is
 * kept as windows, cut out as soon as their shards are here: shuffled, a step may read more shards than there is room for.
 */
import type { Range } from '../../../swarm/base.ts';
import {
  decodeShard,
  type Order,
  shardsOfWindow,
  type TokenIds,
  type TokenList,
  type WindowRows,
  windowCount,
  windowOfSample,
  windowRows,
} from '../../../swarm/run/data.ts';
import type { MicroTokens } from './engine.ts';

/** Shards kept: 64 of 65,536 two-byte tokens are 8 MiB. */
const KEPT_SHARDS = 64;
/** A browser opens six connections to one server; checkpoints need some, too. */
const FETCHES_AT_ONCE = 4;

/** Of a run: how long its windows are, and how many ids its tokens have. */
interface WindowShape {
  readonly sequenceLength: number;
  readonly vocabulary: number;
}

interface Shard {
  readonly tokens: Promise<TokenIds>;
  /** Null once it has been called. */
  begin: (() => Promise<unknown>) | null;
  isHere: boolean;
}

export class TokenSource {
  readonly windows: number;
  readonly #list: TokenList;
  readonly #order: Order;
  readonly #shape: WindowShape;
  readonly #fetchShard: (hash: string) => Promise<ArrayBuffer>;
  /** Of each expected sample, numbered over the whole run. */
  readonly #expected = new Map<number, Promise<WindowRows>>();
  /** In order of last use: of those that are here, the first is the next to go. */
  readonly #shards = new Map<number, Shard>();
  /** Shards to be fetched, the next one first. */
  #queue: Shard[] = [];
  #fetching = 0;

  constructor(list: TokenList, order: Order, shape: WindowShape, fetchShard: (hash: string) => Promise<ArrayBuffer>) {
    this.#list = list;
    this.#order = order;
    this.#shape = shape;
    this.#fetchShard = fetchShard;
    this.windows = windowCount(list, shape.sequenceLength);
  }

  /** Its windows hold examples, and say of each row where its own begins. */
  get hasExamples(): boolean {
    return this.#list.kind === 'rows';
  }

  /** These samples, numbered over the whole run, will be read next, the first one first; others are forgotten. */
  expect(samples: Iterable<number>): void {
    const next = new Set(samples);
    for (const sample of this.#expected.keys()) if (!next.has(sample)) this.#expected.delete(sample);
    for (const sample of next) {
      if (this.#expected.has(sample)) continue;
      const window = this.#window(sample, false);
      this.#expected.set(sample, window);
      // A failed fetch is tried again by whoever reads the sample.
      window.catch(() => this.#expected.get(sample) === window && this.#expected.delete(sample));
    }
  }

  /** Samples `[from, to)` counted from `first` = step·B; past the last window they begin again. */
  async read(first: number, samples: Range): Promise<MicroTokens> {
    const numbers = Array.from({ length: samples[1] - samples[0] }, (_, i) => first + samples[0] + i);
    const windows = await Promise.all(
      numbers.map((sample) => this.#readWindow(sample).catch(() => this.#window(sample, true))),
    );
    return {
      ids: joined(windows.map(({ ids }) => ids)),
      targets: joined(windows.map(({ targets }) => targets)),
      firstRows: this.hasExamples ? joined(windows.flatMap(({ firstRows }) => firstRows ?? [])) : null,
    };
  }

  #readWindow(sample: number): Promise<WindowRows> {
    const expected = this.#expected.get(sample);
    if (!expected) return this.#window(sample, true);
    const [from, to] = this.#shardsOf(sample);
    for (let index = from; index < to; index++) this.#hurry(this.#shards.get(index));
    return expected;
  }

  async #window(sample: number, isUrgent: boolean): Promise<WindowRows> {
    const [from, to] = this.#shardsOf(sample);
    const asked = Array.from({ length: to - from }, (_, i) => this.#shard(from + i, isUrgent));
    const shards = await Promise.all(asked);
    const none = new Uint8Array();
    const window = windowOfSample(this.#order, sample, this.windows);
    return windowRows((index) => shards[index - from] ?? none, this.#list, window, this.#shape);
  }

  #shardsOf(sample: number): Range {
    const window = windowOfSample(this.#order, sample, this.windows);
    return shardsOfWindow(this.#list, window, this.#shape.sequenceLength);
  }

  #shard(index: number, isUrgent: boolean): Promise<TokenIds> {
    const shard = this.#shards.get(index) ?? this.#newShard(index);
    this.#shards.delete(index);
    this.#shards.set(index, shard);
    if (isUrgent) this.#hurry(shard);
    this.#fetch();
    return shard.tokens;
  }

  #newShard(index: number): Shard {
    let begin: Shard['begin'] = null;
    const tokens = new Promise<TokenIds>((resolve, reject) => {
      begin = () =>
        this.#fetchShard(this.#list.shards[index] ?? '').then(
          (bytes) => {
            shard.isHere = true;
            resolve(decodeShard(bytes, this.#list.bytesPerToken));
          },
          (error: unknown) => {
            this.#shards.delete(index);
            reject(error);
          },
        );
    });
    const shard: Shard = { tokens, begin, isHere: false };
    tokens.catch(() => undefined); // those who wait for it hear of it
    this.#queue.push(shard);
    return shard;
  }

  /** Someone waits for it: it goes before everything that is only expected. */
  #hurry(shard: Shard | undefined): void {
    if (!shard?.begin) return;
    this.#queue = [shard, ...this.#queue.filter((other) => other !== shard)];
  }

  #fetch(): void {
    while (this.#fetching < FETCHES_AT_ONCE) {
      const shard = this.#queue.shift();
      if (!shard?.begin) return;
      const { begin } = shard;
      shard.begin = null;
      this.#fetching++;
      void begin().then(() => {
        this.#fetching--;
        this.#dropOldest();
        this.#fetch();
      });
    }
  }

  #dropOldest(): void {
    const here = [...this.#shards].filter(([, { isHere }]) => isHere);
    for (const [index] of here.slice(0, Math.max(0, here.length - KEPT_SHARDS))) this.#shards.delete(index);
  }
}

function joined(parts: readonly Uint32Array[]): Uint32Array {
  const all = new Uint32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let filled = 0;
  for (const part of parts) {
    all.set(part, filled);
    filled += part.length;
  }
  return all;
}
