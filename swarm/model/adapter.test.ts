import { expect, test } from 'vitest';
import { invariant } from '../base.ts';
import { type Adapter, adapterModel } from './adapter.ts';
import { modelFromConfig } from './families.ts';
import { initialValues } from './initialValues.ts';
import { blocksOfStage, type Model, standingOfStage } from './model.ts';
import { program } from './program.ts';

function modelOf(config: object): Model {
  const base = modelFromConfig({ ...config });
  invariant(base.ok, 'a valid model');
  return base.value;
}

function adapted(config: object, adapter: Partial<Adapter>) {
  return adapterModel(modelOf(config), { rank: 2, alpha: 6, targets: [], rslora: false, ...adapter });
}

const LLAMA = {
  ...{ model_type: 'llama', num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, hidden_size: 8 },
  ...{ intermediate_size: 12, max_position_embeddings: 5, vocab_size: 11, tie_word_embeddings: true },
};
const GPT2 = { model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 10 };

test('the blocks hold the pairs of the targets alone, the A of one row side by side; the family stands beside them', () => {
  const found = adapted(LLAMA, { targets: ['v_proj', 'q_proj', 'down_proj'] });
  invariant(found.ok, 'a valid adapter');
  const { blocks, standing, layer } = found.value;
  expect(blocks.map(({ name }) => name)).toEqual(['layer.0', 'layer.1']);
  expect(blocks[1]?.tensors.map(({ name, shape, joined }) => [name, ...shape, joined ?? false])).toEqual([
    ['model.layers.1.self_attn.q_proj.lora_A.weight', 2, 8, false],
    ['model.layers.1.self_attn.v_proj.lora_A.weight', 2, 8, true],
    ['model.layers.1.self_attn.q_proj.lora_B.weight', 8, 2, false],
    ['model.layers.1.self_attn.v_proj.lora_B.weight', 4, 2, false],
    ['model.layers.1.mlp.down_proj.lora_A.weight', 2, 12, false],
    ['model.layers.1.mlp.down_proj.lora_B.weight', 8, 2, false],
  ]);
  const [attention] = layer(1).flatMap((row) => (row.op === 'linear' && row.adapter ? [row.adapter] : []));
  expect(attention?.scale).toBe(3);
  expect(attention?.parts.map(({ from, width, at }) => [from, width, at])).toEqual([
    [0, 8, 0],
    [12, 4, 2],
  ]);
  expect(standing?.map(({ name }) => name)).toEqual(['embedding', 'layer.0', 'layer.1', 'head']);
  // A tied head's table stands with the last stage too; of what is trained nothing is in two stages.
  expect(standingOfStage(found.value, [1, 2]).map(({ block }) => block)).toEqual(['layer.1', 'embedding', 'head']);
  expect(blocksOfStage(found.value, [1, 2]).map(({ block }) => block)).toEqual(['layer.1']);
});

test('a head that is tied has an adapter of its own, and a Conv1D one by what goes in and comes out', () => {
  const found = adapted(GPT2, { targets: ['lm_head', 'c_fc'], rank: 4, rslora: true });
  invariant(found.ok, 'a valid adapter');
  expect(found.value.blocks.flatMap(({ tensors }) => tensors.map(({ name, shape }) => [name, ...shape]))).toEqual([
    ['transformer.h.0.mlp.c_fc.lora_A.weight', 4, 4],
    ['transformer.h.0.mlp.c_fc.lora_B.weight', 16, 4],
    ['lm_head.lora_A.weight', 4, 4],
    ['lm_head.lora_B.weight', 10, 4],
  ]);
  const [row] = found.value.head.flatMap((one) => (one.op === 'linear' ? [one.adapter] : []));
  expect(row).toMatchObject({ scale: 3, parts: [{ from: 0, width: 10, at: 0 }] });
  const values = initialValues(found.value, 'head', 5);
  const a = values.subarray(0, 16);
  expect(Math.max(...a.map(Math.abs))).toBeLessThanOrEqual(0.5);
  expect(Math.max(...a.map(Math.abs))).toBeGreaterThan(0.3);
  expect(values.subarray(16).every((value) => value === 0)).toBe(true);
});

test.each([['wte'], ['q_proj'], ['ln_1'], ['attn']])('a target that is no linear module is refused: %s', (target) => {
  const found = adapted(GPT2, { targets: ['c_attn', target] });
  expect(found).toEqual({
    ok: false,
    reason: `targets: the model has no linear module ${target}, only c_attn, c_proj, c_fc, lm_head`,
  });
});

/** Rows of the first layer, and of the head, whose input's gradient nobody reads. */
const UNREAD = [
  ['q_proj', ['rmsNorm', 'linear'], []],
  ['down_proj', ['rmsNorm', 'linear', 'rotary', 'attention', 'linear', 'rmsNorm', 'linear', 'gated', 'linear'], []],
  [
    'lm_head',
    ['rmsNorm', 'linear', 'rotary', 'attention', 'linear', 'rmsNorm', 'linear', 'gated', 'linear'],
    ['rmsNorm', 'linear'],
  ],
] as const;

test.each(UNREAD)('below the lowest %s no gradient is read, above it each one', (target, layer, head) => {
  const found = adapted(LLAMA, { targets: [target] });
  invariant(found.ok, 'a valid adapter');
  const first = program(found.value, [0, 2], { recompute: [0] });
  const unread = [...first.body, ...first.head, ...first.loss].filter((step) => !step.hasTrainedBelow);
  const of = (block: string) => unread.filter(({ scope }) => scope === block).map(({ operation }) => operation.op);
  expect([of('embedding'), of('layer.0'), of('head')]).toEqual([['embed'], layer, head]);
  expect(of('layer.1')).toEqual(target === 'lm_head' ? layer : []);
  // A later stage hands its input's gradient on, and where nothing stands everything is trained.
  const later = program(found.value, [1, 2]);
  const whole = program(modelOf(LLAMA), [0, 2]);
  for (const { body, head: ending, loss } of [later, whole])
    for (const step of [...body, ...ending, ...loss])
      expect(step.hasTrainedBelow, step.y ?? '').toBe(step.operation.op !== 'embed');
});
