/**
 * Text from a model, on the CPU: one token at a time through the rows of the model table, each layer's queries, keys
 * and values kept. Where the positions are used up, the newer half of the text is read again from position 0.
 */
import { invariant, type Random } from '../base.ts';
import type { Model, Operation } from '../model/model.ts';
import { attendRow } from './attention.ts';
import { forward, type Matrices, matrix, type Pass } from './operations.ts';
import { outputOf } from './reference.ts';

interface Sampling {
  /** Tokens to add. */
  readonly count: number;
  /** 0: always the likeliest token. */
  readonly temperature: number;
  readonly random: Random;
}

/** The tokens that follow `prompt` (at least one token, each below the vocabulary). */
export function generate(model: Model, tensors: Matrices, prompt: readonly number[], sampling: Sampling): number[] {
  invariant(prompt.length > 0, 'a prompt has a token');
  const text = [...prompt];
  let reader = textReader(model, tensors);
  let read = Math.max(0, text.length - model.positions);
  let logits: Float64Array = new Float64Array(0);
  while (text.length < prompt.length + sampling.count) {
    if (reader.length() === model.positions) {
      reader = textReader(model, tensors);
      read = text.length - Math.ceil(model.positions / 2);
    }
    for (; read < text.length; read++) logits = reader.read(text[read]);
    text.push(choose(logits, sampling));
  }
  return text.slice(prompt.length);
}

/** Reads tokens from position 0 on; answers with the logits of the next one. */
function textReader(model: Model, tensors: Matrices) {
  const layers = Array.from({ length: model.layers }, (_, index) => ({
    rows: model.layer(index),
    kept: new Map<string, Float64Array>(),
  }));
  let position = 0;

  const run = (rows: readonly Operation[], pass: Pass, kept: Map<string, Float64Array>) => {
    for (const operation of rows) {
      if (operation.op === 'attention') pass.activations.set(operation.y, attend(operation, pass, kept));
      else if (operation.op !== 'crossEntropy') forward(operation, pass);
    }
  };
  const attend = (row: Extract<Operation, { op: 'attention' }>, pass: Pass, kept: Map<string, Float64Array>) => {
    const fresh = matrix(pass.activations, row.qkv);
    const all = kept.get(row.qkv) ?? new Float64Array(model.positions * fresh.length);
    kept.set(row.qkv, all);
    all.set(fresh, position * fresh.length);
    const y = new Float64Array(row.heads * row.headWidth);
    attendRow(row, all, [0, position], y, 0);
    return y;
  };

  return {
    length: () => position,
    read(token: number): Float64Array {
      const pass = (activations: Map<string, Float64Array>): Pass => ({
        width: model.width,
        tensors,
        activations,
        ids: [token],
        targets: [],
        position: () => position,
        lossScale: 0,
      });
      const first = new Map<string, Float64Array>();
      run(model.embedding, pass(first), new Map());
      let x = matrix(first, outputOf(model.embedding));
      for (const { rows, kept } of layers) {
        const activations = new Map([['x', x]]);
        run(rows, pass(activations), kept);
        x = matrix(activations, outputOf(rows));
      }
      const last = new Map([['x', x]]);
      run(model.head, pass(last), new Map());
      position++;
      const loss = model.head.at(-1);
      invariant(loss?.op === 'crossEntropy', 'a head ends with its loss');
      return matrix(last, loss.logits);
    },
  };
}

/** Draws from softmax(logits / temperature). */
export function choose(logits: ArrayLike<number>, { temperature, random }: Omit<Sampling, 'count'>): number {
  let best = 0;
  for (let v = 1; v < logits.length; v++) if (logits[v] > logits[best]) best = v;
  if (temperature === 0) return best;
  const weights = Array.from(logits, (logit) => Math.exp((logit - logits[best]) / temperature));
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0);
  for (let v = 0; v < weights.length; v++) {
    rest -= weights[v];
    if (rest < 0) return v;
  }
  return best;
}
