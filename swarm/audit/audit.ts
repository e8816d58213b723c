/**
 * An audit: all that one member computed at one stage in one step is done again in float64, from what came in, and compared
 * with what it sent. Pure; whoever calls it has made sure that every tensor is the one that its sender had committed to.
 *
 * A tensor's relative difference is L2(sent − own) / L2(own). What its encoding rounds is no difference: of an element that is
 * sent as s with a step of d, only |s − own| − d/2 counts, which is at most what the member's own float32 missed. So one bound
 * holds for every encoding. int8 gradients carry what rounding missed to the next micro-batch of the step; that follows from
 * what was sent, so it is added here too. int4 gradients are drawn and are not compared, nor are int4 activations: their steps
 * are a quarter of their size. Gradient sums are compared block by block: a tensor whose gradient is 0 but for rounding (the
 * key's third of GPT-2's attention bias) is judged beside the rest of its block.
 *
 * Where something is above its bound, the audit is done once more with inputs and weights that are off by as much as a float
 * rounds, each by a sign drawn for it: what then moves as much, no honest arithmetic could have told.
 */
import { assertNever, got, mixed } from '../base.ts';
import { type BlockName, block, blocksOfStage, standingBlock, standingOfStage } from '../model/model.ts';
import { type Matrix, plainProducts } from '../reference/products.ts';
import { Transformer } from '../reference/transformer.ts';
import { NO_TARGET, type WindowRows } from '../run/data.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS, int8Scale, unpackedF16, unpackedInt4, unpackedInt8 } from '../wire.ts';
import type { AuditCase, AuditedMicroBatch, AuditedTensor, AuditOutcome, SentTensor } from './auditCase.ts';

/**
 * The largest differences of honest donors that were seen, on 2026-11-30: the tiny models of GPT-2 and Llama in two stages of
 * f32 on SwiftShader, with each wire, examples that are padded, and weights from fresh to a spread of 0.5, where attention is as
 * good as a choice (web/src/gpu/audit.gpu.test.ts with SHOAL_MEASURE=1 prints them).
 */
const HONEST: Readonly<Record<AuditedTensor['what'], number>> = {
  output: 1.8e-6,
  'input gradient': 5.2e-6,
  /** Seen: 5.1e-8. But WGSL lets an exponential be off by some units in the last place. */
  loss: 2e-6,
  'gradient sum': 9.4e-6,
};
/** Wide models sum more than tiny ones. A lie of 1 % is still 50 times above. */
const MARGIN = 20;
/** Of real GPUs, none of which was measured yet: their exponentials are less exact. */
const UNMEASURED = 1e-3;
const convictionBound = (what: AuditedTensor['what'], isMeasured: boolean): number =>
  isMeasured ? MARGIN * HONEST[what] : UNMEASURED;

/** By which share a float that is kept is off at most. */
const ROUNDING_UNIT = 2 ** -23;
/** What rounds in a stage, over what one nudge of its inputs and weights moves. */
const ROUNDINGS = 16;

/** What float64 has for one member. Micro-batches by their id. */
interface Redone {
  readonly outputs: ReadonlyMap<number, Matrix>;
  readonly inputGradients: ReadonlyMap<number, Matrix>;
  readonly lossSums: ReadonlyMap<number, number>;
  readonly sums: ReadonlyMap<BlockName, Matrix>;
}

type Difference = Omit<AuditedTensor, 'bound'> & { readonly key: string };

export function auditOutcome(one: AuditCase): AuditOutcome {
  const redone = redo(one, 0);
  const found = differences(one, redone).map((difference) => ({
    ...difference,
    bound: convictionBound(difference.what, one.isMeasured),
  }));
  if (!found.some(isAbove)) return outcome(found);
  const moved = movements(redone, redo(one, ROUNDING_UNIT));
  const explained = (key: string): number => ROUNDINGS * got(moved, key);
  return outcome(found.map((tensor) => ({ ...tensor, bound: Math.max(tensor.bound, explained(tensor.key)) })));
}

const isAbove = ({ relative, bound }: AuditedTensor): boolean => !(relative <= bound);

function outcome(found: readonly (Difference & AuditedTensor)[]): AuditOutcome {
  let first: AuditedTensor | null = null;
  for (const { key: _, ...tensor } of found)
    if (first === null || tensor.relative / tensor.bound > first.relative / first.bound) first = tensor;
  const agrees = first === null || !isAbove(first);
  return { agrees, worst: first, evidence: first === null ? 'nothing of it can be compared' : sentence(first, agrees) };
}

function sentence({ what, microBatch, relative, bound }: AuditedTensor, agrees: boolean): string {
  const which = microBatch === null ? what : `${what} of micro-batch ${microBatch}`;
  const size = Number.isFinite(relative)
    ? `${relative.toExponential(1)} of its size`
    : 'no number, or as good as infinite,';
  const verdict = agrees ? 'within' : 'more than';
  return `its ${which} is ${size} off what float64 makes of the same input, ${verdict} the ${bound.toExponential(1)} that rounding explains`;
}

/** Whatever was sent, beside what float64 has. */
function differences(one: AuditCase, redone: Redone): Difference[] {
  const found: Difference[] = [];
  const leftOver: number[] = [];
  for (const { id, output, inputGradient, lossSum, samples } of one.microBatches) {
    const tell = (what: Difference['what'], direction: 'F' | 'B', relative: number) =>
      found.push({ key: `${what} ${id}`, what, direction, microBatch: id, relative });
    if (output && output.encoding !== 'int4') tell('output', 'F', excess(output, got(redone.outputs, id), 1));
    if (inputGradient && inputGradient.encoding !== 'int4') {
      const made = got(redone.inputGradients, id);
      const own = inputGradient.encoding === 'int8' ? carried(inputGradient, made, leftOver) : made;
      tell('input gradient', 'B', excess(inputGradient, own, one.gain));
    }
    if (lossSum === null) continue;
    const own = got(redone.lossSums, id);
    tell('loss', 'F', finite(Math.abs(lossSum - own) / (own + samples * one.sequence)));
  }
  for (const [name, own] of redone.sums) {
    const parts = one.sums.filter((part) => part.block === name);
    if (parts.length === 0) continue;
    let squares = 0;
    for (const { range, values } of parts)
      for (let i = range[0]; i < range[1]; i++) squares += ((values[i - range[0]] ?? 0) - (own[i] ?? 0)) ** 2;
    const relative = ratio(Math.sqrt(squares), norm(own));
    found.push({ key: name, what: 'gradient sum', direction: 'B', microBatch: null, relative });
  }
  return found;
}

/** By how much more than what its encoding rounds a tensor is off, over the tensor's size. `gain`: packed as halves, it was multiplied with that. */
function excess({ encoding, words }: SentTensor, own: Matrix, gain: number): number {
  const sent = decoded({ encoding, words }, own.length, gain);
  let squares = 0;
  for (let i = 0; i < own.length; i++) {
    const value = own[i] ?? 0;
    const off = Math.abs((sent[i] ?? 0) - value);
    const step = stepOf(encoding, words, own, i, gain);
    squares += off <= step / 2 ? 0 : (off - step / 2) ** 2; // NaN stays
  }
  return ratio(Math.sqrt(squares), norm(own));
}

/** Between the numbers that an encoding has beside an element. */
function stepOf(encoding: SentTensor['encoding'], words: Float32Array, own: Matrix, i: number, gain: number): number {
  switch (encoding) {
    case 'f32':
      return 0;
    case 'f16':
      return Math.max(Math.abs(own[i] ?? 0) * 2 ** -10, 2 ** -13 / gain); // what is smaller a GPU may flush
    case 'int8': {
      const first = i - (i % INT8_BLOCK);
      const scale = words[(first / INT8_BLOCK) * INT8_BLOCK_WORDS] ?? 0;
      // Where the largest element is next to where scales jump, two honest ones differ by an eighth at most.
      const most = int8Scale(own.subarray(first, Math.min(first + INT8_BLOCK, own.length))) * 1.125;
      return Math.min(scale, most);
    }
    case 'int4':
      return Number.POSITIVE_INFINITY;
    default:
      return assertNever(encoding);
  }
}

/** With what the micro-batches before missed; what this one misses is left over for the next. */
function carried(sent: SentTensor, made: Matrix, leftOver: number[]): Matrix {
  const values = decoded(sent, made.length, 1);
  const own = made.map((value, i) => value + (leftOver[i] ?? 0));
  for (let i = 0; i < own.length; i++) leftOver[i] = (own[i] ?? 0) - (values[i] ?? 0);
  return own;
}

function decoded({ encoding, words }: SentTensor, elements: number, gain: number): Float32Array {
  switch (encoding) {
    case 'f32':
      return words;
    case 'f16':
      return unpackedF16(words, elements).map((value) => value / gain);
    case 'int8':
      return unpackedInt8(words, elements);
    case 'int4':
      return unpackedInt4(words, elements).map((value) => value / gain);
    default:
      return assertNever(encoding);
  }
}

/** How far each tensor is from what it was. */
function movements(before: Redone, after: Redone): ReadonlyMap<string, number> {
  const moved = new Map<string, number>();
  const compare = (name: string, own: ReadonlyMap<number, Matrix>, other: ReadonlyMap<number, Matrix>) => {
    for (const [id, values] of own) moved.set(`${name} ${id}`, apart(got(other, id), values));
  };
  compare('output', before.outputs, after.outputs);
  compare('input gradient', before.inputGradients, after.inputGradients);
  for (const [id, sum] of before.lossSums) moved.set(`loss ${id}`, ratio(Math.abs(got(after.lossSums, id) - sum), sum));
  for (const [name, values] of before.sums) moved.set(name, apart(got(after.sums, name), values));
  return moved;
}

function apart(a: Matrix, b: Matrix): number {
  let squares = 0;
  for (let i = 0; i < b.length; i++) squares += ((a[i] ?? 0) - (b[i] ?? 0)) ** 2;
  return ratio(Math.sqrt(squares), norm(b));
}

function norm(values: Matrix): number {
  let squares = 0;
  for (let i = 0; i < values.length; i++) squares += (values[i] ?? 0) ** 2;
  return Math.sqrt(squares);
}

const ratio = (part: number, whole: number): number => (part === 0 ? 0 : finite(part / whole));
const finite = (relative: number): number => (Number.isFinite(relative) ? relative : Number.POSITIVE_INFINITY);

/** All of it in float64. `nudge`: by which share, up or down, each weight and each element of an input is off. */
function redo(one: AuditCase, nudge: number): Redone {
  const { model, layers, sequence, microBatches, counted } = one;
  const [outputs, inputGradients] = [new Map<number, Matrix>(), new Map<number, Matrix>()];
  const lossSums = new Map<number, number>();
  const tensors = stageTensors(one, nudge);
  const sums = new Map<string, Matrix>();
  const transformers = new Map<number, Transformer>();
  for (const microBatch of microBatches) {
    const { id, samples, input, gradient } = microBatch;
    const shape = { sequences: samples, positions: sequence, layers };
    const transformer = transformers.get(samples) ?? new Transformer(model, tensors, plainProducts, shape);
    transformers.set(samples, transformer);
    const elements = samples * sequence * model.width;
    const nudged = (sent: SentTensor, gain: number) => off(Float64Array.from(decoded(sent, elements, gain)), nudge, id);
    if (input) transformer.input.set(nudged(input, 1));
    const loss = transformer.forward(windowsOf(microBatch, sequence), counted);
    if (layers[1] < model.layers) outputs.set(id, transformer.output.slice());
    else lossSums.set(id, loss * counted);
    transformer.backward(gradient ? nudged(gradient, one.gain) : undefined);
    if (layers[0] > 0) inputGradients.set(id, transformer.inputGradient.slice());
    for (const [name, values] of transformer.gradients) {
      const sum = sums.get(name) ?? new Float64Array(values.length);
      addOnto(sum, values);
      sums.set(name, sum);
    }
  }
  return { outputs, inputGradients, lossSums, sums: byBlock(one, sums) };
}

/** Of a stage that reads no tokens: rows that are not looked at. */
function windowsOf({ samples, tokens }: AuditedMicroBatch, sequence: number): WindowRows[] {
  return Array.from({ length: samples }, (_, sample) => {
    const part = <T extends Uint32Array>(rows: T) => rows.subarray(sample * sequence, (sample + 1) * sequence);
    if (tokens === null)
      return { ids: new Uint32Array(sequence), targets: new Uint32Array(sequence).fill(NO_TARGET), firstRows: null };
    const { ids, targets, firstRows } = tokens;
    return { ids: part(ids), targets: part(targets), firstRows: firstRows && part(firstRows) };
  });
}

/** What a stage computes with, by tensor. */
function stageTensors({ model, layers, values, standing }: AuditCase, nudge: number): Map<string, Float64Array> {
  const tensors = new Map<string, Float64Array>();
  const trained = blocksOfStage(model, layers).map(({ block: name }) => [block(model, name), values] as const);
  const others = standingOfStage(model, layers).map(
    ({ block: name }) => [standingBlock(model, name), standing] as const,
  );
  for (const [{ name, tensors: rows, elements }, parts] of [...trained, ...others]) {
    const all = new Float64Array(elements);
    for (const part of parts) if (part.block === name) all.set(part.values, part.range[0]);
    off(all, nudge, elements);
    for (const row of rows) tensors.set(row.name, all.subarray(row.offset, row.offset + row.elements));
  }
  return tensors;
}

function byBlock({ model, layers }: AuditCase, sums: ReadonlyMap<string, Matrix>): Map<BlockName, Matrix> {
  return new Map(
    blocksOfStage(model, layers).map(({ block: name }) => {
      const { tensors, elements } = block(model, name);
      const all = new Float64Array(elements);
      for (const { name: tensor, offset } of tensors) all.set(sums.get(tensor) ?? [], offset);
      return [name, all];
    }),
  );
}

/** In place. */
function off(values: Float64Array, nudge: number, seed: number): Float64Array {
  if (nudge > 0)
    for (let i = 0; i < values.length; i++)
      values[i] = (values[i] ?? 0) * (1 + (mixed(i ^ mixed(seed)) & 1 ? nudge : -nudge));
  return values;
}

function addOnto(sum: Matrix, values: Matrix): void {
  for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] ?? 0) + (values[i] ?? 0);
}
