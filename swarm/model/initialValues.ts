/**
 * First values of a block, drawn from the run's seed. Every tensor has a stream of its own, a pure function of (seed,
 * tensor name): any block can be made alone, by anyone, in any order.
 */
import { normal, overlap, type Random } from '../base.ts';
import { type BlockName, block, type Model, type TensorSpec } from './model.ts';

/** All elements of the block, its tensors in the order of the model table. */
export const initialValues = (model: Model, name: BlockName, seed: number): Float32Array<ArrayBuffer> =>
  initialReader(model, seed)(name, 0, block(model, name).elements);

/** Elements `[from, to)` of any block. One range after the other costs no more than all at once; going back does. */
export function initialReader(
  model: Model,
  seed: number,
): (name: BlockName, from: number, to: number) => Float32Array<ArrayBuffer> {
  let drawn: { readonly tensor: string; readonly random: Random; next: number } | null = null;
  const fill = (values: Float32Array, { name, initial, shape }: TensorSpec, from: number): void => {
    if (initial === 'zeros') return;
    if (initial === 'ones') {
      values.fill(1);
      return;
    }
    if (drawn?.tensor !== name || drawn.next > from)
      drawn = { tensor: name, random: stream(`${seed}:${name}`), next: 0 };
    const { random } = drawn;
    const uniform = (): number => 2 * random() - 1;
    const draw = initial === 'uniform' ? uniform : () => normal(random);
    for (; drawn.next < from; drawn.next++) draw();
    const deviation = initial === 'uniform' ? 1 / Math.sqrt(shape.at(-1) ?? 1) : deviationOf(model, initial);
    for (let i = 0; i < values.length; i++) values[i] = deviation * draw();
    drawn.next += values.length;
  };
  return (name, from, to) => {
    const values = new Float32Array(to - from);
    for (const tensor of block(model, name).tensors) {
      const part = overlap([from, to], [tensor.offset, tensor.offset + tensor.elements]);
      if (part) fill(values.subarray(part[0] - from, part[1] - from), tensor, part[0] - tensor.offset);
    }
    return values;
  };
}

const deviationOf = ({ initializerRange, layers }: Model, initial: TensorSpec['initial']): number =>
  initializerRange * (initial === 'residual' ? 1 / Math.sqrt(2 * layers) : 1);

/**
 * sfc32 (Doty-Humphrey, PractRand) seeded by four FNV-1a hashes of the text. Not base.ts's generator: that one has a
 * single cycle of 2^32 numbers, on which the streams of a large model's tensors would overlap.
 */
function stream(text: string): Random {
  let [a, b, c] = [0x811c9dc5, 0x9e3779b9, 0x85ebca6b];
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x01000193);
    c = Math.imul(c ^ code, 0x01000193);
  }
  let counter = 1;
  const next = (): number => {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return (sum >>> 0) / 4294967296;
  };
  for (let i = 0; i < 15; i++) next();
  return next;
}
