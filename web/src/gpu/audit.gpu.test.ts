/**
 * What an audit (swarm/audit) makes of a stage on Dawn: nothing of an honest one, whichever family, size, wire or rows; and of
 * one that lies that it does. With SHOAL_MEASURE=1 it prints the largest honest differences, which swarm/audit/audit.ts has.
 */
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { auditOutcome } from '../../../swarm/audit/audit.ts';
import type { AuditCase, AuditedMicroBatch, AuditedTensor, SentTensor } from '../../../swarm/audit/auditCase.ts';
import { at, invariant } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { INT8_BLOCK_WORDS, WIRE_ENCODINGS } from '../../../swarm/wire.ts';
import { type AuditedSetting, AuditedStages } from './auditedStages.ts';
import type { Gpu } from './device.ts';
import { gpuOf } from './engine.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

function modelOf(config: Readonly<Record<string, unknown>>): Model {
  const parsed = modelFromConfig(config);
  invariant(parsed.ok, 'a valid model');
  return parsed.value;
}

async function stepOf(gpu: Gpu, setting: AuditedSetting): Promise<[AuditCase, AuditCase]> {
  const stages = await AuditedStages.open(gpu, setting);
  const cases = await stages.step();
  stages.close();
  return cases;
}

/** The case with one kind of tensor alone. */
function only(what: AuditedTensor['what'], one: AuditCase): AuditCase {
  const microBatches = one.microBatches.map((micro) => ({
    ...micro,
    output: what === 'output' ? micro.output : null,
    inputGradient: what === 'input gradient' ? micro.inputGradient : null,
    lossSum: what === 'loss' ? micro.lossSum : null,
  }));
  return { ...one, microBatches, sums: what === 'gradient sum' ? one.sums : [] };
}

const WHATS: readonly AuditedTensor['what'][] = ['output', 'input gradient', 'loss', 'gradient sum'];
const IS_MEASURED = process.env.SHOAL_MEASURE === '1';
const largest = new Map<string, number>();

function measure(one: AuditCase): void {
  for (const what of IS_MEASURED ? WHATS : [])
    largest.set(what, Math.max(largest.get(what) ?? 0, auditOutcome(only(what, one)).worst?.relative ?? 0));
}

const GOLDEN = new URL('../../../e2e/golden/', import.meta.url);
/** Sizes that no tile divides; heads of queries that share keys, a head of its own and one that is the token table. */
const ODD: Readonly<Record<string, object>> = {
  'odd-gpt2': { model_type: 'gpt2', n_layer: 3, n_head: 3, n_embd: 33, n_inner: 71, n_positions: 9, vocab_size: 131 },
  'odd-llama': {
    ...{ model_type: 'llama', num_hidden_layers: 2, num_attention_heads: 6, num_key_value_heads: 2, head_dim: 10 },
    ...{
      hidden_size: 35,
      intermediate_size: 53,
      max_position_embeddings: 9,
      vocab_size: 67,
      tie_word_embeddings: true,
    },
  },
};
const FAMILIES = ['gpt2', 'llama', 'llama3', 'qwen2', 'qwen3', 'smollm3', 'gemma3'].map((name) => `${name}-tiny`);

function settingOf(name: string, rest: Omit<AuditedSetting, 'model' | 'sequence'>, mostPositions = 9): AuditedSetting {
  const odd = ODD[name];
  if (odd) return { model: modelOf({ ...odd }), sequence: 9, ...rest };
  const { model, train } = JSON.parse(readFileSync(new URL(`${name}/run.json`, GOLDEN), 'utf8'));
  return { model: modelOf(model), sequence: Math.min(train.sequenceLength, mostPositions), ...rest };
}

/** Micro-batches of several sizes; each family with another wire, and every other one with examples. */
test.each([...FAMILIES, ...Object.keys(ODD)])('%s: an audit finds nothing in honest stages', async (name) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const number = FAMILIES.indexOf(name) + 1;
  const usual = {
    wire: at(WIRE_ENCODINGS, number % 4),
    samples: [1, 2, 1],
    hasExamples: number % 2 === 1,
    spread: 0.1,
  };
  const more = IS_MEASURED ? [0, 0.1, 0.5].map((spread) => ({ wire: 'f32' as const, samples: [2, 3], spread })) : [];
  for (const rest of [usual, ...more])
    for (const one of await stepOf(gpuOf(dawn.value), settingOf(name, rest, IS_MEASURED ? 64 : 9))) {
      const { agrees, worst, evidence } = auditOutcome(one);
      measure(one);
      expect({ agrees, evidence }).toEqual({ agrees: true, evidence });
      expect(worst).not.toBeNull();
    }
  if (IS_MEASURED) console.log(name, Object.fromEntries(largest));
});

/** Some of the words of a tensor. */
const changed = (words: Float32Array, change: (value: number, index: number) => number): Float32Array =>
  words.map(change);
const noisy = (words: Float32Array): Float32Array => changed(words, (value, i) => value * (i % 3 === 1 ? 1.01 : 0.99));

type Lie = readonly [what: string, found: AuditedTensor['what'], (first: AuditCase, second: AuditCase) => AuditCase];

const withMicro = (one: AuditCase, id: number, change: Partial<AuditedMicroBatch>): AuditCase => ({
  ...one,
  microBatches: one.microBatches.map((micro) => (micro.id === id ? { ...micro, ...change } : micro)),
});
const withSum = (one: AuditCase, place: number, change: (words: Float32Array) => Float32Array): AuditCase => ({
  ...one,
  sums: one.sums.map((part, index) => (index === place ? { ...part, values: change(part.values) } : part)),
});
const gradientOf = (one: AuditCase, id: number): SentTensor => {
  const { inputGradient } = at(one.microBatches, id);
  invariant(inputGradient, 'a later stage');
  return inputGradient;
};
const sent = (tensor: SentTensor, change: (words: Float32Array) => Float32Array): SentTensor => ({
  ...tensor,
  words: change(tensor.words),
});

const LIES: readonly Lie[] = [
  [
    'noise of 1 % in one gradient',
    'input gradient',
    (_, one) => withMicro(one, 1, { inputGradient: sent(gradientOf(one, 1), noisy) }),
  ],
  ['noise of 1 % in the sums of one block', 'gradient sum', (one) => withSum(one, 1, noisy)],
  [
    'a sum of the other sign',
    'gradient sum',
    (_, one) => withSum(one, 0, (words) => changed(words, (value) => -value)),
  ],
  [
    'one element twice as large',
    'gradient sum',
    (one) =>
      withSum(one, 0, (words) => {
        const most = words.indexOf(Math.max(...words));
        return changed(words, (value, i) => (i === most ? 2 * value : value));
      }),
  ],
  [
    "another micro-batch's gradient",
    'input gradient',
    (_, one) => withMicro(one, 2, { inputGradient: gradientOf(one, 0) }),
  ],
  [
    'a loss that is 1 % lower',
    'loss',
    (_, one) => withMicro(one, 0, { lossSum: (one.microBatches[0]?.lossSum ?? 0) * 0.99 }),
  ],
  [
    'a layer that is skipped',
    'output',
    (one) => ({
      ...one,
      values: one.values.map((part) =>
        part.block === 'layer.0' ? { ...part, values: part.values.map(() => 0) } : part,
      ),
    }),
  ],
  [
    'no number',
    'gradient sum',
    (one) => withSum(one, 0, (words) => changed(words, (value, i) => (i === 7 ? Number.NaN : value))),
  ],
];

test('an audit finds the lies that are larger than rounding, and says which tensor it was', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const setting = settingOf('gpt2-tiny', { wire: 'f32', samples: [1, 2, 1], hasExamples: true });
  const [first, second] = await stepOf(gpuOf(dawn.value), setting);
  expect([auditOutcome(first).agrees, auditOutcome(second).agrees]).toEqual([true, true]);
  for (const [lie, found, told] of LIES) {
    const { agrees, worst } = auditOutcome(told(first, second));
    expect([lie, agrees, worst?.what]).toEqual([lie, false, found]);
  }
  const { evidence } = auditOutcome(withMicro(second, 1, { inputGradient: sent(gradientOf(second, 1), noisy) }));
  expect(evidence).toMatch(/^its input gradient of micro-batch 1 is 1\.0e-2 of its size off .* more than the 1\.0e-4/);
});

test.each(['f16', 'int8'] as const)('a lie is found in gradients of %s too', async (wire) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const [, one] = await stepOf(gpuOf(dawn.value), settingOf('gpt2-tiny', { wire, samples: [2, 1] }));
  const lied = sent(gradientOf(one, 0), (words) => {
    const [copy, blocks] = [words.slice(), Math.ceil(words.length / INT8_BLOCK_WORDS)];
    const halves = new Uint16Array(copy.buffer);
    if (wire === 'f16') for (let i = 0; i < halves.length; i++) halves[i] = (halves[i] ?? 0) + (i % 2 ? 14 : -14);
    else
      for (let number = 0; number < blocks; number++)
        copy[number * INT8_BLOCK_WORDS] = (copy[number * INT8_BLOCK_WORDS] ?? 0) * (number % 2 ? 1.01 : 0.99);
    return copy;
  });
  expect(auditOutcome(one).agrees).toBe(true);
  expect(auditOutcome(withMicro(one, 0, { inputGradient: lied }))).toMatchObject({
    agrees: false,
    worst: { what: 'input gradient', microBatch: 0 },
  });
});
