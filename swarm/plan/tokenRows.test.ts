/** Which rows of the token table go, against a table that is filled element by element. */
import { describe, expect, test } from 'vitest';
import { at, below, countIn, overlap, peerId, type Range, seededRandom, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import type { Model } from '../model/model.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { ringReplicas } from '../testing/ringReplicas.ts';
import { sliceName } from '../ways/compared.ts';
import { evidenceOf } from '../ways/evidence.ts';
import { stepTraffic } from '../ways/stepTraffic.ts';
import { bytesOf, stepTensors } from '../ways/tensors.ts';
import { type Plan, problems } from './plan.ts';
import { distinctIds, runsOfRows, spreadRows, sumParts, withStateSent } from './tokenRows.ts';

const PEERS = ['a', 'b'].map(peerId);

/** Untied, of 8,192 tokens. */
function largeVocabulary(): Model {
  const config = { hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_hidden_layers: 2 };
  const model = modelFromConfig({
    ...{ model_type: 'llama', vocab_size: 8_192, max_position_embeddings: 64, tie_word_embeddings: false },
    ...{ num_key_value_heads: 2, rms_norm_eps: 1e-5, rope_theta: 10_000, hidden_act: 'silu' },
    ...config,
  });
  if (!model.ok) throw new Error(model.reason);
  return model.value;
}

const embeddingBytes = (model: Model, plan: Plan): number =>
  totalOf(
    stepTensors(model, plan, { sequence: 32, wire: 'f32' }).filter(
      ({ tensor: { kind, index } }) => kind === 'slice' && model.blocks[index]?.name === 'embedding',
    ),
    bytesOf,
  );

describe('rows of the token table', () => {
  test('[WI38] a slice of them has the rows of its member’s tokens that lie in it, ascending, and 0 behind them', () => {
    const random = seededRandom(38);
    for (let seed = 0; seed < 200; seed++) {
      const [width, vocabulary] = [1 + below(random, 7), 2 + below(random, 40)];
      const table = [0, 1].map(() => below(random, vocabulary * width)).sort((a, b) => a - b);
      const part: Range = [at(table, 0), at(table, 1) + 1];
      const ids = distinctIds(Array.from({ length: 1 + below(random, 8) }, () => below(random, vocabulary)));
      const touched = (element: number): boolean => ids.includes(Math.floor(element / width));
      const expected = Array.from({ length: countIn(part) }, (_, i) => part[0] + i).filter(touched);
      // In pieces of any length.
      const cut = 1 + below(random, expected.length + 3);
      const found: number[] = [];
      for (let from = part[0]; from < part[0] + expected.length; from += cut) {
        const runs = runsOfRows({ range: [from, from + cut], table: part }, width, ids);
        const words = Float32Array.from({ length: cut }, (_, i) => from + i);
        for (const { range, values } of spreadRows(runs, words)) {
          expect(values.length).toBe(countIn(range));
          found.push(...Array.from(values, (_, i) => range[0] + i));
        }
        expect(runs.every((run) => countIn(overlap(run, part) ?? [0, 0]) === countIn(run))).toBe(true);
      }
      expect(found).toEqual(expected);
    }
  });

  test('[WI38] where its member’s tokens are fewer than the rows, of a table with a gradient of its own', () => {
    const parts = (model: Model, stages: number, rows: number | undefined, vocabulary = model.vocabulary) => {
      const split = equalSplit(model, 4, PEERS, { stages });
      const plan: Plan = rows === undefined ? split : { ...split, rows };
      const whole = { block: 'embedding', ranges: [[0, model.blocks[0]?.elements ?? 0]] } as const;
      const [{ peer }] = [at(at(plan.stages, 0).members, 0)];
      return sumParts({ ...model, vocabulary }, plan, { stage: 0, peer }, whole, [0, 60]);
    };
    // A table of 10 rows of 4, behind it positions. Two samples a lane, four in a stage of one.
    const dense = [{ range: [0, 60], table: null }];
    const rows = (count: number) => [
      { range: [0, 4 * count], table: [0, 40] },
      { range: [40, 60], table: null },
    ];
    expect(parts(outlineModel(4, false), 1, 2)).toEqual(rows(4));
    expect(parts(outlineModel(4, false), 1, 5)).toEqual(dense);
    expect(parts(outlineModel(4, false), 1, undefined)).toEqual(dense);
    expect(parts(outlineModel(4, false), 2, 2)).toEqual(rows(8));
    expect(parts(outlineModel(4, true), 2, 2)).toEqual(rows(8));
    expect(parts(outlineModel(4, true), 1, 2)).toEqual(dense); // its head reads it, too
  });

  test('[WI39] two lanes of 128 tokens send of 8,192 untied rows no more than 128 each', () => {
    const model = largeVocabulary();
    const split = equalSplit(model, 8, PEERS, { stages: 1 });
    const plan = withStateSent(model, split, { sequence: 32 });
    expect(problems(model, { samples: 8, sequence: 32 }, plan)).toEqual([]);
    const [before, after] = [split, plan].map((one) => embeddingBytes(model, one));
    expect(before).toBe(8_192 * 64 * 4);
    expect(after).toBe(2 * 128 * 64 * 4);
    const size = { sequence: 32, wire: 'f32' } as const;
    expect(stepTraffic(model, split, size).slice - stepTraffic(model, plan, size).slice).toBe(
      Number(before) - Number(after),
    );
  });

  test('[AU3] an audit has the rows as they were sent', () => {
    const model = outlineModel(4, false);
    const plan: Plan = { ...ringReplicas(equalSplit(model, 4, PEERS, { stages: 1 }), 1), rows: 1 };
    const size = { sequence: 1, wire: 'f32' } as const;
    const looked = PEERS.flatMap((peer) => evidenceOf(model, plan, size, { stage: 0, peer }));
    const rows = looked.filter(({ table }) => table).map(({ from, tensor }) => `${from} ${sliceName(tensor)}`);
    expect(rows).not.toEqual([]);
    const sent = stepTensors(model, plan, size).map(({ from, tensor }) => `${from} ${sliceName(tensor)}`);
    for (const one of rows) expect(sent).toContain(one);
  });

  test('[WI38] a plan says of how many positions, or that there are none', () => {
    const model = largeVocabulary();
    const split = equalSplit(model, 8, PEERS, { stages: 1 });
    expect(withStateSent(model, split, { sequence: 2_048 })).toBe(split);
    expect(withStateSent(model, split, { sequence: 32, stateWire: 'int8' }).rows).toBeUndefined();
    expect(problems(model, { samples: 8, sequence: 64 }, { ...split, rows: 32 })).toMatchObject([{ rule: 'WI38' }]);
    const coded = { samples: 8, stateWire: 'int8' } as const;
    expect(problems(model, coded, { ...split, rows: 32, stateWire: 'int8' })).toMatchObject([{ rule: 'WI38' }]);
  });
});
