/**
 * The vocabulary of the matrix product C[M,N] = op(A)·op(B): its layouts, its epilogues, and which tensors each needs.
 * A product is a small record; every family reads the same record and generates the same table of bindings, so a caller
 * never sees which family runs.
 *
 * Letters: M rows and N columns of C, K the summed dimension. NN: A[M,K] B[K,N] (x·W). NT: A[M,K] B[N,K] (dy·Wᵀ).
 * TN: A[K,M] B[K,N] (xᵀ·dy, the weight gradient). A product in slices has S steps of K in each. Of a table in pieces, A (NN,
 * TN) or C (NT) is some columns of a wider matrix, whose rows are P long.
 */
import { invariant } from '../../swarm/base.ts';
import type { TensorSlot } from '../kernel/kernel.ts';
import { half, read, readWrite } from '../kernel/slots.ts';

export type Layout = 'NN' | 'NT' | 'TN';

/** What happens to v = Σ a·b before it is stored, in this order. */
export interface Epilogue {
  /** v += bias_N[n]. */
  readonly bias?: boolean;
  /** pre_MN = v, v = gelu(v): a second output. */
  readonly gelu?: boolean;
  /** v ·= gelu′(pre_MN), an input. */
  readonly geluBackward?: boolean;
  /** v += residual_MN, which may not be the same memory as C. */
  readonly residual?: boolean;
  /** C += v in place of C = v. */
  readonly accumulate?: boolean;
  /** TN alone: dbias_N[n] = Σ_k B[k,n] (or += with `accumulate`), from the values that are loaded anyway. */
  readonly biasGradient?: boolean;
}

/** A product with the dims that its text is generated for; the dim that varies with the micro-batch is left out. */
export interface Product {
  readonly layout: Layout;
  readonly epilogue: Epilogue;
  /** Rows of C: known for TN, else a run-time dim. */
  readonly m: number | 'runtime';
  readonly n: number;
  /** Summed dimension: a run-time dim for TN. */
  readonly k: number | 'runtime';
  /** C holds the sums of each slice of K, one after the other (slices.ts). */
  readonly slices?: true;
  /** P, where A (of NT: C) is some columns of a wider matrix. */
  readonly wider?: number;
}

/** `bias`, `gelu` … of an epilogue, in a fixed order: for names and keys. */
export function epilogueNames(epilogue: Epilogue): string[] {
  const order = ['bias', 'gelu', 'geluBackward', 'residual', 'accumulate', 'biasGradient'] as const;
  return order.filter((name) => epilogue[name] === true);
}

export function checkEpilogue(layout: Layout, epilogue: Epilogue): void {
  const { bias, gelu, geluBackward, residual, accumulate, biasGradient } = epilogue;
  invariant(!(gelu && geluBackward), 'a product has one activation');
  // Software kernels keep partial sums in C, so what is added to C must be linear in the product.
  invariant(!(accumulate && (bias || gelu || geluBackward || residual)), 'accumulate goes with no other epilogue');
  invariant(!biasGradient || layout === 'TN', 'a bias gradient is a by-product of a weight gradient');
}

export type ProductTensor = 'a' | 'b' | 'c_MN' | 'bias_N' | 'residual_MN' | 'pre_MN' | 'dbias_N';

/** TN sums gradients of weights, which stay whole floats, as slices do; all else are activations and weights. */
export function productTensors(layout: Layout, epilogue: Epilogue, slices = false): TensorSlot<ProductTensor>[] {
  return [
    half(read('a')),
    half(read('b')),
    layout === 'TN' || slices ? readWrite('c_MN') : half(readWrite('c_MN')),
    ...(epilogue.bias ? [half(read('bias_N'))] : []),
    ...(epilogue.residual ? [half(read('residual_MN'))] : []),
    ...(epilogue.gelu ? [half(readWrite('pre_MN'))] : []),
    ...(epilogue.geluBackward ? [half(read('pre_MN'))] : []),
    ...(epilogue.biasGradient && !slices ? [readWrite('dbias_N')] : []),
  ];
}

/**
 * GPT-2's gelu (the tanh form, "gelu_new") written with the logistic function, since ½(1 + tanh u) = 1/(1 + e^(−2u)):
 * no cancellation, and no need of a WGSL tanh whose accuracy differs between drivers. The argument is clamped where
 * gelu(x) is x or 0 to the last bit, which keeps e^(−2u) below the largest f32. u = √(2/π)(x + 0.044715x³).
 */
export function geluText(element: 'f32' | 'vec4f'): string {
  return `const GELU_SLOPE = 1.5957691216057308; // 2·√(2/π)
const GELU_CUBIC = 0.044715;

// e^(−2u)
fn geluExponential(x: ${element}) -> ${element} {
  let z = clamp(x, ${element}(-10.0), ${element}(10.0));
  return exp(-GELU_SLOPE * z * (1.0 + GELU_CUBIC * z * z));
}

fn gelu(x: ${element}) -> ${element} {
  return x / (1.0 + geluExponential(x));
}

// gelu′(x) = s + x·s(1−s)·2u′ with s = 1/(1 + e^(−2u)) and 1 − s = e^(−2u)·s
fn geluSlope(x: ${element}) -> ${element} {
  let e = geluExponential(x);
  let s = 1.0 / (1.0 + e);
  let z = clamp(x, ${element}(-10.0), ${element}(10.0));
  return s + z * (e * s) * s * (GELU_SLOPE * (1.0 + 3.0 * GELU_CUBIC * z * z));
}
`;
}
