/**
 * AdamW in main memory (adamw.wgsl's formula): each operation is rounded to float32, so that every machine makes the same
 * bits, whatever its GPU. A product, sum, quotient or root of two floats in float64, rounded, is that of float32.
 */
import { at, outside } from '../../swarm/base.ts';
import { ADAMW_SCALARS } from './adamw.ts';

/** Of as many elements each. */
interface UpdatedArrays {
  readonly values: Float32Array;
  readonly grads: Float32Array;
  readonly m: Float32Array;
  readonly v: Float32Array;
}

const f = Math.fround;

/** Updates elements `[from, to)`. `scalars`: as the kernel has them. */
export function adamwInMemory(
  { values, grads, m, v }: UpdatedArrays,
  [from, to]: readonly [number, number],
  decays: boolean,
  scalars: Float32Array,
): void {
  const scalar = (name: (typeof ADAMW_SCALARS)[number]): number => at(scalars, ADAMW_SCALARS.indexOf(name));
  const [clipScale, epsilon] = [scalar('clipScale'), scalar('epsilon')];
  const [beta1, beta2] = [scalar('beta1'), scalar('beta2')];
  const [rest1, rest2] = [f(1 - beta1), f(1 - beta2)];
  const step = f(scalar('learningRate') / scalar('correction1'));
  const correction = f(1 / scalar('correction2'));
  const kept = decays ? f(1 - f(scalar('learningRate') * scalar('weightDecay'))) : 1;
  for (let i = from; i < to; i++) {
    const g = f((grads[i] ?? outside(grads, i)) * clipScale);
    const mNew = f(f(beta1 * (m[i] ?? outside(m, i))) + f(rest1 * g));
    const vNew = f(f(beta2 * (v[i] ?? outside(v, i))) + f(rest2 * f(g * g)));
    m[i] = mNew;
    v[i] = vNew;
    const root = f(f(Math.sqrt(f(vNew * correction))) + epsilon);
    values[i] = f(f((values[i] ?? outside(values, i)) * kept) - f(f(step * mNew) / root));
  }
}
