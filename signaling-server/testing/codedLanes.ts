/**
 * Two lanes whose state goes as int8, in float64 on the CPU: written again from WI4, WI31 and WI32, with nothing of the code
 * that trains. Each lane has what the codes of its sums missed; all compute with h, what its holders have of p.
 */
import { at, got } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { lossAndGradients, referenceTensors, type Window } from '../../swarm/reference/reference.ts';
import type { Train } from '../../swarm/run/runFile.ts';

const BLOCK = 64;

/** The values that codes of x stand for. */
export function rounded(x: readonly number[]): number[] {
  const out: number[] = [];
  for (let from = 0; from < x.length; from += BLOCK) {
    const part = x.slice(from, from + BLOCK);
    const largest = Math.max(...part.map(Math.abs));
    let scale = 0;
    if (largest >= 2 ** -100) {
      // The least number 1.mmm · 2^e with 127 of it at least as large.
      let power = 1;
      while (127 * 1.875 * power < largest) power *= 2;
      while (127 * 0.9375 * power >= largest) power /= 2;
      scale =
        [1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875].map((m) => m * power).find((s) => 127 * s >= largest) ?? 0;
    }
    for (const value of part) out.push(scale === 0 ? 0 : toEven(value / scale) * scale);
  }
  return out;
}

function toEven(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

interface Shard {
  readonly block: string;
  readonly from: number;
  readonly to: number;
  /** The lane that keeps it alone. */
  readonly keeper: number;
}

export interface CodedLanes {
  /** The loss of the step's windows, by lane. */
  step(windows: readonly (readonly Window[])[], learningRate: number): number;
}

/** `initial`: elements by block. The shards cover every block. */
export function codedLanes(
  model: Model,
  { optimizer, gradientClipNorm }: Pick<Train, 'optimizer' | 'gradientClipNorm'>,
  initial: ReadonlyMap<string, Float32Array>,
  shards: readonly Shard[],
  lanes: number,
): CodedLanes {
  const planes = (): Map<string, Float64Array> =>
    new Map([...initial].map(([name, { length }]) => [name, new Float64Array(length)]));
  const copies = () => new Map([...initial].map(([name, values]) => [name, Float64Array.from(values)]));
  const [p, h, m, v] = [copies(), copies(), planes(), planes()];
  const left = Array.from({ length: lanes }, planes);
  let done = 0;
  return {
    step(windows, learningRate) {
      const tensors = referenceTensors(model, (block) => got(h, block));
      const targets = windows.flat().reduce((sum, { length }) => sum + length - 1, 0);
      let loss = 0;
      const gradients = windows.map((own) => {
        const found = lossAndGradients(model, tensors, own, targets);
        loss += found.loss;
        return found.gradients;
      });
      const sums = planes();
      for (const { block, from, to, keeper } of shards)
        for (const [lane, own] of gradients.entries()) {
          const flat = flattened(model, block, own).slice(from, to);
          const rest = got(at(left, lane), block);
          const x = flat.map((value, i) => value + at(rest, from + i));
          const sent = lane === keeper ? x : rounded(x);
          const sum = got(sums, block);
          for (const [i, value] of sent.entries()) {
            sum[from + i] = at(sum, from + i) + value;
            rest[from + i] = at(x, i) - value;
          }
        }
      let squares = 0;
      for (const sum of sums.values()) for (const value of sum) squares += value * value;
      const clip = gradientClipNorm === null ? 1 : Math.min(1, gradientClipNorm / (Math.sqrt(squares) + 1e-6));
      done++;
      for (const { name, tensors: rows } of model.blocks)
        for (const { offset, elements, shape } of rows)
          for (let i = offset; i < offset + elements; i++) {
            const [beta1, beta2] = optimizer.betas;
            const gradient = at(got(sums, name), i) * clip;
            const mean = beta1 * at(got(m, name), i) + (1 - beta1) * gradient;
            const square = beta2 * at(got(v, name), i) + (1 - beta2) * gradient * gradient;
            got(m, name)[i] = mean;
            got(v, name)[i] = square;
            const decay = shape.length > 1 ? 1 - learningRate * optimizer.weightDecay : 1;
            const step = mean / (1 - beta1 ** done) / (Math.sqrt(square / (1 - beta2 ** done)) + optimizer.epsilon);
            got(p, name)[i] = at(got(p, name), i) * decay - learningRate * step;
          }
      for (const { block, from, to } of shards) {
        const [masters, held] = [got(p, block), got(h, block)];
        const lacking = Array.from({ length: to - from }, (_, i) => at(masters, from + i) - at(held, from + i));
        for (const [i, value] of rounded(lacking).entries()) held[from + i] = at(held, from + i) + value;
      }
      return loss;
    },
  };
}

/** A block's gradients, its tensors in their order. */
function flattened(model: Model, name: string, gradients: ReadonlyMap<string, ArrayLike<number>>): number[] {
  const block = model.blocks.find((one) => one.name === name);
  return (block?.tensors ?? []).flatMap((tensor) => Array.from(got(gradients, tensor.name)));
}
