/** Pieces of tables and windows over arrays: they cover what they are of, once, and each fits a binding. What a backward leaves out. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PIECE_ROWS } from '../../../swarm/memory/memory.ts';
import { adapterModel } from '../../../swarm/model/adapter.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { program } from '../../../swarm/model/program.ts';
import { backward, tablePieces } from './operations.ts';
import type { Places } from './places.ts';
import { parts, windowOf } from './windows.ts';

test('pieces of a table follow one another, begin where halves are bound, and fit', () => {
  expect(tablePieces(50_257, 768, 2 ** 27)).toEqual([
    { first: 0, rows: 25_216 },
    { first: 25_216, rows: 25_041 },
  ]);
  expect(tablePieces(50_257, 768, 2 ** 28)).toEqual([{ first: 0, rows: 50_257 }]);
  const shapes = fc.tuple(fc.integer({ min: 1, max: 300_000 }), fc.integer({ min: 1, max: 9_000 }));
  fc.assert(
    fc.property(shapes, fc.integer({ min: 2 ** 23, max: 2 ** 30 }), ([rows, width], bindingBytes) => {
      let end = 0;
      for (const piece of tablePieces(rows, width, bindingBytes)) {
        expect(piece.first).toBe(end);
        expect(piece.first % PIECE_ROWS).toBe(0);
        expect(piece.rows * width * 4).toBeLessThanOrEqual(bindingBytes);
        end += piece.rows;
      }
      expect(end).toBe(rows);
    }),
    { seed: 1, numRuns: 300 },
  );
});

test('windows over parts of an array begin where WebGPU binds, hold the part, and fit', () => {
  const ints = (max: number) => fc.integer({ min: 1, max });
  fc.assert(
    fc.property(ints(5_000_000), fc.nat(10_000), ints(1_000), fc.constantFrom(2, 4), (n, at, kibis, elementBytes) => {
      const bindingBytes = 4096 + kibis * 1024;
      const buffer = { size: 4 * (n + at) } as GPUBuffer;
      let end = 0;
      for (const { from, length } of parts(n, bindingBytes)) {
        expect(from).toBe(end);
        end += length;
        if (buffer.size > bindingBytes && 4 * n <= bindingBytes) continue; // bound by its own length alone
        const { slice, at: inside } = windowOf(buffer, { at: at + from, length }, bindingBytes, elementBytes);
        const { offset = 0, size = buffer.size } = slice;
        expect(offset % 256).toBe(0);
        expect(offset + inside * elementBytes).toBe((at + from) * elementBytes);
        expect((inside + length) * elementBytes).toBeLessThanOrEqual(size);
        expect(size).toBeLessThanOrEqual(bindingBytes);
      }
      expect(end).toBe(n);
    }),
    { seed: 1, numRuns: 300 },
  );
});

test('the lowest adapter ends the backward: its own gradients are made, nothing of its input or of what is below', () => {
  const base = modelFromConfig({
    ...{ model_type: 'llama', num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, hidden_size: 8 },
    ...{ intermediate_size: 12, max_position_embeddings: 5, vocab_size: 11 },
  });
  const model = base.ok ? adapterModel(base.value, { rank: 2, alpha: 4, targets: ['o_proj'], rslora: false }) : base;
  if (!model.ok) throw new Error(model.reason);
  const place = { buffer: {} as GPUBuffer };
  const places: Places = {
    ...{ samples: 1, sequence: 5, rows: 5, width: 8, lossScale: 1, elementBytes: 4, vocabulary: 11 },
    ...{ bindingBytes: 2 ** 27, family: 'software', stands: true },
    ...{ buffer: () => place, value: () => place, gradient: () => place },
  };
  const [second = [], first = [], embedding = []] = program(model.value, [0, 2]).backward.map(({ rows }) =>
    rows.flatMap((row) => backward(row, places)).map(({ label }) => label),
  );
  expect(embedding).toEqual([]);
  const module = 'model.layers.0.self_attn.o_proj';
  const own = first.slice(first.indexOf('layer.0 drmsNorm') + 1);
  expect(own).toContain(`layer.0 d${module}.lora_A.weight`);
  expect(own.filter((label) => !label.includes(`${module}.lora_A`) || label.endsWith(' x'))).toEqual([]);
  expect(second.at(-1)).toBe('layer.1 drmsNorm');
  expect(second).toContain('layer.1 dmodel.layers.1.self_attn.o_proj.lora_A.weight x');
});
