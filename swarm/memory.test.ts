import { describe, expect, test } from 'vitest';
import { invariant } from './base.ts';
import { modelFromConfig } from './families.ts';
import { stageBuffers } from './memory.ts';

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

  test.each([1, 2, 5])(
    '[ST3] with %i slots, layers that are computed again share one place for what they keep',
    (slots) => {
      const saved = (layers: number): number => (slots * layers - 1) * ofLayer * ROWS * 4;
      expect(bytesOf(slots, []) - bytesOf(slots, [1, 2, 3, 4])).toBe(saved(4));
      expect(bytesOf(slots, []) - bytesOf(slots, [2, 4])).toBe(saved(2));
    },
  );
});
