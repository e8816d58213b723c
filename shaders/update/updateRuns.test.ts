/** The updates of a shard: each element once, with its own tensor's decay, in few launches. */
import { describe, expect, test } from 'vitest';
import { invariant, seededRandom } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { arena } from '../../swarm/model/layout.ts';
import { dimsOfRun, MOST_DECAYS, runParts, type UpdatedTensor, updateRuns } from './updateRuns.ts';

/** What each float of the shard's moments is updated with: its place among the values, and whether it decays. */
function elements(tensors: readonly UpdatedTensor[]): Map<number, string> {
  const found = new Map<number, string>();
  for (const run of updateRuns(tensors)) {
    const { offset, momentOffset, gradientOffset, shadowOffset = null, ...dims } = dimsOfRun(run);
    const { from0, to0, from1, to1, from2, to2, from3, to3 } = dims;
    const ranges = [
      [from0, to0],
      [from1, to1],
      [from2, to2],
      [from3, to3],
    ] as const;
    expect(ranges).toHaveLength(MOST_DECAYS);
    for (let i = 0; i < run.count; i++) {
      const decays = ranges.some(([from, to]) => from <= i && i < to);
      const at = momentOffset + i;
      expect(gradientOffset).toBe(momentOffset);
      expect(found.has(at)).toBe(false);
      found.set(at, `${offset + i} ${shadowOffset === null ? '-' : shadowOffset + i} ${decays}`);
    }
  }
  return found;
}

function isRight(tensors: readonly UpdatedTensor[]): void {
  const found = elements(tensors);
  for (const { at, length, decays, valuesAt, shadowAt } of tensors) {
    for (let i = 0; i < length; i++) {
      const shadow = shadowAt === undefined ? '-' : shadowAt + i;
      expect(found.get(at + i)).toBe(`${valuesAt + i} ${shadow} ${decays}`);
    }
  }
}

describe.each([
  { model_type: 'gpt2', n_layer: 1, n_head: 2, n_embd: 12, n_positions: 16, vocab_size: 30 },
  { model_type: 'gpt2', n_layer: 1, n_head: 5, n_embd: 15, n_positions: 16, vocab_size: 31 },
  {
    model_type: 'llama',
    num_hidden_layers: 1,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    hidden_size: 16,
    intermediate_size: 20,
    vocab_size: 30,
  },
])('$model_type of width $n_embd$hidden_size', (config) => {
  const model = modelFromConfig(config);
  if (!model.ok) throw new Error(model.reason);

  test.each(['f32', 'f16'] as const)('whole blocks and parts of them, for %s', (compute) => {
    const random = seededRandom(3);
    for (const block of model.value.blocks) {
      const cut = Math.floor(random() * block.elements);
      for (const range of [
        [0, block.elements],
        [0, cut || 1],
        [cut, block.elements],
      ] as const) {
        const { segments } = arena(block, [range], compute);
        const shift = 64 * Math.floor(3 * random());
        isRight(
          segments.map(({ at, length, tensor }) => ({
            ...{ at, length, decays: tensor.shape.length >= 2, valuesAt: at + shift },
            ...(compute === 'f16' ? { shadowAt: at } : {}),
          })),
        );
      }
    }
  });

  test('a block whose lengths divide by four is one launch', () => {
    for (const block of model.value.blocks) {
      const { segments } = arena(block, [[0, block.elements]]);
      if (segments.some(({ length }) => length % 4 !== 0)) continue;
      const tensors = segments.map(({ at, length, tensor }) => ({
        ...{ at, length, decays: tensor.shape.length >= 2, valuesAt: at },
      }));
      expect(updateRuns(tensors)).toHaveLength(1);
    }
  });
});

test('a tensor that lies otherwise among the values, or is one range too many, begins a launch', () => {
  const tensor = (index: number, decays: boolean, gap = 0): UpdatedTensor => ({
    ...{ at: 64 * index, length: 8, decays, valuesAt: 64 * index + gap },
  });
  expect(updateRuns([tensor(0, true), tensor(1, true, 64)])).toHaveLength(2);
  const alternating = Array.from({ length: 11 }, (_, index) => tensor(index, index % 2 === 0));
  expect(updateRuns(alternating)).toHaveLength(2);
  isRight(alternating);
});

test('a run in parts updates each float once, and decays what the whole decays', () => {
  const tensors = [0, 1, 2].map((index) => ({
    ...{ at: 64 * index, length: 64, decays: index !== 1, valuesAt: 64 * index + 128, shadowAt: 64 * index },
  }));
  const [run] = updateRuns(tensors);
  invariant(run, 'one run');
  const decaying = runParts(run, 40).flatMap(({ first, count, decays }) => {
    expect(first.valuesAt - first.at).toBe(128);
    expect(first.shadowAt).toBe(first.at);
    return Array.from({ length: count }, (_, i) => [first.at + i, decays.some(([from, to]) => from <= i && i < to)]);
  });
  expect(decaying).toEqual(Array.from({ length: 192 }, (_, i) => [i, i < 64 || i >= 128]));
  expect(runParts(run, 192)).toEqual([run]);
});
