/**
 * A model's weights, block by block: from a safetensors file, checked whole against the model table before a tensor is
 * read, or drawn from a seed. Nothing holds a whole model: a reader asks for a range of a block's elements.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { overlap, type Range, type Result, refusal, success } from '../swarm/base.ts';
import { initialValues } from '../swarm/initialValues.ts';
import { type BlockName, block, type Model, type TensorSpec } from '../swarm/model.ts';
import { decodeElements, headerBytes, LENGTH_BYTES, parseHeader, type TensorEntry } from '../swarm/safetensors.ts';
import { readExactly } from './blobs.ts';
import { readFault } from './runFileOnDisk.ts';

/** The model table's name of each tensor → the name an init file has for it. */
export type TensorNames = Readonly<Record<string, string>>;

export interface Weights {
  /** Null where there is no file that names them. */
  readonly tensorNames: TensorNames | null;
  /** Elements `[from, to)` of the block, its tensors in the order of the model table. */
  readBlock(name: BlockName, from: number, to: number): Promise<Float32Array<ArrayBuffer>>;
  close(): Promise<void>;
}

const PREFIX = 'transformer.';
/** Buffers that older checkpoints carry; the causal mask is part of attention here. */
const MASK_BUFFER = /^(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)$/;

export function seededWeights(model: Model, seed: number): Weights {
  let last: { readonly name: BlockName; readonly values: Float32Array<ArrayBuffer> } | undefined;
  return {
    tensorNames: null,
    async readBlock(name, from, to) {
      if (last?.name !== name) last = { name, values: initialValues(model, name, seed) };
      return last.values.slice(from, to);
    },
    close: async () => {},
  };
}

/** Opens `path` and compares its tensors with the model's: a missing, extra or mis-shaped one is refused by name. */
export async function openWeights(path: string, model: Model): Promise<Result<Weights>> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a safetensors file was expected`);
  }
  const found = await readTensors(file, model).catch((error: unknown) => refusal(readFault(error)));
  if (!found.ok) {
    await file.close();
    return refusal(`${path} ${found.reason}`);
  }
  const tensors = found.value;
  return success({
    tensorNames: Object.fromEntries([...tensors].map(([name, { fileName }]) => [name, fileName])),
    async readBlock(name, from, to) {
      const out = new Float32Array(to - from);
      for (const spec of block(model, name).tensors) {
        const wanted = overlap([from, to], [spec.offset, spec.offset + spec.elements]);
        const tensor = tensors.get(spec.name);
        if (!wanted || !tensor) continue;
        out.set(await readElements(file, tensor, spec, wanted), wanted[0] - from);
      }
      return out;
    },
    close: () => file.close(),
  });
}

interface FileTensor {
  readonly fileName: string;
  readonly dtype: 'F32' | 'BF16';
  /** Its first byte in the file. */
  readonly position: number;
}

async function readElements(file: FileHandle, tensor: FileTensor, { offset }: TensorSpec, [from, to]: Range) {
  const size = tensor.dtype === 'F32' ? 4 : 2;
  const bytes = await readExactly(file, tensor.position + (from - offset) * size, (to - from) * size);
  return decodeElements(tensor.dtype, bytes);
}

/** The model's tensors in the file, by the model table's names. Reasons go on from the file's name. */
async function readTensors(file: FileHandle, model: Model): Promise<Result<ReadonlyMap<string, FileTensor>>> {
  const { size } = await file.stat();
  const start = await readExactly(file, 0, Math.min(LENGTH_BYTES, size));
  const length = headerBytes(start, size);
  if (!length.ok) return length;
  const dataStart = LENGTH_BYTES + length.value;
  const header = parseHeader(await readExactly(file, LENGTH_BYTES, length.value), size - dataStart);
  if (!header.ok) return header;

  const specs = new Map(model.blocks.flatMap(({ tensors }) => tensors.map((spec) => [spec.name, spec] as const)));
  const found = new Map<string, FileTensor>();
  for (const [fileName, entry] of header.value.tensors) {
    if (MASK_BUFFER.test(fileName) || isTiedHead(fileName, entry, model)) continue;
    const name = specs.has(fileName) ? fileName : PREFIX + fileName;
    const spec = specs.get(name);
    if (!spec || found.has(name)) return refusal(`has a tensor that the model has not: ${fileName}`);
    const fault = tensorFault(fileName, entry, spec);
    if (fault) return refusal(fault);
    const dtype = entry.dtype === 'BF16' ? 'BF16' : 'F32';
    found.set(name, { fileName, dtype, position: dataStart + entry.from });
  }
  for (const { name, shape } of specs.values())
    if (!found.has(name)) return refusal(`lacks the model's tensor ${name} [${shape.join(', ')}]`);
  return success(found);
}

/** Some checkpoints of a tied model repeat the token table as its head. Of the same shape it is left unread. */
function isTiedHead(fileName: string, { shape }: TensorEntry, { tied, vocabulary, width }: Model): boolean {
  return tied && fileName === 'lm_head.weight' && shape.length === 2 && shape[0] === vocabulary && shape[1] === width;
}

function tensorFault(fileName: string, { dtype, shape }: TensorEntry, spec: TensorSpec): string | null {
  if (shape.length !== spec.shape.length || shape.some((size, i) => size !== spec.shape[i]))
    return `has ${fileName} in shape [${shape.join(', ')}]: the model needs [${spec.shape.join(', ')}]`;
  if (dtype === 'F16')
    return `has ${fileName} in F16, which comes with a later version of Shoal: F32 or BF16 is expected`;
  if (dtype !== 'F32' && dtype !== 'BF16') return `has ${fileName} in ${dtype}: F32 or BF16 was expected`;
  return null;
}
