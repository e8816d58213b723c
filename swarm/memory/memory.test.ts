import { describe, expect, test } from 'vitest';
import { invariant, overlap, type PeerId, peerId } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { holders, type Plan } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import type { Compute } from '../precision.ts';
import type { Islands } from '../run/runFile.ts';
import { islandsOf } from '../testing/islands.ts';
import type { WireEncoding } from '../wire.ts';
import type { BufferSpec } from './bufferSpec.ts';
import {
  hostBytes,
  plannedBytes,
  predictedBytes,
  shardBuffers,
  stageBuffers,
  stagesOfPeer,
  WIRE,
  WIRE_KEY,
  WIRE_RESIDUAL,
} from './memory.ts';

const WIDTH = 32;
const HEADS = 4;
const ROWS = 2 * 16;
const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 6, n_head: HEADS, n_embd: WIDTH, n_positions: 16, vocab_size: 64 },
});
invariant(parsed.ok, 'a valid model');
const model = parsed.value;

const bytesOf = (slots: number, recompute: readonly number[]): number =>
  stageBuffers(model, { layers: [1, 5], samples: 2, sequence: 16, slots, recompute }).reduce(
    (sum, { bytes }) => sum + bytes,
    0,
  );

describe('recompute', () => {
  // Two norms, qkv, attention, the stream between its halves, the inner product before and after GELU; statistics.
  const ofLayer = (2 + 3 + 1 + 1 + 4 + 4) * WIDTH + 2 * 2 + HEADS;

  test.each([1, 2, 5])('with %i slots, layers that are computed again share one place for what they keep', (slots) => {
    const saved = (layers: number): number => (slots * layers - 1) * ofLayer * ROWS * 4;
    expect(bytesOf(slots, []) - bytesOf(slots, [1, 2, 3, 4])).toBe(saved(4));
    expect(bytesOf(slots, []) - bytesOf(slots, [2, 4])).toBe(saved(2));
  });
});

test('what a stage hands on has one place for all slots, where nobody on the same GPU takes it later', () => {
  const saved = (layers: readonly [number, number], slots: number): number => {
    const bytes = (keepsMade: boolean): number =>
      stageBuffers(model, { layers, samples: 2, sequence: 16, slots, keepsMade }).reduce(
        (sum, own) => sum + own.bytes,
        0,
      );
    return bytes(true) - bytes(false);
  };
  for (const slots of [1, 3]) {
    // The stream's gradient, and what leaves the layers: both have one place.
    for (const layers of [[0, 2], [1, 5]] as const) expect(saved(layers, slots)).toBe((2 * slots - 1) * WIDTH * ROWS * 4); // biome-ignore format: one line
    // A last stage has its loss's gradient at once, and goes back through the layers when it is its turn.
    expect(saved([1, 6], slots)).toBe(0);
  }
  const [a, b] = [peerId('a'), peerId('b')];
  const plan = equalSplit(model, 4, [a, b], { stages: 2 });
  const [one, other] = plan.stages;
  invariant(one && other, 'two stages');
  const keeps = (tried: Plan): unknown[] => [...stagesOfPeer(tried, a, 16).values()].map(({ keepsMade }) => keepsMade);
  expect(keeps(plan)).toEqual([undefined]);
  expect(keeps({ ...plan, stages: [one, { ...other, members: one.members }] })).toEqual([true, true]);
  expect(keeps({ ...plan, stages: [{ ...one, gathered: 2 }, other] })).toEqual([true]);
});

test('gradients that are never there at once share a place, and so do what leaves the layers and the gradient of the stream', () => {
  const size = { layers: [1, 5] as const, samples: 2, sequence: 16, slots: 0 };
  const places = stageBuffers(model, size).filter(({ name }) => /^(stream|gradient\/)/.test(name));
  // Those of both norms, of attention's output; of qkv and the inner product.
  const widths = { stream: WIDTH, 'gradient/0': WIDTH, 'gradient/1': 4 * WIDTH };
  expect(places.map(({ name, bytes }) => [name, bytes])).toEqual(
    Object.entries(widths).map(([name, width]) => [name, 4 * ROWS * width]),
  );
  expect(stageBuffers(model, size).some(({ name }) => name === 'layer.4/y')).toBe(false);
});

test('where layers are computed again, what lives inside a run of rows of their ends has room for a run', () => {
  const RUN = 64;
  const bytes = (rows: number, recompute: readonly number[], runBytes?: number): number =>
    stageBuffers(model, {
      ...{ layers: [1, 5], samples: rows / 16, sequence: 16, slots: 2, recompute },
      ...(runBytes !== undefined && { runBytes }),
    }).reduce((sum, own) => sum + own.bytes, 0);
  // The inner product before and after GELU; its gradient, which else has the place of that of qkv.
  const saved = (rows: number): number => 4 * WIDTH * (8 * (rows - RUN) + 4 * rows - (3 * rows + 4 * RUN));
  for (const rows of [128, 256])
    for (const recompute of [[1], [1, 2, 3, 4]]) expect(bytes(rows, recompute) - bytes(rows, recompute, 1)).toBe(saved(rows)); // biome-ignore format: one line
  expect(bytes(256, [], 1)).toBe(bytes(256, []));
  expect(bytes(64, [1], 1)).toBe(bytes(64, [1]));
});

test('what goes out written in few bytes needs no more room to be read', () => {
  const readbackOf = (layers: readonly [number, number], wires?: readonly WireEncoding[]): number | undefined =>
    stageBuffers(model, { layers, samples: 64, sequence: 16, slots: 1, ...(wires && { wires }) }).find(
      ({ name }) => name === 'readback/0',
    )?.bytes;
  const stream = 4 * 64 * 16 * WIDTH;
  const slice = 4 * Math.max(...model.blocks.map(({ elements }) => elements));
  expect(stream).toBeGreaterThan(slice);
  for (const wires of [undefined, ['f32'], ['int4', 'f32']] as const)
    expect(readbackOf([1, 5], wires)).toBe(stream + 4);
  expect(readbackOf([1, 5], ['int4', 'f16'])).toBe(Math.max(stream / 2, slice) + 4);
  expect(readbackOf([1, 5], ['int4'])).toBe(slice + 4);
  expect(readbackOf([0, 6])).toBe(slice + 4);
});

describe('halves', () => {
  const alone = peerId('alone');
  const plan = equalSplit(model, 4, [alone], { microBatches: 2 });
  const buffers = (compute: Compute): Map<string, number> => {
    const sizes = [...stagesOfPeer(plan, alone, 16, 'f32', compute).values()];
    const specs = [...sizes.flatMap((size) => stageBuffers(model, size)), ...shardBuffers(model, plan, alone, undefined, compute)]; // biome-ignore format: one line
    return new Map(specs.map(({ name, bytes }) => [name, bytes]));
  };

  test('[MP1] activations and the values that are computed with take half; what is summed, and the masters, do not', () => {
    const [floats, halves] = [buffers('f32'), buffers('f16')];
    const layer = model.blocks.find(({ name }) => name === 'layer.2');
    invariant(layer, 'a layer');
    // Each tensor begins at a multiple of 128 elements.
    const elements = layer.tensors.reduce((sum, tensor) => sum + Math.ceil(tensor.elements / 128) * 128, 0);
    expect(halves.get('values/layer.2')).toBe(2 * elements);
    for (const name of ['gradients/layer.2', 'm/layer.2/0', 'v/layer.2/0', 'values/layer.2/0'])
      expect(halves.get(name), name).toBe(4 * elements);
    expect(floats.has('values/layer.2/0')).toBe(false);
    const kept = [...floats].filter(([name]) => name.startsWith('slot0/layer.2/') && !/\.(stat|lse)$/.test(name));
    expect(kept.length).toBeGreaterThan(4);
    for (const [name, bytes] of kept) expect(2 * (halves.get(name) ?? 0), name).toBe(bytes);
    for (const [name, bytes] of floats) {
      if (/\.(stat|lse)$|ids$|targets$|loss$|Readback/.test(name)) expect(halves.get(name), name).toBe(bytes);
    }
  });

  test('a plan holds what a donor needs with halves and without', () => {
    const of = (compute: Compute) => predictedBytes(model, plan, alone, 16, 'f32', compute);
    expect(plannedBytes(model, plan, alone, { sequence: 16, compute: 'f16' })).toBe(Math.max(of('f32'), of('f16')));
    expect(plannedBytes(model, plan, alone, { sequence: 16 })).toBe(of('f32'));
  });
});

test('a stage has a place for one packed stream where a neighbour is elsewhere, for what int8 gradients left over, and for what int4 ones are drawn by', () => {
  const buffers = (layers: readonly [number, number], ...wires: readonly WireEncoding[]) => {
    const specs = stageBuffers(model, { layers, samples: 2, sequence: 16, slots: 3, wires });
    return specs.flatMap(({ name, bytes }) => ([WIRE, WIRE_KEY, WIRE_RESIDUAL].includes(name) ? [[name, bytes]] : []));
  };
  const elements = 2 * 16 * model.width;
  const tiles = elements / 32;
  const packed = {
    f16: 2 * elements,
    int8: elements + 4 * Math.ceil(elements / 64),
    int4: 4 * (5 * tiles + Math.ceil(tiles / 5)),
  };
  const beside = { f16: [], int8: [[WIRE_RESIDUAL, 4 * elements]], int4: [[WIRE_KEY, 16]] };
  const [first, last] = [
    [0, 1],
    [1, model.layers],
  ] as const;
  for (const wire of ['f16', 'int8', 'int4'] as const) {
    const stream = [WIRE, packed[wire]];
    expect(buffers(first, wire)).toEqual([stream]);
    expect(buffers(last, wire)).toEqual([stream, ...beside[wire]]);
    expect(buffers([0, model.layers], wire)).toEqual([]);
    expect(buffers(last, 'f32')).toEqual([]);
  }
  // Links with encodings of their own share the place; what each leaves over or is drawn by is its own.
  expect(buffers(last, 'f32', 'f16', 'int4')).toEqual([[WIRE, packed.f16], ...beside.int4]);
  expect(buffers(last, 'int8', 'int4')).toEqual([[WIRE, packed.int8], ...beside.int8, ...beside.int4]);
});

describe('logits', () => {
  const MEBIBYTE = 2 ** 20;
  const logitsOf = (vocabulary: number, samples: number): number => {
    const gpt2 = modelFromConfig({ model_type: 'gpt2', n_layer: 1, vocab_size: vocabulary });
    invariant(gpt2.ok, 'a valid model');
    const buffers = stageBuffers(gpt2.value, { layers: [0, 1], samples, sequence: 1024, slots: 2 });
    const [logits, ...more] = buffers.filter(({ name }) => name.includes('logits'));
    invariant(logits && more.length === 0, 'one buffer for all slots');
    return logits.bytes;
  };

  test.each([
    [256, 8, 8 * 1024],
    [32_000, 8, 512],
    [50_257, 1, 256],
    [50_257, 8, 256],
    [128_256, 8, 128],
    [262_144, 8, 64],
  ])('V = %i, %i samples of 1024: those of %i rows, in 64 MiB', (vocabulary, samples, rows) => {
    expect(logitsOf(vocabulary, samples)).toBe(rows * vocabulary * 4);
    expect(rows * vocabulary * 4).toBeLessThanOrEqual(64 * MEBIBYTE);
  });
});

describe('sharded state (ZeRO, Rajbhandari et al. 2020), N peers with all layers each, Ψ parameters', () => {
  const small = modelFromConfig({ model_type: 'gpt2' });
  invariant(small.ok, 'GPT-2 small is the default');
  const model = small.value;
  const parameters = model.blocks.reduce((sum, { elements }) => sum + elements, 0);
  const lanes = (count: number): Plan => {
    const peers = Array.from({ length: count }, (_, index) => peerId(`d${index}`));
    return equalSplit(model, count, peers, { stages: 1, microBatches: count });
  };
  /** Bytes a parameter in the buffers of one kind. */
  const each = (specs: readonly BufferSpec[], kind: string): number =>
    specs.filter(({ name }) => name.startsWith(`${kind}/`)).reduce((sum, { bytes }) => sum + bytes, 0) / parameters;

  test.each([1, 2, 4, 8])('N = %i: 8 bytes a parameter, 8/N of moments, and 8/N on their way where N > 1', (count) => {
    const plan = lanes(count);
    const specs = [...(plan.stages[0]?.members ?? [])].map(({ peer }) => [
      ...[...stagesOfPeer(plan, peer, 16).values()].flatMap((size) => stageBuffers(model, size)),
      ...shardBuffers(model, plan, peer),
    ]);
    const mean = (kind: string) => specs.reduce((sum, one) => sum + each(one, kind), 0) / count;
    // Within a hundredth: tensors are padded for their alignment.
    for (const kind of ['values', 'gradients']) expect(mean(kind), kind).toBeCloseTo(4, 2);
    for (const kind of ['m', 'v']) expect(mean(kind), kind).toBeCloseTo(4 / count, 2);
    for (const kind of ['sum', 'incoming']) expect(mean(kind), kind).toBeCloseTo(count > 1 ? 4 / count : 0, 2);
  });

  test('each peer sends 2(N − 1)/N of the parameters a step: no more than an all-reduce, in two hops', () => {
    for (const count of [2, 4, 8]) {
      const plan = lanes(count);
      const sent = new Map<PeerId, number>();
      const send = (peer: PeerId, elements: number) => sent.set(peer, (sent.get(peer) ?? 0) + elements);
      for (const { block, shards } of plan.state)
        for (const shard of shards)
          for (const { peer, ranges } of holders(model, plan).get(block) ?? []) {
            if (peer === shard.peer) continue;
            const elements = ranges.reduce((sum, range) => {
              const part = overlap(range, shard.range);
              return sum + (part ? part[1] - part[0] : 0);
            }, 0);
            // Its gradient there, the new values back.
            send(peer, elements);
            send(shard.peer, elements);
          }
      const all = [...sent.values()].reduce((sum, elements) => sum + elements, 0);
      expect(all).toBe(2 * (count - 1) * parameters);
      for (const elements of sent.values()) expect(elements / parameters).toBeCloseTo((2 * (count - 1)) / count, 1);
    }
  });
});

test('[IS111] who keeps state in a group has room for a meeting: what comes of it, one value, and all that is said', () => {
  const peer = peerId('a');
  const plan = equalSplit(model, 1, [peer]);
  const elements = model.blocks.reduce((sum, block) => sum + block.elements, 0);
  const floats = (
    own: readonly number[] | undefined,
    run: Partial<Pick<Islands, 'exchange' | 'publish' | 'overlap'>>,
    more: Pick<Plan, 'owned'> = {},
  ): number => {
    const islands = { ...islandsOf(4, 2), ...run };
    return hostBytes(own ? { ...plan, ...more, islands: own } : plan, peer, islands) / (4 * elements);
  };
  const dense = { exchange: 'f32', publish: 'f32' } as const;
  expect(hostBytes(plan, peer, undefined)).toBe(0);
  // Three islands that wait, three kinds each; what is shared, and its momentum.
  expect(floats(undefined, dense)).toBe(3 * 3 + 2);
  // One that waits; two shared, again; a value; four packets.
  expect(floats([1, 3], dense)).toBe(3 + 2 + 2 + 1 + 4);
  // Where they go on meanwhile: of both islands what they ended the round with.
  expect(floats([1, 3], { ...dense, overlap: true })).toBe(3 + 2 + 2 + 2 + 4);
  // Left-overs of both and what is published, each twice; of 64 elements two magnitudes, and eight entries of eight bits.
  const sparse = { exchange: { top: 8, chunk: 64, feedback: 0.9 }, publish: 'int8' } as const;
  expect(floats([1, 3], sparse)).toBeCloseTo(3 + 2 + 3 + 2 + 3 + 1 + (4 * (2 + 2)) / 64, 6);
  // With owners neither what is shared nor its momentum; codes of what is published; what its own two islands said.
  expect(floats([1, 3], sparse, { owned: true })).toBeCloseTo(3 + 2 + 1 + 2 + 1 + 17 / 64 + 1 + (2 * (2 + 2)) / 64, 6);
});
