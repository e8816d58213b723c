import { describe, expect, test } from 'vitest';
import { at, got, normal, seededRandom } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { initialValues } from '../model/initialValues.ts';
import { type BlockName, block, type Model } from '../model/model.ts';
import { NO_TARGET } from '../run/data.ts';
import { generate } from './generate.ts';
import { lossAndGradients, meanLoss, referenceTensors } from './trainer.ts';

const LLAMA = {
  ...{ num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 6, hidden_size: 7 },
  ...{ intermediate_size: 5, max_position_embeddings: 5, vocab_size: 11 },
};
const CONFIGS: Readonly<Record<Model['family'], Readonly<Record<string, unknown>>>> = {
  gpt2: { n_layer: 2, n_head: 3, n_embd: 9, n_inner: 7, n_positions: 5, vocab_size: 11 },
  llama: { ...LLAMA, rope_theta: 30 },
  qwen2: { ...LLAMA, rope_theta: 30, rope_scaling: { rope_type: 'linear', factor: 3 } },
  qwen3: { ...LLAMA, rope_theta: 30 },
  smollm3: { ...LLAMA, rope_theta: 30, no_rope_layers: [1, 0] },
  gemma3_text: {
    ...{ ...LLAMA, query_pre_attn_scalar: 3, sliding_window: 2, sliding_window_pattern: 2 },
    ...{ rope_theta: 30, rope_local_base_freq: 20, rope_scaling: { rope_type: 'linear', factor: 3 } },
  },
};
const FAMILIES = Object.keys(CONFIGS) as Model['family'][];

function tinyModel(
  tied: boolean,
  family: Model['family'] = 'gpt2',
): { model: Model; tensors: Map<string, Float64Array> } {
  const config = { ...CONFIGS[family], model_type: family };
  const parsed = modelFromConfig({ ...config, tie_word_embeddings: tied, initializer_range: 0.5 });
  if (!parsed.ok) throw new Error(parsed.reason);
  const model = parsed.value;
  const random = seededRandom(5);
  const tensors = referenceTensors(model, (name) => initialValues(model, name as BlockName, 3));
  for (const values of tensors.values())
    for (const [i, value] of values.entries()) values[i] = value + 0.1 * normal(random);
  return { model, tensors };
}

const TEXT = [
  [1, 4, 4, 10, 0],
  [7, 2, 9, 1, 3],
];
/** Two examples of three rows and one, and padding; then one of five rows; some count. */
const EXAMPLES = [
  {
    ids: Uint32Array.of(1, 4, 4, 10, 0),
    targets: Uint32Array.of(NO_TARGET, 4, 10, 5, NO_TARGET),
    firstRows: Uint32Array.of(0, 0, 0, 3, 4),
  },
  { ids: Uint32Array.of(7, 2, 9, 1, 3), targets: Uint32Array.of(2, 9, 1, NO_TARGET, 8), firstRows: new Uint32Array(5) },
];

/** The same model where a row sees the last two rows alone. */
const windowed = (model: Model): Model => ({
  ...model,
  layer: (index) => model.layer(index).map((row) => (row.op === 'attention' ? { ...row, window: 2 } : row)),
});

describe('gradients agree with finite differences', () => {
  const kinds = [
    ...FAMILIES.flatMap((name) => [true, false].map((isTied) => [name, isTied, 'running text'] as const)),
    ...FAMILIES.map((name) => [name, true, 'examples, and sees two rows'] as const),
  ];
  for (const [family, tied, kind] of kinds)
    test(`${family}, ${tied ? 'tied head' : 'untied head'}, ${kind}`, () => {
      const { model: whole, tensors } = tinyModel(tied, family);
      const model = kind === 'running text' ? whole : windowed(whole);
      const windows = kind === 'running text' ? TEXT : EXAMPLES;
      const { gradients } = lossAndGradients(model, tensors, windows);
      const random = seededRandom(9);
      for (const [name, values] of tensors)
        for (let tries = 0; tries < 4; tries++) {
          const i = Math.floor(random() * values.length);
          const kept = at(values, i);
          const lossAt = (value: number) => {
            values[i] = value;
            return meanLoss(model, tensors, windows);
          };
          const slope = (lossAt(kept + 1e-5) - lossAt(kept - 1e-5)) / 2e-5;
          values[i] = kept;
          expect(Math.abs(slope - at(got(gradients, name), i)), `${name}[${i}]`).toBeLessThan(1e-8);
        }
    });

  test('parts of a step add up to the step', () => {
    const { model, tensors } = tinyModel(true);
    const windows = [
      [1, 4, 4, 10, 0],
      [7, 2, 9, 1, 3],
      [5, 5, 6, 0, 8],
    ];
    const whole = lossAndGradients(model, tensors, windows);
    const parts = windows.map((window) => lossAndGradients(model, tensors, [window], 12));
    expect(parts.reduce((sum, { loss }) => sum + loss, 0)).toBeCloseTo(whole.loss, 12);
    for (const [name, values] of whole.gradients)
      values.forEach((value, i) => {
        const sum = parts.reduce((total, { gradients }) => total + at(got(gradients, name), i), 0);
        expect(Math.abs(sum - value)).toBeLessThan(1e-12);
      });
  });
});

describe('generate', () => {
  test.each(FAMILIES)('%s: greedy text is the likeliest next token each time, also past the positions', (family) => {
    const { model, tensors } = tinyModel(true, family);
    const added = generate(model, tensors, [3, 1], { count: 9, atFull: 'slide', temperature: 0, seed: 0 });
    // The same by brute force: the text's tail, read whole for each token and judged by the loss of each candidate.
    const text = [3, 1];
    let start = 0;
    while (text.length < 11) {
      if (text.length - start > model.positions) start = text.length - Math.ceil(model.positions / 2);
      const losses = Array.from({ length: model.vocabulary }, (_, v) =>
        meanLoss(model, tensors, [[...text.slice(start), v]]),
      );
      text.push(losses.indexOf(Math.min(...losses)));
    }
    expect(added).toEqual(text.slice(2));
  });

  test('with a temperature the seed decides', () => {
    const { model, tensors } = tinyModel(false);
    const text = (seed: number) =>
      generate(model, tensors, [1, 2, 3, 4, 5, 6, 7], {
        count: 12,
        atFull: 'slide',
        temperature: 1,
        seed,
      });
    expect(text(4)).toEqual(text(4));
    expect(text(4)).not.toEqual(text(5));
  });
});

test('a block made from a seed is the same alone, has the right spread, and differs by tensor', () => {
  const { model } = tinyModel(true);
  const first = initialValues(model, 'layer.1', 8);
  expect(initialValues(model, 'layer.1', 8)).toEqual(first);
  expect(initialValues(model, 'layer.0', 8)).not.toEqual(first);
  expect(initialValues(model, 'layer.1', 8 + 2 ** 32)).not.toEqual(first);
  const wide = modelFromConfig({
    model_type: 'gpt2',
    n_layer: 8,
    n_head: 1,
    n_embd: 96,
    n_positions: 4,
    vocab_size: 5,
  });
  if (!wide.ok) throw new Error(wide.reason);
  const values = initialValues(wide.value, 'layer.3', 1);
  for (const { name, offset, elements, initial } of block(wide.value, 'layer.3').tensors) {
    const part = values.subarray(offset, offset + elements);
    const deviation = Math.sqrt(part.reduce((sum, value) => sum + value * value, 0) / elements);
    const expected = { ones: 1, zeros: 0, normal: 0.02, residual: 0.02 / 4, uniform: 1 / Math.sqrt(3 * 96) }[initial];
    expect(Math.abs(deviation - expected), name).toBeLessThan(0.03 * expected + 1e-12);
  }
});
