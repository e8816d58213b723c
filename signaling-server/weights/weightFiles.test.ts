import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import { openBlobs } from '../files/blobs.ts';
import { checkpointWeights, storeInitialState } from '../store/checkpointState.ts';
import { openWeights, seededWeights, type Weights } from './weights.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-parts-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function modelOf(config: object): Model {
  const parsed = modelFromConfig(config);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}
const model = modelOf({ model_type: 'gpt2', n_layer: 2, n_head: 1, n_embd: 4, n_positions: 5, vocab_size: 7 });
const llama = modelOf({
  model_type: 'llama',
  num_hidden_layers: 2,
  num_attention_heads: 2,
  hidden_size: 4,
  intermediate_size: 6,
  max_position_embeddings: 5,
  vocab_size: 7,
});

type Dtype = 'F32' | 'F16' | 'BF16';
interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  /** As the file has them. */
  readonly bits: readonly number[];
}

const ONE: Readonly<Record<Dtype, number>> = { F32: 0x3f800000, F16: 0x3c00, BF16: 0x3f80 };
const NAN: Readonly<Record<Dtype, number>> = { F32: 0x7fc00000, F16: 0x7e00, BF16: 0x7fc0 };

/** Tensors whose element k is `ONE` and k of its smallest steps more. */
const tensorsOf = (of: Model, dtype: Dtype = 'F32'): Tensor[] =>
  of.blocks.flatMap(({ tensors }) =>
    tensors.map(({ name, shape, elements }) => ({
      name,
      shape,
      dtype,
      bits: Array.from({ length: elements }, (_, i) => ONE[dtype] + (i % 100)),
    })),
  );

function safetensors(tensors: readonly Tensor[]): Buffer {
  const header: Record<string, unknown> = {};
  let offset = 0;
  const data = tensors.map(({ name, shape, dtype, bits }) => {
    const bytes = Buffer.from((dtype === 'F32' ? Uint32Array : Uint16Array).from(bits).buffer);
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
    return bytes;
  });
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, ...data]);
}

const write = (name: string, content: string | Buffer): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

/** Every tensor into the part that `partOf` says, and the index of it. */
function writeParts(tensors: readonly Tensor[], partOf: (tensor: Tensor, index: number) => string): string {
  const places = new Map(tensors.map((tensor, index) => [tensor, partOf(tensor, index)]));
  for (const part of new Set(places.values()))
    write(part, safetensors(tensors.filter((tensor) => places.get(tensor) === part)));
  return writeIndex([...places].map(([{ name }, part]) => [name, part]));
}
const writeIndex = (entries: [string, string][]): string =>
  write('model.safetensors.index.json', JSON.stringify({ metadata: {}, weight_map: Object.fromEntries(entries) }));

async function reason(path: string, of = model): Promise<string> {
  const opened = await openWeights(path, of);
  if (opened.ok) await opened.value.close();
  return opened.ok ? 'accepted' : opened.reason.replaceAll(folder, 'DIR');
}

async function values(weights: Weights, of = model): Promise<number[]> {
  const blocks = await Promise.all(of.blocks.map(({ name, elements }) => weights.readBlock(name, 0, elements)));
  await weights.close();
  return blocks.flatMap((block) => [...block]);
}

async function valuesAt(path: string, of = model): Promise<number[]> {
  const opened = await openWeights(path, of);
  if (!opened.ok) throw new Error(opened.reason);
  return values(opened.value, of);
}

const same = (a: Float32Array, b: Float32Array): boolean =>
  Buffer.compare(new Uint8Array(a.buffer), new Uint8Array(b.buffer)) === 0;

const steps = (of: Model, ulp: number): number[] =>
  of.blocks.flatMap(({ tensors }) =>
    tensors.flatMap(({ elements }) => Array.from({ length: elements }, (_, i) => 1 + (i % 100) * ulp)),
  );

describe('a model is one file, an index of parts, or a folder with either', () => {
  test.each([
    ['F32', 2 ** -23],
    ['F16', 2 ** -10],
    ['BF16', 2 ** -7],
  ] as const)('[FI3] %s, in every form', async (dtype, ulp) => {
    const tensors = tensorsOf(model, dtype);
    const expected = steps(model, ulp);
    const index = writeParts(tensors, (_, i) => `model-0000${1 + (i % 3)}-of-00003.safetensors`);
    expect(await valuesAt(index)).toEqual(expected);
    expect(await valuesAt(folder)).toEqual(expected);
    write('model.safetensors', safetensors([...tensors].reverse()));
    rmSync(index);
    expect(await valuesAt(folder)).toEqual(expected);
    expect(await valuesAt(join(folder, 'model.safetensors'))).toEqual(expected);
    expect(await valuesAt(write('another name', safetensors(tensors)))).toEqual(expected);
  });

  test('[FI2] a Llama checkpoint, with or without its prefix, angles left aside', async () => {
    for (const prefix of ['model.', '']) {
      const tensors = tensorsOf(llama).map((tensor) => ({ ...tensor, name: tensor.name.replace(/^model\./, prefix) }));
      const name = `${prefix}layers.1.self_attn.rotary_emb.inv_freq`;
      const angles: Tensor = { name, shape: [1], dtype: 'F32', bits: [0] };
      const path = write('llama.safetensors', safetensors([...tensors, angles]));
      expect(await valuesAt(path, llama)).toEqual(steps(llama, 2 ** -23));
      const opened = await openWeights(path, llama);
      if (!opened.ok) throw new Error(opened.reason);
      expect(opened.value.tensorNames?.['model.norm.weight']).toBe(`${prefix}norm.weight`);
      await opened.value.close();
    }
  });
});

describe('what does not fit is refused in one sentence', () => {
  const tensors = tensorsOf(model);
  const half = (tensor: Tensor): string => (tensors.indexOf(tensor) < 8 ? 'a.safetensors' : 'b.safetensors');
  const first = 'transformer.wte.weight';

  test('an index', async () => {
    const index = writeParts(tensors, half);
    expect(await reason(index)).toBe('accepted');
    const entries = tensors.map((tensor): [string, string] => [tensor.name, half(tensor)]);
    rmSync(join(folder, 'b.safetensors'));
    expect(await reason(index)).toBe(
      `DIR/model.safetensors.index.json puts ${tensors[8]?.name} into b.safetensors, but there is no such file beside it`,
    );
    write('b.safetensors', safetensors(tensors.slice(7)));
    expect(await reason(index)).toBe(
      `DIR/model.safetensors.index.json has ${tensors[7]?.name} in two parts: DIR/a.safetensors and DIR/b.safetensors`,
    );
    write('b.safetensors', safetensors(tensors.slice(9)));
    expect(await reason(index)).toBe(
      `DIR/model.safetensors.index.json puts ${tensors[8]?.name} into DIR/b.safetensors, which does not have it`,
    );
    expect(await reason(writeIndex(entries.filter(([name]) => name !== tensors[8]?.name)))).toBe(
      `DIR/model.safetensors.index.json lacks the model's tensor ${tensors[8]?.name} [4]`,
    );
    write('b.safetensors', safetensors(tensors.slice(8)).subarray(0, -3));
    expect(await reason(index)).toMatch(/^DIR\/b\.safetensors is truncated: its tensors need/);
    writeIndex([[first, '../a.safetensors']]);
    expect(await reason(index)).toContain(`puts ${first} into ../a.safetensors, but there is no such file`);
  });

  test('an index that is not JSON', async () => {
    expect(await reason(write('x.json', '{'))).toBe(
      'DIR/x.json is not valid JSON: it ends in line 1 where a name in quotes or } belongs; an index of weights was expected',
    );
  });

  test('an index with a byte-order mark', async () => {
    write('a.safetensors', safetensors(tensors));
    const map = Object.fromEntries(tensors.map(({ name }) => [name, 'a.safetensors']));
    expect(await reason(write('x.json', `\uFEFF${JSON.stringify({ weight_map: map })}`))).toBe('accepted');
  });

  test.each(['[]', '{}', '{"weight_map": 3}', '{"weight_map": {"a": 3}}'])('an index that reads %j', async (text) => {
    expect(await reason(write('x.json', text))).toBe(
      'DIR/x.json is not an index of weights: an object with a weight_map from tensor to file was expected',
    );
  });

  test('a folder without weights, a type that is no number', async () => {
    expect(await reason(folder)).toBe('DIR has neither model.safetensors nor model.safetensors.index.json');
    const whole = safetensors(tensors).toString('latin1').replace('"F32"', '"I32"');
    expect(await reason(write('model.safetensors', Buffer.from(whole, 'latin1')))).toBe(
      `DIR/model.safetensors has ${first} in I32: one of F32, F16, BF16 was expected`,
    );
  });

  test('NaN and infinity, by the name of their tensor, while checkpoint 0 is made', async () => {
    const blobs = await openBlobs(join(folder, 'blobs'));
    for (const dtype of ['F32', 'F16', 'BF16'] as const)
      for (const [bits, word] of [
        [NAN[dtype], 'NaN'],
        [dtype === 'F32' ? 0xff800000 : dtype === 'F16' ? 0xfc00 : 0xff80, '-Infinity'],
      ] as const) {
        const broken = tensorsOf(model, dtype).map((tensor, index) =>
          index === 9 ? { ...tensor, bits: tensor.bits.map((other, i) => (i === 2 ? bits : other)) } : tensor,
        );
        const path = write('model.safetensors', safetensors(broken));
        const opened = await openWeights(path, model);
        if (!opened.ok) throw new Error(opened.reason);
        const stored = await storeInitialState(blobs, model, opened.value);
        await opened.value.close();
        expect(stored.ok ? '' : stored.reason).toBe(
          `${path} has ${word} in ${broken[9]?.name}, at its element 2: finite numbers were expected`,
        );
      }
  });
});

test('checkpoint 0 is in pieces of bounded size, and reads as the weights do', async () => {
  const large = modelOf({ model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 64, n_positions: 8, vocab_size: 20_000 });
  const blobs = await openBlobs(join(folder, 'blobs'));
  const weights = seededWeights(large, 1);
  const manifest = await storeInitialState(blobs, large, weights);
  if (!manifest.ok) throw new Error(manifest.reason);
  expect(manifest.value.shards.map(({ block, range }) => [block, ...range])).toEqual([
    ['embedding', 0, 1_048_576],
    ['embedding', 1_048_576, 20_008 * 64],
    ['layer.0', 0, 12 * 64 * 64 + 13 * 64],
    ['head', 0, 128],
  ]);
  const read = checkpointWeights(blobs, manifest.value);
  for (const [from, to] of [
    [0, 20_008 * 64],
    [1_048_570, 1_048_580],
  ] as const)
    expect(same(await read('embedding', from, to), await weights.readBlock('embedding', from, to))).toBe(true);
});

test('whatever the bytes, there is a reason or there are weights', async () => {
  const good = safetensors(tensorsOf(model));
  const headerEnd = 8 + Number(good.readBigUInt64LE());
  const change = fc.oneof(
    fc.record({ at: fc.nat(good.length - 1), byte: fc.nat(255) }),
    fc.record({ at: fc.nat(headerEnd - 1), byte: fc.nat(255) }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(change, { maxLength: 4 }),
      fc.nat(good.length),
      fc.boolean(),
      async (changes, cut, isCut) => {
        const bytes = Buffer.from(good);
        for (const { at, byte } of changes) bytes[at] = byte;
        const path = write('fuzz.safetensors', isCut ? bytes.subarray(0, cut) : bytes);
        const opened = await openWeights(path, model);
        if (!opened.ok) return opened.reason.startsWith(path) && opened.reason.length > path.length;
        const read = await values(opened.value);
        return read.length === model.blocks.reduce((sum, { elements }) => sum + elements, 0);
      },
    ),
    { seed: 11, numRuns: 300 },
  );
});

test('whatever the index, there is a reason or there are weights', async () => {
  const index = writeParts(tensorsOf(model), (_, i) => `${i % 2}.safetensors`);
  const names = tensorsOf(model).map(({ name }) => name);
  const part = fc.oneof(fc.constantFrom('0.safetensors', '1.safetensors', '.', '..', '', 'a/b'), fc.string());
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.json(),
        fc
          .dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), part)
          .map((weight_map) => JSON.stringify({ weight_map })),
      ),
      async (text) => {
        writeFileSync(index, text);
        const opened = await openWeights(index, model);
        if (opened.ok) await opened.value.close();
        return opened.ok || opened.reason.startsWith(`${folder}/`);
      },
    ),
    { seed: 12, numRuns: 200 },
  );
});
