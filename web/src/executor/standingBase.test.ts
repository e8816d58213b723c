import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { peerId, type Range } from '../../../swarm/base.ts';
import { type BlockName, standingBlock } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { encodePiece, pieceRanges } from '../../../swarm/run/basePieces.ts';
import { modelOf, parseRunFile } from '../../../swarm/run/runFile.ts';
import { piecesIn } from './pieceStore.ts';
import { NO_STORE, type PieceStore, StandingBase } from './standingBase.ts';

const parsed = parseRunFile(
  {
    name: 'a',
    // A tied head: the last stage reads the token table alone.
    model: { model_type: 'gpt2', n_layer: 2, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 32 },
    data: { files: ['a'], tokenizer: 'bytes' },
    init: { seed: 1 },
    train: {
      ...{ steps: 1, globalBatchSize: 1, sequenceLength: 4, base: 'f16' },
      optimizer: { type: 'adamw', learningRate: 1, betas: [0.9, 0.9], epsilon: 1e-8 },
      adapter: { type: 'lora', rank: 1, alpha: 1, targets: ['c_attn'] },
    },
  },
  'run.json',
);
if (!parsed.ok) throw new Error(parsed.reason);
const model = modelOf(parsed.value);
const plan = {
  stages: [
    [0, 1],
    [1, 2],
  ].map((layers, i) => ({ layers, members: [{ peer: 'ab'[i] }] })),
} as unknown as Plan;

/** Values that halves hold. */
const valueAt = (block: BlockName, i: number): number => block.length + (i % 64) / 64;
const blobs = new Map<string, ArrayBuffer>();
const base = (model.standing ?? []).map((block) => ({
  block: block.name,
  pieces: pieceRanges(block).map((range) => {
    const values = Float32Array.from({ length: range[1] - range[0] }, (_, i) => valueAt(block.name, range[0] + i));
    const encoded = encodePiece(block, range, 'f16', values);
    if (!encoded.ok) throw new Error(encoded.reason);
    const hash = createHash('sha256').update(new Uint8Array(encoded.value.buffer)).digest('hex');
    blobs.set(hash, encoded.value.buffer);
    return hash;
  }),
}));

class Tab {
  readonly fetched: string[] = [];
  readonly base: StandingBase;

  constructor(store: PieceStore, answer = (hash: string) => blobs.get(hash) ?? new ArrayBuffer(0)) {
    const fetchPiece = async (hash: string): Promise<ArrayBuffer> => {
      this.fetched.push(hash);
      return answer(hash);
    };
    this.base = new StandingBase({ model, encoding: 'f16', base, fetchPiece, store });
  }

  async read(block: BlockName, range: Range): Promise<number[]> {
    const out = new Float32Array(range[1] - range[0]).fill(Number.NaN);
    await this.base.read(block, range, ([from], values) => out.set(values, from - range[0]));
    return [...out];
  }
}

/** Files in memory, as a browser has them. */
function files(mostBytes = 1e9) {
  const kept = new Map<string, ArrayBuffer>();
  const handle = (name: string) => ({
    getFile: async () => ({ arrayBuffer: async () => kept.get(name) }),
    createWritable: async () => ({
      write: async (bytes: ArrayBuffer) => void kept.set(name, bytes),
      close: async () => undefined,
    }),
  });
  const folder = {
    getFileHandle: async (name: string, { create = false } = {}) => {
      if (!create && !kept.has(name)) throw new Error('NotFoundError');
      return handle(name);
    },
    removeEntry: async (name: string) => void kept.delete(name),
  } as unknown as FileSystemDirectoryHandle; // what the store asks of it
  return { kept, store: piecesIn(folder, new Map(), mostBytes) };
}

describe('the weights that stand', () => {
  const table: Range = [3, 100];
  const expected = Array.from({ length: 97 }, (_, i) => valueAt('embedding', 3 + i));

  test('[WI37] are read in any range, fetched once at a time, again where the browser keeps nothing', async () => {
    const tab = new Tab(NO_STORE);
    expect(await Promise.all([tab.read('embedding', table), tab.read('embedding', table)])).toEqual([
      expected,
      expected,
    ]);
    expect(tab.fetched).toHaveLength(1);
    await tab.read('layer.1', [0, standingBlock(model, 'layer.1').elements]);
    await tab.read('embedding', table);
    expect(tab.fetched).toHaveLength(3);
    await tab.base.warm(plan, peerId('a'));
    expect(tab.fetched).toHaveLength(3);
  });

  test('[WI37] of a plan’s own stages are here before it begins, and the next time', async () => {
    const { store, kept } = files();
    const tab = new Tab(store);
    await tab.base.warm(plan, peerId('b'));
    // Its layer, the head, and the token table of a tied one.
    expect(new Set(tab.fetched)).toEqual(
      new Set(base.filter(({ block }) => block !== 'layer.0').flatMap((one) => one.pieces)),
    );
    expect(kept.size).toBe(3);
    const again = new Tab(store);
    expect(await again.read('embedding', table)).toEqual(expected);
    expect(again.fetched).toEqual([]);
  });

  test('[WI37] a file that was altered is fetched again, and bytes that are not the hash’s are none', async () => {
    const { store, kept } = files();
    await new Tab(store).read('embedding', table);
    for (const [hash, bytes] of kept) kept.set(hash, bytes.slice(4));
    const tab = new Tab(store);
    expect(await tab.read('embedding', table)).toEqual(expected);
    expect(tab.fetched).toHaveLength(1);
    expect(kept.get(tab.fetched[0] ?? '')?.byteLength).toBe(blobs.get(tab.fetched[0] ?? '')?.byteLength);
    const lied = new Tab(NO_STORE, () => new ArrayBuffer(8));
    await expect(lied.read('embedding', table)).rejects.toThrow('with other bytes');
  });

  test('what is kept is bounded: the oldest of other runs go, the run’s own never make way for one another', async () => {
    const { store, kept } = files(100);
    const bytes = new ArrayBuffer(40);
    for (const name of ['a', 'b', 'c']) await store.put(name, bytes, new Set());
    expect([...kept.keys()]).toEqual(['b', 'c']);
    await store.put('d', bytes, new Set(['b', 'd']));
    expect([...kept.keys()]).toEqual(['b', 'd']);
    await store.put('e', bytes, new Set(['b', 'd', 'e']));
    expect([...kept.keys()]).toEqual(['b', 'd']);
    expect(store.bytes()).toBe(80);
    await store.clear();
    expect([kept.size, store.bytes()]).toEqual([0, 0]);
  });
});
