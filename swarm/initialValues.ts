/**
 * First values of a block, drawn from the run's seed. Every tensor has a stream of its own, a pure function of (seed,
 * tensor name): any block can be made alone, by anyone, in any order.
 */
import { normal, type Random } from './base.ts';
import { type BlockName, block, type Model, type TensorSpec } from './model.ts';

/** All elements of the block, its tensors in the order of the model table. */
export function initialValues(model: Model, name: BlockName, seed: number): Float32Array<ArrayBuffer> {
  const { tensors, elements } = block(model, name);
  const values = new Float32Array(elements);
  for (const tensor of tensors)
    fill(values.subarray(tensor.offset, tensor.offset + tensor.elements), tensor, model, seed);
  return values;
}

function fill(values: Float32Array, { name, initial }: TensorSpec, model: Model, seed: number): void {
  if (initial === 'zeros') return;
  if (initial === 'ones') {
    values.fill(1);
    return;
  }
  const deviation = model.initializerRange * (initial === 'residual' ? 1 / Math.sqrt(2 * model.layers) : 1);
  const random = stream(`${seed}:${name}`);
  for (let i = 0; i < values.length; i++) values[i] = deviation * normal(random);
}

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
