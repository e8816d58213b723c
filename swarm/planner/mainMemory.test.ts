import { describe, expect, test } from 'vitest';
import { at, invariant, type PeerId, peerId, totalOf } from '../base.ts';
import { hostBytes, plannedBytes, shardBuffers } from '../memory/memory.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Plan, peers, planSchema } from '../plan/plan.ts';
import { withStateSent } from '../plan/tokenRows.ts';
import { equalSplit } from './equalSplit.ts';
import { fittingSplit } from './fit.ts';
import { HOST_ELEMENT_BYTES } from './mainMemory.ts';
import { replicatedWithin, replicaWish } from './replicas.ts';

const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 64, vocab_size: 256 },
});
invariant(parsed.ok, 'a valid model');
const model = parsed.value;
const batch = { samples: 4, sequence: 32 };
const donors = ['a', 'b'].map(peerId);
const given = (bytes: number) => new Map(donors.map((peer): [PeerId, number] => [peer, bytes]));
const shardsOf = (plan: Plan) => plan.state.flatMap(({ shards }) => shards);

const whole = equalSplit(model, batch.samples, donors, { stages: 2 });
const needs = Math.max(...donors.map((peer) => plannedBytes(model, whole, peer, batch)));
const options = { stages: 2, microBatches: whole.microBatches.length, schedule: 'gpipe' } as const;
/** Within reach of no plan that keeps all state on GPUs, whatever is computed twice. */
const cap = (() => {
  let bytes = needs;
  while (fittingSplit({ model, batch, peers: donors, caps: given(bytes), options }).ok) bytes -= 10_000;
  return bytes;
})();

describe('shards in main memory', () => {
  test('where nothing fits the GPUs otherwise, and as few as make it fit', () => {
    const problem = { model, batch, peers: donors, caps: given(cap), options };
    expect(fittingSplit(problem)).toMatchObject({ ok: false });
    const found = fittingSplit({ ...problem, hosts: given(2 ** 26) });
    invariant(found.ok, 'main memory holds it');
    const moved = shardsOf(found.value).filter((shard) => shard.in === 'host');
    expect(moved.length).toBeGreaterThan(0);
    expect(moved.length).toBeLessThan(shardsOf(found.value).length);
    for (const peer of peers(found.value)) {
      expect(plannedBytes(model, found.value, peer, batch)).toBeLessThanOrEqual(cap);
      const elements = totalOf(moved, ({ peer: own, range }) => (own === peer ? range[1] - range[0] : 0));
      expect(hostBytes(found.value, peer, undefined)).toBe(HOST_ELEMENT_BYTES * elements);
    }
    // With all of the memory they need nothing moves, whatever else they give.
    const roomy = fittingSplit({ ...problem, caps: given(needs), hosts: given(2 ** 26) });
    invariant(roomy.ok, 'it fits');
    expect(roomy.value).toEqual(withStateSent(model, whole, batch));
  });

  test('who gives too little main memory is named', () => {
    const plan: Plan = {
      ...whole,
      state: whole.state.map((one) => ({ ...one, shards: one.shards.map((shard) => ({ ...shard, in: 'host' })) })),
    };
    const [a] = donors;
    invariant(a, 'a donor');
    const bytes = hostBytes(plan, a, undefined);
    const problem = { model, batch, peers: donors, caps: given(cap), options, hosts: given(1_000) };
    expect(fittingSplit(problem)).toMatchObject({ ok: false });
    expect(bytes).toBeGreaterThan(1_000);
  });

  test('[PL40] a shard on a GPU takes 8 bytes an element of it more, and one in main memory 16 there', () => {
    const inHost = (plan: Plan): Plan => ({
      ...plan,
      state: plan.state.map((one) => ({ ...one, shards: one.shards.map((shard) => ({ ...shard, in: 'host' })) })),
    });
    const alone = equalSplit(model, batch.samples, donors.slice(0, 1));
    const [a] = donors;
    invariant(a, 'a donor');
    const parameters = totalOf(model.blocks, ({ elements }) => elements);
    const spared = plannedBytes(model, alone, a, batch) - plannedBytes(model, inHost(alone), a, batch);
    const kept = shardBuffers(model, alone, a);
    const bytesOf = (all: typeof kept) => totalOf(all, ({ bytes }) => bytes);
    expect(spared).toBe(bytesOf(kept));
    const moments = bytesOf(kept.filter(({ name }) => /^[mv]\//.test(name))) / parameters;
    expect(moments).toBeGreaterThanOrEqual(8);
    expect(moments).toBeLessThan(8.1);
    expect(hostBytes(inHost(alone), a, undefined)).toBe(16 * parameters);
  });

  test('[PL40] a copy of such a shard lies in main memory too, with those who give some', () => {
    const plan: Plan = {
      ...whole,
      state: whole.state.map(({ block, shards }) => ({
        block,
        shards: shards.map((shard) => (shard.peer === at(donors, 0) ? { ...shard, in: 'host' } : shard)),
      })),
    };
    const run = { model, batch, caps: given(2 ** 26), offer: donors };
    const copies = (hosts: ReadonlyMap<PeerId, number>) =>
      shardsOf(replicatedWithin({ ...run, hosts }, plan, replicaWish(1)).plan).filter((shard) => shard.in === 'host');
    expect(copies(given(2 ** 26)).every(({ replicas }) => replicas.length === 1)).toBe(true);
    const [a] = donors;
    invariant(a, 'a donor');
    expect(copies(new Map([[a, 2 ** 26]])).every(({ replicas }) => replicas.length === 0)).toBe(true);
  });

  test('[PL40] a plan says it of a shard, and nothing of one on the GPU', () => {
    const [embedding, ...others] = whole.state;
    const place = (name: unknown) => ({
      ...whole,
      state: [{ ...embedding, shards: embedding?.shards.map((shard) => ({ ...shard, in: name })) }, ...others],
    });
    expect(planSchema.parse(place('host')).state[0]?.shards.every((shard) => shard.in === 'host')).toBe(true);
    expect(planSchema.parse(place('gpu'))).toEqual(planSchema.parse(whole));
    expect(planSchema.safeParse(place('disk')).success).toBe(false);
  });
});
