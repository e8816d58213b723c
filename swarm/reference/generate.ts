/**
 * Text from a model, on the CPU: one token at a time through the rows of the model table, each layer's queries, keys
 * and values kept. Where the positions are used up, the newer half of the text is read again from position 0.
 */
import { at, invariant, type Random } from '../base.ts';
import type { Model, Operation } from '../model/model.ts';
import { attendRow } from './attention.ts';
import { type Matrices, type Matrix, matrix } from './matrix.ts';
import { forward, type Pass } from './operations.ts';
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
  let logits_V: Matrix = new Float64Array(0);
  while (text.length < prompt.length + sampling.count) {
    if (reader.length() === model.positions) {
      reader = textReader(model, tensors);
      read = text.length - Math.ceil(model.positions / 2);
    }
    for (; read < text.length; read++) logits_V = reader.read(at(text, read));
    text.push(choose(logits_V, sampling));
  }
  return text.slice(prompt.length);
}

/** Reads tokens from position 0 on; answers with the logits of the next one. */
function textReader(model: Model, tensors: Matrices) {
  const layers = Array.from({ length: model.layers }, (_, index) => ({
    rows: model.layer(index),
    kept: new Map<string, Matrix>(),
  }));
  let position = 0;

  const run = (rows: readonly Operation[], pass: Pass, kept: Map<string, Matrix>) => {
    for (const operation of rows) {
      if (operation.op === 'attention') pass.activations.set(operation.y, attend(operation, pass, kept));
      else if (operation.op !== 'crossEntropy') forward(operation, pass);
    }
  };
  const attend = (row: Extract<Operation, { op: 'attention' }>, pass: Pass, kept: Map<string, Matrix>) => {
    const qkv_ED = matrix(pass.activations, row.qkv);
    const qkv_TED = kept.get(row.qkv) ?? new Float64Array(model.positions * qkv_ED.length);
    kept.set(row.qkv, qkv_TED);
    qkv_TED.set(qkv_ED, position * qkv_ED.length);
    const y_HD = new Float64Array(row.heads * row.headWidth);
    attendRow(row, qkv_TED, [0, position], y_HD, 0);
    return y_HD;
  };

  return {
    length: () => position,
    read(token: number): Matrix {
      const pass = (activations: Map<string, Matrix>): Pass => ({
        width: model.width,
        tensors,
        activations,
        ids: [token],
        targets: [],
        position: () => position,
        lossScale: 0,
      });
      const first = new Map<string, Matrix>();
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
export function choose(logits_V: ArrayLike<number>, { temperature, random }: Omit<Sampling, 'count'>): number {
  const logits = Array.from(logits_V);
  let [best, most] = [0, at(logits, 0)];
  for (const [v, logit] of logits.entries()) if (logit > most) [best, most] = [v, logit];
  if (temperature === 0) return best;
  const weights = logits.map((logit) => Math.exp((logit - most) / temperature));
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [v, weight] of weights.entries()) {
    rest -= weight;
    if (rest < 0) return v;
  }
  return best;
}
