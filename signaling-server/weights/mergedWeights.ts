/**
 * The whole model that an adapter makes of its base: each matrix W that it changes is W + scale·B·A, read range by range and
 * rounded to float32 once. A tied head that it changes is untied, since the token table stays as it is.
 */
import { invariant, overlap, type Range } from '../../swarm/base.ts';
import { type Block, type BlockName, block, type Model, type TensorSpec } from '../../swarm/model/model.ts';
import { modelOf, type RunFile, wholeModelOf } from '../../swarm/run/runFile.ts';
import { untiedOf, type Weights } from './weights.ts';

type Read = Weights['readBlock'];

export interface MergedWeights {
  readonly model: Model;
  readonly read: Read;
}

const WEIGHT = '.weight';
const A = '.lora_A.weight';
const HEAD = 'lm_head';

/** What is added to a matrix. */
interface Change {
  readonly scale: number;
  readonly a: string;
  readonly b: string;
  /** The stored matrix has a row for each input: it is turned. */
  readonly isTurned: boolean;
}

/** By the name of the matrix. */
function changesOf(model: Model): Map<string, Change> {
  const changes = new Map<string, Change>();
  const rows = Array.from({ length: model.layers }, (_, index) => model.layer(index)).flat();
  for (const row of [...rows, ...model.head]) {
    if (row.op !== 'linear' || !row.adapter) continue;
    const { scale, a: names, parts } = row.adapter;
    for (const [index, a] of names.entries()) {
      const part = parts[index];
      invariant(part, 'each A has its B');
      const isTurned = row.weightLayout === 'inOut';
      changes.set(a.slice(0, -A.length) + WEIGHT, { scale, a, b: part.b, isTurned });
    }
  }
  return changes;
}

/** `base` reads the standing blocks, `trained` the adapter's. */
export function mergedWeights(file: RunFile, base: Read, trained: Read): MergedWeights {
  const [adapted, whole] = [modelOf(file), wholeModelOf(file)];
  const changes = changesOf(adapted);
  const model = whole.tied && changes.has(HEAD + WEIGHT) ? untiedOf(whole) : whole;
  const adapterTensor = reader(adapted.blocks, trained);
  const baseTensor = reader(whole.blocks, base);
  /** Factors of the tensor read last. */
  let newest: { readonly name: string; readonly a: Float32Array; readonly b: Float32Array } | null = null;
  const factorsOf = async (name: string, { a, b }: Change) => {
    if (newest?.name !== name) newest = { name, a: await adapterTensor(a), b: await adapterTensor(b) };
    return newest;
  };
  const table = whole.blocks[0]?.tensors[0]?.name ?? '';
  const known = new Set(whole.blocks.flatMap(({ tensors }) => tensors.map(({ name }) => name)));
  return {
    model,
    async read(name, from, to) {
      const out = new Float32Array(to - from);
      for (const spec of block(model, name).tensors) {
        const wanted = overlap([from, to], [spec.offset, spec.offset + spec.elements]);
        if (!wanted) continue;
        const range: Range = [wanted[0] - spec.offset, wanted[1] - spec.offset];
        const values = await baseTensor(known.has(spec.name) ? spec.name : table, range);
        const change = changes.get(spec.name);
        if (change) addProduct(values, spec, range, change, await factorsOf(spec.name, change));
        out.set(values, wanted[0] - from);
      }
      return out;
    },
  };
}

/** Reads a tensor, or elements of it, by its name. */
function reader(blocks: readonly Block[], read: Read) {
  const places = new Map<string, readonly [BlockName, TensorSpec]>(
    blocks.flatMap(({ name, tensors }) => tensors.map((spec) => [spec.name, [name, spec] as const] as const)),
  );
  return (name: string, range?: Range): Promise<Float32Array<ArrayBuffer>> => {
    const place = places.get(name);
    invariant(place, `there is a tensor ${name}`);
    const [in_, { offset, elements }] = place;
    const [from, to] = range ?? [0, elements];
    return read(in_, offset + from, offset + to);
  };
}

/** Adds to elements `range` of the tensor: of outputs o and inputs i, scale·Σ B[o, k]·A[k, i]. */
function addProduct(
  values: Float32Array,
  { shape }: TensorSpec,
  [from]: Range,
  { scale, isTurned }: Change,
  { a, b }: { readonly a: Float32Array; readonly b: Float32Array },
): void {
  const [rows = 1, columns = 1] = shape;
  const inputs = isTurned ? rows : columns;
  const rank = a.length / inputs;
  for (let at = 0; at < values.length; at++) {
    const [row, column] = [Math.floor((from + at) / columns), (from + at) % columns];
    const [output, input] = isTurned ? [column, row] : [row, column];
    let sum = 0;
    for (let k = 0; k < rank; k++) sum += (b[output * rank + k] ?? 0) * (a[k * inputs + input] ?? 0);
    values[at] = (values[at] ?? 0) + scale * sum;
  }
}
