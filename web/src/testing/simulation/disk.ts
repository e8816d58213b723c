/** What the simulated server keeps when it dies: shards of checkpoints, and the text. Its commits are the rehearsal's. */
import { got, overlap, type Range, type Result, refusal, success } from '../../../../swarm/base.ts';
import type { StoredShard } from '../../../../swarm/coordinator/events.ts';
import type { BlockName, Model } from '../../../../swarm/model/model.ts';
import { STATE_KINDS } from '../../../../swarm/plan/stateKinds.ts';
import { nameOf } from './digestAtOnce.ts';
import { added, mixed, type State, type Values } from './integers.ts';

export class Disk {
  /** By committed steps. */
  readonly checkpoints = new Map<number, readonly Pick<StoredShard, 'block' | 'range'>[]>();
  isFull = false;
  /** Told of every shard that comes. */
  onUpload: (block: BlockName, range: Range, step: number, state: State) => void = () => {};
  readonly #text: Uint8Array<ArrayBuffer>;
  readonly #uploads = new Map<string, Values>();

  /** Checkpoint 0 is the initial state. */
  constructor(model: Model, initial: ReadonlyMap<BlockName, State>, text: Uint8Array<ArrayBuffer>) {
    this.#text = text;
    const shards = model.blocks.map(({ name, elements }) => ({ block: name, range: [0, elements] as Range }));
    this.checkpoints.set(0, shards);
    for (const { block, range } of shards) {
      const { value, m, v } = got(initial, block);
      this.#uploads.set(keyOf(0, block, range), Float32Array.from([...value, ...m, ...v]));
    }
  }

  /** Of a whole checkpoint, in the order of its shards. */
  fingerprint(step: number): number {
    let sum = 0;
    for (const { block, range } of this.checkpoints.get(step) ?? [])
      sum = added(sum, mixed(got(this.#uploads, keyOf(step, block, range))));
    return sum;
  }

  call({ pathname: path, searchParams: query }: URL, body: Float32Array | null): Result<ArrayBuffer | string> {
    if (path.startsWith('/api/tokens/')) return success(this.#text.slice().buffer);
    const number = (name: string): number => Number(query.get(name));
    const range: Range = [number('from'), number('to')];
    if (body !== null) return this.#put(number('step'), query.get('block') as BlockName, range, body);
    const [step, block] = path.slice('/api/state/'.length).split('/');
    const kind = STATE_KINDS.map(String).indexOf(query.get('kind') ?? '');
    return this.#read(Number(step), block as BlockName, kind, range);
  }

  #put(step: number, block: BlockName, range: Range, body: Float32Array): Result<string> {
    if (this.isFull) return refusal('507');
    const length = range[1] - range[0];
    const part = (index: number): Values => body.slice(index * length, (index + 1) * length) as Values;
    this.onUpload(block, range, step, { value: part(0), m: part(1), v: part(2) });
    this.#uploads.set(keyOf(step, block, range), Float32Array.from(body));
    return success(JSON.stringify({ hash: nameOf(body.slice()) }));
  }

  #read(step: number, block: BlockName, kind: number, range: Range): Result<ArrayBuffer> {
    const shards = this.checkpoints.get(step);
    if (!shards) return refusal('404');
    const values = new Float32Array(range[1] - range[0]).fill(Number.NaN);
    for (const shard of shards) {
      const part = shard.block === block ? overlap(shard.range, range) : null;
      if (!part) continue;
      const stored = got(this.#uploads, keyOf(step, block, shard.range));
      const start = kind * (shard.range[1] - shard.range[0]) - shard.range[0];
      values.set(stored.subarray(start + part[0], start + part[1]), part[0] - range[0]);
    }
    return success(values.buffer);
  }
}

const keyOf = (step: number, block: BlockName, range: Range): string => `${step} ${block} ${range.join('-')}`;
