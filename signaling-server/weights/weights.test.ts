import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import { encodeHeader, headerBytes, parseHeader } from '../../swarm/model/safetensors.ts';
import { exportFolder, exportTarget } from './exportFolder.ts';
import { openWeights, seededWeights } from './weights.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-weights-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const CONFIG = { model_type: 'gpt2', n_layer: 2, n_head: 1, n_embd: 4, n_inner: 3, n_positions: 5, vocab_size: 7 };
const modelOf = (config: object, use?: 'inference'): Model => {
  const parsed = modelFromConfig(config, use);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
};
const model = modelOf(CONFIG);

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
}
const tensorsOf = ({ blocks }: Model): Tensor[] => blocks.flatMap(({ tensors }) => tensors);
/** Elements 0, 1, 2, … through the whole file. */
function write(tensors: readonly Tensor[], cut = 0): string {
  const path = join(folder, 'model.safetensors');
  const elements = tensors.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
  const data = Float32Array.from({ length: elements }, (_, i) => i);
  const bytes = Buffer.concat([encodeHeader(tensors), new Uint8Array(data.buffer)]);
  writeFileSync(path, bytes.subarray(0, bytes.length - cut));
  return path;
}
const refused = async (path: string, of = model): Promise<string> => {
  const opened = await openWeights(path, of);
  if (opened.ok) await opened.value.close();
  return opened.ok ? 'accepted' : opened.reason.replaceAll(folder, 'DIR');
};

describe('openWeights', () => {
  test.each([
    ['with', (name: string) => name],
    ['without', (name: string) => name.replace('transformer.', '')],
  ])('names %s the prefix are read range by range, mask buffers left aside', async (_, rename) => {
    const mask = { name: rename('transformer.h.1.attn.bias'), shape: [1, 1, 5, 5] };
    const tensors = tensorsOf(model).map(({ name, shape }) => ({ name: rename(name), shape }));
    const opened = await openWeights(write([...tensors, mask]), model);
    if (!opened.ok) throw new Error(opened.reason);
    const weights = opened.value;
    expect(weights.tensorNames?.['transformer.wte.weight']).toBe(rename('transformer.wte.weight'));
    let start = 0;
    for (const { name, elements } of model.blocks) {
      for (const [from, to] of [
        [0, elements],
        [1, 7],
        [elements - 2, elements],
        [3, 3],
      ] as const)
        expect([...(await weights.readBlock(name, from, to))]).toEqual(
          Array.from({ length: to - from }, (_, i) => start + from + i),
        );
      start += elements;
    }
    await weights.close();
  });

  test('bfloat16 becomes float32', async () => {
    const header = { dtype: 'BF16', shape: [7, 4], data_offsets: [0, 56] };
    const rest = tensorsOf(model).slice(1);
    let offset = 56;
    const entries = rest.map(({ name, shape }) => {
      const from = offset;
      offset += shape.reduce((product, size) => product * size, 4);
      return [name, { dtype: 'F32', shape, data_offsets: [from, offset] }];
    });
    const json = Buffer.from(JSON.stringify({ 'transformer.wte.weight': header, ...Object.fromEntries(entries) }));
    const bytes = Buffer.alloc(8 + json.length + offset);
    bytes.writeBigUInt64LE(BigInt(json.length));
    json.copy(bytes, 8);
    for (let i = 0; i < 28; i++) bytes.writeUInt16LE(0x3f80 + i, 8 + json.length + 2 * i);
    const path = join(folder, 'bf16.safetensors');
    writeFileSync(path, bytes);
    const opened = await openWeights(path, model);
    if (!opened.ok) throw new Error(opened.reason);
    expect([...(await opened.value.readBlock('embedding', 1, 4))]).toEqual([1 + 1 / 128, 1 + 2 / 128, 1 + 3 / 128]);
    await opened.value.close();
  });

  test('a missing, extra, mis-shaped or repeated tensor is refused by name', async () => {
    const tensors = tensorsOf(model);
    const changed = (name: string, shape: readonly number[]) =>
      tensors.map((tensor) => (tensor.name === name ? { name, shape } : tensor));
    expect(await refused(write(tensors.slice(1)))).toBe(
      "DIR/model.safetensors lacks the model's tensor transformer.wte.weight [7, 4]",
    );
    expect(await refused(write([...tensors, { name: 'transformer.h.2.ln_1.bias', shape: [4] }]))).toBe(
      'DIR/model.safetensors has a tensor that the model does not have: transformer.h.2.ln_1.bias',
    );
    expect(await refused(write([...tensors, { name: 'wte.weight', shape: [7, 4] }]))).toContain(
      'does not have: wte.weight',
    );
    expect(await refused(write([...tensors, { name: 'lm_head.weight', shape: [7, 5] }]))).toContain(
      'has lm_head.weight in shape [7, 5]: the model needs [7, 4]',
    );
    expect(await refused(write(changed('transformer.wpe.weight', [4, 5])))).toBe(
      'DIR/model.safetensors has transformer.wpe.weight in shape [4, 5]: the model needs [5, 4]',
    );
    const untied = modelOf({ ...CONFIG, tie_word_embeddings: false });
    expect(await refused(write(tensors), untied)).toContain("lacks the model's tensor lm_head.weight [7, 4]");
    expect(await refused(write(tensorsOf(untied)), untied)).toBe('accepted');
  });

  test('what is no whole safetensors file is refused', async () => {
    expect(await refused(write(tensorsOf(model), 5))).toContain('is truncated: its tensors need');
    expect(await refused(join(folder, 'gone'))).toBe(
      'DIR/gone: there is no such file: a safetensors file, its index or a folder with either was expected',
    );
    for (const text of ['', 'abc', 'this is some text, not tensors']) {
      writeFileSync(join(folder, 'text'), text);
      expect(await refused(join(folder, 'text'))).toMatch(/is too short|is no safetensors file/);
    }
  });
});

describe('[FI12] the head of a tied model', () => {
  const LLAMA = {
    ...{ model_type: 'llama', num_hidden_layers: 1, num_attention_heads: 1, hidden_size: 4, intermediate_size: 3 },
    ...{ vocab_size: 7, tie_word_embeddings: true },
  };
  const HEAD = { name: 'lm_head.weight', shape: [7, 4] };
  /** Every tensor's elements are 0, 1, 2, …; the head's from `head` on. */
  function part(name: string, tensors: readonly Tensor[], head = 0): string {
    const data = tensors.flatMap((tensor) =>
      Array.from({ length: tensor.shape.reduce((product, size) => product * size, 1) }, (_, i) =>
        tensor.name === HEAD.name ? i + head : i,
      ),
    );
    writeFileSync(
      join(folder, name),
      Buffer.concat([encodeHeader(tensors), new Uint8Array(Float32Array.from(data).buffer)]),
    );
    return join(folder, name);
  }
  async function opened(path: string, of: Model) {
    const weights = await openWeights(path, of);
    if (!weights.ok) throw new Error(weights.reason);
    const { model: found, tensorNames, readBlock, close } = weights.value;
    const table = await readBlock('embedding', 0, 3);
    const { elements } = found.blocks.at(-1) ?? { elements: 0 };
    const head = await readBlock('head', elements - 3, elements);
    await close();
    return { found, tensorNames, table: [...table], head: [...head] };
  }

  test.each([
    ['gpt2', model, 'transformer.'],
    ['llama', modelOf(LLAMA), 'model.'],
  ])('%s: equal to the table it is tied, alone it is the table, else the model is untied', async (_, tied, prefix) => {
    const tensors = tensorsOf(tied);
    const [table = HEAD, ...rest] = tensors;
    const equal = await opened(part('equal', [...tensors, HEAD]), tied);
    expect(equal.found.tied).toBe(true);
    expect(equal.tensorNames).not.toHaveProperty([HEAD.name]);
    const other = await opened(part('other', [...tensors, HEAD], 5), tied);
    expect(other.found.tied).toBe(false);
    expect(other.found.config).toEqual({ ...tied.config, tie_word_embeddings: false });
    expect([other.table, other.head]).toEqual([
      [0, 1, 2],
      [30, 31, 32],
    ]);
    const alone = await opened(part('alone', [...rest, HEAD], 5), tied);
    expect(alone.found.tied).toBe(true);
    expect(alone.table).toEqual([5, 6, 7]);
    expect(alone.tensorNames?.[table.name]).toBe(table.name);
    const bare = [...rest.map((tensor) => ({ ...tensor, name: tensor.name.replace(prefix, '') })), HEAD];
    expect((await opened(part('bare', bare), tied)).tensorNames?.[table.name]).toBe(table.name.replace(prefix, ''));
    expect(await refused(part('neither', rest), tied)).toContain(`lacks the model's tensor ${table.name}`);
  });

  test('the published config of GPT-2 has dropout, which matters only for training', async () => {
    const published = modelOf({ ...CONFIG, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1 }, 'inference');
    const tensors = tensorsOf(published);
    expect((await opened(part('tied', tensors), published)).found).toBe(published);
    const { found } = await opened(part('other', [...tensors, HEAD], 5), published);
    expect([found.tied, found.config.resid_pdrop]).toEqual([false, 0.1]);
  });

  test('it may stand in another part than the table', async () => {
    const tensors = tensorsOf(model);
    part('a.safetensors', tensors);
    part('b.safetensors', [HEAD], 1);
    const places = Object.fromEntries(tensors.map(({ name }) => [name, 'a.safetensors']));
    const index = { weight_map: { ...places, [HEAD.name]: 'b.safetensors' } };
    writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify(index));
    const { found, head } = await opened(folder, model);
    expect([found.tied, head]).toEqual([false, [26, 27, 28]]);
  });
});

test('[FI2] a buffer may have a type that is not read, a tensor of the model not', async () => {
  const typed = (name: string, dtype: string): string => {
    const tensors = [{ name, shape: [2, 2] }, ...tensorsOf(model).filter((tensor) => tensor.name !== name)];
    const start = Buffer.from(encodeHeader(tensors));
    const json = start.toString('utf8', 8).trim().replace('"F32"', JSON.stringify(dtype));
    const header = Buffer.alloc(8 + json.length);
    header.writeBigUInt64LE(BigInt(json.length));
    header.write(json, 8);
    const floats = tensors.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
    writeFileSync(join(folder, 'typed'), Buffer.concat([header, Buffer.alloc(4 * floats)]));
    return join(folder, 'typed');
  };
  for (const dtype of ['F8_E8M0', 'F4', 'constructor', 'F32'])
    expect(await refused(typed('h.0.attn.masked_bias', dtype))).toBe('accepted');
  expect(await refused(typed('transformer.h.0.ln_3.bias', 'F8_E8M0'))).toContain(
    'a tensor that the model does not have',
  );
});

test('weights from a seed read the same in any order', async () => {
  const weights = seededWeights(model, 3);
  const whole = await weights.readBlock('layer.1', 0, 100);
  await weights.readBlock('embedding', 0, 3);
  expect([...(await weights.readBlock('layer.1', 30, 60))]).toEqual([...whole.slice(30, 60)]);
});

describe('exportFolder', () => {
  const content = (tensorNames: Record<string, string> | null = null) => ({
    model,
    tensorNames,
    read: seededWeights(model, 3).readBlock,
    metadata: { step: '5' },
  });

  test('the folder opens again with the same values and the config verbatim', async () => {
    const out = join(folder, 'deep', 'export');
    expect(await exportFolder(out, content())).toEqual({ ok: true, value: out });
    expect(readdirSync(join(folder, 'deep'))).toEqual(['export']);
    expect(readdirSync(out)).toEqual(['config.json', 'model.safetensors']);
    expect(JSON.parse(readFileSync(join(out, 'config.json'), 'utf8'))).toEqual({
      architectures: ['GPT2LMHeadModel'],
      ...CONFIG,
    });
    const opened = await openWeights(out, model);
    if (!opened.ok) throw new Error(opened.reason);
    for (const { name, elements } of model.blocks)
      expect(await opened.value.readBlock(name, 0, elements)).toEqual(await content().read(name, 0, elements));
    await opened.value.close();
    const bytes = readFileSync(join(out, 'model.safetensors'));
    const length = headerBytes(bytes, bytes.length);
    if (!length.ok) throw new Error(length.reason);
    const header = parseHeader(bytes.subarray(8, 8 + length.value), bytes.length - 8 - length.value);
    if (!header.ok) throw new Error(header.reason);
    expect(header.value.metadata).toEqual({ format: 'pt', step: '5' });
  });

  test("names are the init file's, an empty folder is taken, a full one refused", async () => {
    const golden = fileURLToPath(new URL('../../e2e/golden/untied-gpt2', import.meta.url));
    const untied = modelOf(JSON.parse(readFileSync(join(golden, 'run.json'), 'utf8')).model);
    const opened = await openWeights(join(golden, 'init.safetensors'), untied);
    if (!opened.ok) throw new Error(opened.reason);
    const bare = Object.fromEntries(
      Object.keys(opened.value.tensorNames ?? {}).map((name) => [name, name.replace('transformer.', '')]),
    );
    const out = join(folder, 'export');
    mkdirSync(out);
    const written = await exportFolder(out, { model: untied, tensorNames: bare, read: opened.value.readBlock });
    expect(written.ok).toBe(true);
    const again = await openWeights(join(out, 'model.safetensors'), untied);
    if (!again.ok) throw new Error(again.reason);
    expect(again.value.tensorNames).toEqual(bare);
    for (const { name, elements } of untied.blocks)
      expect(await again.value.readBlock(name, 0, elements)).toEqual(await opened.value.readBlock(name, 0, elements));
    await Promise.all([opened.value.close(), again.value.close()]);
    expect(await exportFolder(out, content())).toEqual({
      ok: false,
      reason: `${out} is not empty: an export needs a new or an empty folder`,
    });
    expect((await exportTarget(join(out, 'config.json'))).ok).toBe(false);
  });

  test('a reader or a disk that fails leaves nothing behind', async () => {
    const out = join(folder, 'export');
    const failing = { ...content(), read: () => Promise.reject(new Error('lost')) };
    await expect(exportFolder(out, failing)).rejects.toThrow('lost');
    const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
    expect(await exportFolder(out, { ...content(), read: () => Promise.reject(full) })).toEqual({
      ok: false,
      reason: `${out} could not be written: its disk is full`,
    });
    expect(readdirSync(folder)).toEqual([]);
  });
});
