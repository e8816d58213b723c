/** The bounds of ST1 around the golden numbers: every step's loss and norm, every exported weight. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { invariant, type Result } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { decodeElements, headerBytes, LENGTH_BYTES, parseHeader } from '../swarm/model/safetensors.ts';
import { goldenFile, jsonLines } from './product.ts';

/** Relative. */
interface CurveBounds {
  readonly loss: number;
  readonly gradientNorm: number;
}
/** On SwiftShader. */
const EXACT: CurveBounds = { loss: 2e-6, gradientNorm: 5e-5 };
/** Of islands with a sparse exchange, or published in int8: near ties may be chosen otherwise. */
export const SPARSE: CurveBounds = { loss: 1e-3, gradientNorm: 1e-2 };
const RATE_BOUND = 2e-6;
/** Absolute, every element. */
const WEIGHT_BOUND = 3e-4;

/** With islands a line says whose it is. */
export interface Line extends CommitRecord {
  readonly island?: number;
  readonly round?: number;
  readonly innerStep?: number;
  readonly evaluationLoss?: number;
}
type ExpectedStep = Pick<Line, 'step' | 'loss' | 'gradientNorm' | 'learningRate' | 'island' | 'round'>;

const distance = (value: number, expected: number): number => Math.abs(value - expected) / Math.abs(expected);

/** What is wrong with a run's first `steps` steps: each once, in order, within the bounds. Empty: nothing. */
export function curveFaults(name: string, steps: number, metrics: readonly Line[], bounds = EXACT): string[] {
  const expected = jsonLines(goldenFile(`${name}/expected.jsonl`)) as ExpectedStep[];
  invariant(steps <= expected.length, `${name} has ${expected.length} golden steps`);
  const faults = metrics.length === steps ? [] : [`${metrics.length} lines, expected ${steps}`];
  for (const [index, line] of metrics.entries()) {
    const golden = expected[index];
    if (golden === undefined || line.step !== index) {
      faults.push(`line ${index} is step ${line.step}`);
      continue;
    }
    if (line.island !== golden.island || line.round !== golden.round)
      faults.push(`step ${index} is island ${line.island}'s in round ${line.round}`);
    const off = {
      loss: distance(line.loss, golden.loss) / bounds.loss,
      gradientNorm: distance(line.gradientNorm, golden.gradientNorm) / bounds.gradientNorm,
      learningRate: distance(line.learningRate, golden.learningRate) / RATE_BOUND,
    };
    for (const [field, share] of Object.entries(off)) {
      if (!(share <= 1)) faults.push(`step ${index}: ${field} is ${share.toFixed(2)} times its bound off`);
    }
  }
  return faults;
}

function need<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(result.reason);
  return result.value;
}

export function readTensors(path: string): Map<string, Float32Array> {
  const bytes = new Uint8Array(readFileSync(path));
  const start = LENGTH_BYTES + need(headerBytes(bytes.subarray(0, LENGTH_BYTES), bytes.length));
  const { tensors } = need(parseHeader(bytes.subarray(LENGTH_BYTES, start), bytes.length - start));
  return new Map(
    [...tensors].map(([name, { dtype, from, to }]) => {
      invariant(dtype === 'F32', `${name} of ${path} is ${dtype}`);
      return [name, decodeElements('F32', bytes.slice(start + from, start + to))];
    }),
  );
}

/** What is wrong with an exported folder: the golden tensors and no others, every element within the bound. */
export function weightFaults(name: string, folder: string, file = 'model.safetensors'): string[] {
  const expected = readTensors(goldenFile(`${name}/final.safetensors`));
  const exported = readTensors(join(folder, file));
  const extra = [...exported.keys()].filter((tensor) => !expected.has(tensor));
  const faults = extra.map((tensor) => `${tensor} is exported, but not golden`);
  for (const [tensor, golden] of expected) {
    const values = exported.get(tensor);
    if (values?.length !== golden.length) {
      faults.push(`${tensor} has ${values?.length ?? 'no'} elements, expected ${golden.length}`);
      continue;
    }
    // The key third of this bias has an exact gradient of 0, whose rounding Adam turns into steps.
    const [from, to] = tensor.endsWith('c_attn.bias') ? [golden.length / 3, (2 * golden.length) / 3] : [0, 0];
    const worst = golden.reduce(
      (most, value, at) => (at >= from && at < to ? most : Math.max(most, Math.abs(value - (values[at] ?? NaN)))),
      0,
    );
    if (!(worst <= WEIGHT_BOUND)) faults.push(`${tensor} is up to ${worst} off`);
  }
  return faults;
}
