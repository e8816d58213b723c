import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { encodeHeader } from '../../swarm/model/safetensors.ts';
import { INITIAL_DRAFT, type RunDraft } from '../../swarm/run/runDraft.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { failed, need } from '../commands/failure.ts';
import { createRun } from '../operator/runs.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import { openWeights, seededWeights } from '../weights/weights.ts';
import { addRun, type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { exportRun } from './exportRun.ts';
import { factsOf, parseDocument } from './runDocument.ts';

let folder = '';
let data: DataDirectory;
const open = async (): Promise<void> => {
  data = need(await openDataDirectory(join(folder, 'data')), failed);
};
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-adapter-'));
  writeFileSync(join(folder, 'text.txt'), 'a text of some length. '.repeat(40));
  for (const name of ['lora-tiny', 'qwen3-tiny']) cpSync(goldenFolder(name), join(folder, name), { recursive: true });
  await open();
});
afterEach(() => {
  data.close();
  rmSync(folder, { recursive: true, force: true });
});

type Json = Record<string, unknown>;
const read = (path: string): Json => JSON.parse(readFileSync(path, 'utf8'));
const optimizer = { type: 'adamw', learningRate: 0.001, betas: [0.9, 0.95], epsilon: 1e-8 };
const LORA = { type: 'lora', rank: 2, alpha: 3, targets: ['c_attn', 'c_proj', 'lm_head'] };

/** A run of a small GPT-2, whose head is the token table. */
function gpt2Run(change: Json = {}): string {
  const path = join(folder, 'run.json');
  const file = {
    name: 'small',
    model: { model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 6, n_positions: 16, vocab_size: 256 },
    data: { files: ['text.txt'], tokenizer: 'bytes' },
    init: { seed: 4 },
    train: { steps: 3, globalBatchSize: 2, sequenceLength: 8, optimizer, adapter: LORA, ...change },
  };
  writeFileSync(path, JSON.stringify(file));
  return path;
}
async function reason(path: string): Promise<string> {
  const added = await addRun(data, path);
  return added.ok ? 'accepted' : added.reason.replaceAll(folder, 'DIR');
}
const fileOf = (name: string): RunFile => parseDocument(data.store.run(name)?.document ?? '').file;

/** Every tensor of a folder's or a file's weights, by its name there. */
function tensorsIn(path: string): Map<string, { readonly shape: number[]; readonly values: Float32Array }> {
  const bytes = readFileSync(path);
  const start = 8 + Number(bytes.readBigUInt64LE());
  const { __metadata__: _, ...header } = JSON.parse(bytes.subarray(8, start).toString('utf8'));
  return new Map(
    Object.entries<{ shape: number[]; data_offsets: [number, number] }>(header).map(([name, entry]) => {
      const [from, to] = entry.data_offsets;
      return [
        name,
        {
          shape: entry.shape,
          values: new Float32Array(new Uint8Array(bytes.subarray(start + from, start + to)).buffer),
        },
      ];
    }),
  );
}

function writeTensors(
  path: string,
  tensors: Map<string, { readonly shape: number[]; readonly values: Float32Array }>,
): void {
  const header = encodeHeader([...tensors].map(([name, { shape }]) => ({ name, shape })));
  writeFileSync(
    path,
    Buffer.concat([header, ...[...tensors.values()].map(({ values }) => new Uint8Array(values.buffer))]),
  );
}

test('the golden adapter goes in and comes out as PEFT has it, also after the files are gone', async () => {
  const golden = join(folder, 'lora-tiny');
  expect(await reason(join(golden, 'run.json'))).toBe('accepted');
  const { base, train } = factsOf(parseDocument(data.store.run('lora-tiny')?.document ?? ''));
  expect(base?.map(({ block }) => block)).toEqual(['embedding', 'layer.0', 'layer.1', 'layer.2', 'head']);
  expect(train.adapter).not.toHaveProperty('init');
  rmSync(join(folder, 'qwen3-tiny'), { recursive: true });
  data.close();
  await open(); // sweeps what nothing needs
  const out = need(await exportRun(data, 'lora-tiny', join(folder, 'out')), failed);
  expect(readdirSync(out)).toEqual([
    'README.md',
    'adapter_config.json',
    'adapter_model.safetensors',
    'tokenizer.json',
    'tokenizer_config.json',
  ]);
  const exported = tensorsIn(join(out, 'adapter_model.safetensors'));
  const given = tensorsIn(join(golden, 'adapter.safetensors'));
  expect([...exported.keys()].sort()).toEqual([...given.keys()].sort());
  for (const [name, tensor] of given) expect(exported.get(name)).toEqual(tensor);
  expect(read(join(out, 'adapter_config.json'))).toMatchObject({
    ...{ peft_type: 'LORA', task_type: 'CAUSAL_LM', r: 4, lora_alpha: 8, use_rslora: false, fan_in_fan_out: false },
    target_modules: ['q_proj', 'v_proj', 'o_proj', 'down_proj'],
  });
  expect(readFileSync(join(out, 'README.md'), 'utf8')).toContain('library_name: peft');
});

test('an export goes in again, and its config is compared with the run', async () => {
  expect(await reason(gpt2Run())).toBe('accepted');
  const out = need(await exportRun(data, 'small', join(folder, 'adapter')), failed);
  const config = read(join(out, 'adapter_config.json'));
  expect(config.fan_in_fan_out).toBe(true);
  const from = (change: Json): Promise<string> => {
    writeFileSync(join(out, 'adapter_config.json'), JSON.stringify({ ...config, ...change }));
    const path = gpt2Run({ adapter: { ...LORA, init: 'adapter' } });
    writeFileSync(path, readFileSync(path, 'utf8').replace('"small"', `"again-${JSON.stringify(change).length}"`));
    return reason(path);
  };
  const config21 = { qalora_group_size: 16, megatron_core: 'megatron.core', loftq_config: {}, lora_bias: false };
  expect(await from({ ...config21, alora_invocation_tokens: null, peft_version: '0.21.0' })).toBe('accepted');
  for (const [change, expected] of [
    [{ r: 8 }, 'has r 8, and the run train.adapter.rank 2'],
    [{ lora_alpha: 4 }, 'has lora_alpha 4, and the run train.adapter.alpha 3'],
    [{ use_rslora: true }, 'has use_rslora true, and the run train.adapter.rslora false'],
    [{ target_modules: ['c_attn'] }, 'has target_modules ["c_attn"], and the run train.adapter.targets'],
    [{ use_dora: true }, 'has use_dora true: adapters are trained as PEFT’s defaults have them'],
    [{ rank_pattern: { c_attn: 3 } }, 'has rank_pattern {"c_attn":3}'],
    [{ modules_to_save: ['wte'] }, 'has modules_to_save ["wte"]'],
    [{ lora_dropout: 0.05 }, 'has lora_dropout 0.05'],
    [{ bias: 'all' }, 'has bias "all"'],
    [{ something_new: 'x' }, 'has something_new "x"'],
  ] as const)
    expect(await from(change)).toContain(
      `train.adapter.init DIR/adapter/adapter_config.json ${expected}`.replace('’', "'"),
    );
});

test('the head of the base that PEFT keeps beside its adapter is left unread', async () => {
  expect(await reason(gpt2Run())).toBe('accepted');
  const out = need(await exportRun(data, 'small', join(folder, 'adapter')), failed);
  const tensors = tensorsIn(join(out, 'adapter_model.safetensors'));
  const head = { shape: [2, 2], values: new Float32Array(4) };
  writeTensors(
    join(folder, 'a.safetensors'),
    new Map([...tensors, ['base_model.model.lm_head.base_layer.weight', head]]),
  );
  const path = gpt2Run({ adapter: { ...LORA, init: 'a.safetensors' } });
  writeFileSync(path, readFileSync(path, 'utf8').replace('"small"', '"other"'));
  expect(await reason(path)).toBe('accepted');
});

describe('merged', () => {
  /** W + scale·B·A of a module whose weight is stored [in, out] or [out, in], by nested loops. */
  function product(a: Float32Array, b: Float32Array, rank: number, scale: number) {
    const [inputs, outputs] = [a.length / rank, b.length / rank];
    return (input: number, output: number): number => {
      let sum = 0;
      for (let k = 0; k < rank; k++) sum += (b[output * rank + k] ?? 0) * (a[k * inputs + input] ?? 0);
      return input < inputs && output < outputs ? scale * sum : Number.NaN;
    };
  }

  test('a GPT-2’s stored matrices are turned, and a tied head that the adapter touches is untied', async () => {
    // B is zero at first: an adapter of random values in its place.
    expect(await reason(gpt2Run())).toBe('accepted');
    const made = need(await exportRun(data, 'small', join(folder, 'adapter')), failed);
    const tensors = tensorsIn(join(made, 'adapter_model.safetensors'));
    const random = new Map(
      [...tensors].map(([name, { shape, values }], t) => [
        name,
        { shape, values: values.map((_, i) => Math.fround(Math.sin(1 + t + 3 * i))) },
      ]),
    );
    writeTensors(join(folder, 'adapter', 'adapter_model.safetensors'), random);
    const path = gpt2Run({ adapter: { ...LORA, rslora: false, init: 'adapter' } });
    writeFileSync(path, readFileSync(path, 'utf8').replace('"small"', '"random"'));
    expect(await reason(path)).toBe('accepted');
    const out = need(await exportRun(data, 'random', join(folder, 'merged'), { isMerged: true }), failed);
    expect(read(join(out, 'config.json'))).toMatchObject({ tie_word_embeddings: false });
    const merged = tensorsIn(join(out, 'model.safetensors'));
    const plain = need(modelFromConfig(fileOf('random').model), failed);
    const seeded = seededWeights(plain, 4);
    for (const { name: block, tensors: specs } of plain.blocks)
      for (const { name, offset, elements, shape } of specs) {
        const own = await seeded.readBlock(block, offset, offset + elements);
        const module = `base_model.model.${name.slice(0, -'.weight'.length)}`;
        const [a, b] = [random.get(`${module}.lora_A.weight`), random.get(`${module}.lora_B.weight`)];
        const [, columns = 1] = shape;
        const added = a && b ? product(a.values, b.values, 2, 1.5) : () => 0;
        const expected = own.map((value, i) => value + added(Math.floor(i / columns), i % columns));
        expect(merged.get(name)?.values).toEqual(expected);
      }
    const table = merged.get('transformer.wte.weight')?.values ?? new Float32Array();
    const [a, b] = ['A', 'B'].map((x) => random.get(`base_model.model.lm_head.lora_${x}.weight`)?.values);
    const head = product(a ?? table, b ?? table, 2, 1.5);
    expect(merged.get('lm_head.weight')?.values).toEqual(
      table.map((value, i) => value + head(i % 6, Math.floor(i / 6))),
    );
    // It opens as any other.
    const opened = need(await openWeights(out, need(modelFromConfig(read(join(out, 'config.json'))), failed)), failed);
    await opened.close();
  });

  test.each(['f16', 'int8'] as const)('a base in %s is what donors compute with', async (base) => {
    const run = read(join(folder, 'lora-tiny', 'run.json'));
    const train = { ...(run.train as Json), base };
    mkdirSync(join(folder, 'x'));
    writeFileSync(join(folder, 'lora-tiny', 'coded.json'), JSON.stringify({ ...run, name: 'coded', train }));
    expect(await reason(join(folder, 'lora-tiny', 'coded.json'))).toBe('accepted');
    expect(await reason(join(folder, 'lora-tiny', 'run.json'))).toBe('accepted');
    const out = need(await exportRun(data, 'coded', join(folder, 'coded'), { isMerged: true }), failed);
    const exact = need(await exportRun(data, 'lora-tiny', join(folder, 'exact'), { isMerged: true }), failed);
    const whole = tensorsIn(join(exact, 'model.safetensors'));
    for (const [name, { shape, values }] of tensorsIn(join(out, 'model.safetensors'))) {
      const expected = whole.get(name)?.values ?? new Float32Array();
      const largest = Math.max(...expected.map(Math.abs));
      const step = shape.length === 1 ? 0 : base === 'f16' ? 2 ** -11 * largest : largest / 100;
      expect(Math.max(...values.map((value, i) => Math.abs(value - (expected[i] ?? 0))))).toBeLessThanOrEqual(step);
    }
  });
});

test('a number that a half cannot hold is refused by tensor, an adapter of another shape too', async () => {
  const model = need(modelFromConfig(fileOfGolden().model), failed);
  const whole = tensorsIn(join(folder, 'qwen3-tiny', 'init.safetensors'));
  const tensor = whole.get('model.layers.1.mlp.up_proj.weight');
  if (!tensor) throw new Error(`the ${model.family} has it`);
  tensor.values[5] = 7e4;
  writeTensors(join(folder, 'qwen3-tiny', 'init.safetensors'), whole);
  const run = read(join(folder, 'lora-tiny', 'run.json'));
  const path = join(folder, 'lora-tiny', 'run.json');
  writeFileSync(path, JSON.stringify({ ...run, train: { ...(run.train as Json), base: 'f16' } }));
  expect(await reason(path)).toContain(
    'init model.layers.1.mlp.up_proj.weight has 70000 at its element 5, more than a half',
  );
  const train = run.train as Json;
  writeFileSync(
    path,
    JSON.stringify({ ...run, train: { ...train, adapter: { ...(train.adapter as Json), rank: 5 } } }),
  );
  expect(await reason(path)).toContain('q_proj.lora_A.weight in shape [4, 48]: the model needs [5, 48]');
});

const fileOfGolden = (): RunFile => read(join(folder, 'lora-tiny', 'run.json')) as unknown as RunFile;

test('a run drafted from one with an adapter stands on its base, with a new adapter or that of a checkpoint', async () => {
  expect(await reason(join(folder, 'lora-tiny', 'run.json'))).toBe('accepted');
  const draft = { ...INITIAL_DRAFT, source: 'lora-tiny', sequenceLength: 40, seed: 3 };
  const drafted = (name: string, part: Partial<RunDraft>) => createRun(data, null, { ...draft, name, ...part }, 0);
  expect(await drafted('fresh', {})).toMatchObject({ ok: true });
  expect(await drafted('cloned', { checkpoint: 0 })).toMatchObject({ ok: true });
  const documentOf = (name: string) => parseDocument(data.store.run(name)?.document ?? '');
  for (const name of ['fresh', 'cloned']) {
    expect(documentOf(name).base).toEqual(documentOf('lora-tiny').base);
    const { init: _, ...adapter } = fileOf('lora-tiny').train.adapter ?? {};
    expect(fileOf(name).train.adapter).toEqual({ ...adapter, seed: 3 });
  }
  const exported = async (name: string) =>
    tensorsIn(join(need(await exportRun(data, name, join(folder, `of-${name}`)), failed), 'adapter_model.safetensors'));
  expect(await exported('cloned')).toEqual(await exported('lora-tiny'));
  const b = (await exported('fresh')).get('base_model.model.model.layers.0.mlp.down_proj.lora_B.weight');
  expect(b?.values.every((value) => value === 0)).toBe(true);
  expect(await drafted('other', { model: 'tiny' })).toMatchObject({ ok: true });
  expect(documentOf('other')).not.toHaveProperty('base');
});

test('first values: A within ±1/√in from the adapter’s seed, B zero', async () => {
  expect(await reason(gpt2Run({ adapter: { ...LORA, seed: 9 } }))).toBe('accepted');
  const out = need(await exportRun(data, 'small', join(folder, 'out')), failed);
  for (const [name, { values, shape }] of tensorsIn(join(out, 'adapter_model.safetensors'))) {
    const largest = Math.max(...values.map(Math.abs));
    if (name.includes('lora_B')) expect(largest).toBe(0);
    else expect(largest * Math.sqrt(shape[1] ?? 0)).toBeLessThanOrEqual(1);
  }
  expect(modelOf(fileOf('small')).blocks.map(({ name }) => name)).toEqual(['layer.0', 'layer.1', 'head']);
});
