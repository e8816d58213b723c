/**
 * A model's weights, block by block: from safetensors files, checked whole against the model table before a tensor is
 * read, or drawn from a seed. Nothing holds a whole model: a reader asks for a range of a block's elements.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { got, invariant, overlap, type Range, type Result, refusal, success } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { initialReader } from '../../swarm/model/initialValues.ts';
import { type BlockName, block, type Model, type TensorSpec } from '../../swarm/model/model.ts';
import { type Header, headerBytes, LENGTH_BYTES, parseHeader } from '../../swarm/model/safetensors.ts';
import { readExactly } from '../files/blobs.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { elementBytes, elementsOf, firstNonFinite, isWeightType, WEIGHT_TYPES, type WeightType } from './elements.ts';
import { findWeightFiles, type WeightFiles } from './weightFiles.ts';

/** The model table's name of each tensor → the name an init file has for it. */
export type TensorNames = Readonly<Record<string, string>>;

export interface Weights {
  /** What they are the weights of: the model asked for, untied where its head is not its token table. */
  readonly model: Model;
  /** Null where there is no file that names them. */
  readonly tensorNames: TensorNames | null;
  /** Elements `[from, to)` of the block, its tensors in the order of the model table. */
  readBlock(name: BlockName, from: number, to: number): Promise<Float32Array<ArrayBuffer>>;
  /** Which of these values, read from the block's element `from` on, is no number, in a sentence; null: none. */
  fault(name: BlockName, from: number, values: Float32Array): string | null;
  close(): Promise<void>;
}

/** What a checkpoint of the model inside, without its head, leaves out of the names. */
const PREFIXES = ['transformer.', 'model.'];
/** Buffers that older checkpoints carry: the causal mask and the angles are part of attention here. */
const BUFFER =
  /^(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)$|^(model\.)?(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq$/;
const HEAD = 'lm_head.weight';
/** Elements of a table and a head that are compared at once. */
const COMPARED_ELEMENTS = 2 ** 20;

export function seededWeights(model: Model, seed: number): Weights {
  const read = initialReader(model, seed);
  return {
    model,
    tensorNames: null,
    readBlock: async (name, from, to) => read(name, from, to),
    fault: () => null,
    close: async () => {},
  };
}

/** Opens what is at `path` and compares its tensors with the model's: a missing, extra or mis-shaped one is refused. */
export async function openWeights(path: string, model: Model): Promise<Result<Weights>> {
  const files = await findWeightFiles(path);
  return files.ok ? openFiles(files.value, (parts) => tensorsOf(files.value, parts, model)) : files;
}

/** The tensors that `find` finds in the files. */
export async function openFiles(
  files: WeightFiles,
  find: (parts: readonly Part[]) => Promise<Result<FoundTensors>>,
): Promise<Result<Weights>> {
  const parts: Part[] = [];
  const close = async (): Promise<void> => void (await Promise.all(parts.map(({ file }) => file.close())));
  for (const part of files.parts) {
    const opened = await openPart(part);
    if (opened.ok) parts.push(opened.value);
    else {
      await close();
      return refusal(`${part}${opened.reason}`);
    }
  }
  try {
    const found = await find(parts);
    if (found.ok) return success(weightsOf(found.value.tensors, found.value.model, close));
    await close();
    return found;
  } catch (error) {
    await close();
    throw error;
  }
}

/** One safetensors file. */
interface Part {
  readonly path: string;
  readonly file: FileHandle;
  readonly header: Header;
  /** Its first byte after the header. */
  readonly dataStart: number;
}

/** A tensor of the model in its file. */
interface FileTensor {
  readonly part: Part;
  readonly fileName: string;
  /** What an export calls it. */
  readonly exportName: string;
  readonly dtype: WeightType;
  /** Its first byte in the file. */
  readonly position: number;
}

type FileTensors = ReadonlyMap<string, FileTensor>;

/** The model that the files are of, and its tensors in them, by the model table's names. */
interface FoundTensors {
  readonly model: Model;
  readonly tensors: FileTensors;
}

/** What files call the tensors of a model. */
export interface Naming {
  /** It is left out: no tensor of a table. */
  isAside(fileName: string): boolean;
  /** Names in the model table that it may have there. */
  candidates(fileName: string): readonly string[];
}

const HUGGING_FACE: Naming = {
  isAside: (fileName) => BUFFER.test(fileName),
  candidates: (fileName) => [fileName, ...PREFIXES.map((prefix) => prefix + fileName)],
};

function weightsOf(tensors: FileTensors, model: Model, close: () => Promise<void>): Weights {
  return {
    model,
    tensorNames: Object.fromEntries([...tensors].map(([name, { exportName }]) => [name, exportName])),
    async readBlock(name, from, to) {
      const out = new Float32Array(to - from);
      for (const spec of block(model, name).tensors) {
        const wanted = overlap([from, to], [spec.offset, spec.offset + spec.elements]);
        if (!wanted) continue;
        out.set(await readElements(got(tensors, spec.name), spec.offset, wanted), wanted[0] - from);
      }
      return out;
    },
    fault(name, from, values) {
      const index = firstNonFinite(values);
      if (index < 0) return null;
      const element = from + index;
      const spec = block(model, name).tensors.find(
        ({ offset, elements }) => offset <= element && element < offset + elements,
      );
      invariant(spec, `${name} has an element ${element}`);
      const { part, fileName } = got(tensors, spec.name);
      return `${part.path} has ${values[index]} in ${fileName}, at its element ${element - spec.offset}: finite numbers were expected`;
    },
    close,
  };
}

/** `offset`: the tensor's first element in what the range counts. */
async function readElements({ part, dtype, position }: FileTensor, offset: number, [from, to]: Range) {
  const size = elementBytes(dtype);
  return elementsOf(dtype, await readExactly(part.file, position + (from - offset) * size, (to - from) * size));
}

/** Reasons go on from the file's name. */
async function openPart(path: string): Promise<Result<Part>> {
  let file: FileHandle | undefined;
  try {
    await fileBytes(path);
    file = await open(path);
    const header = await readHeader(file);
    if (header.ok) return success({ path, file, ...header.value });
    await file.close();
    return refusal(` ${header.reason}`);
  } catch (error) {
    await file?.close();
    return refusal(`: ${readFault(error)}: a safetensors file was expected`);
  }
}

async function readHeader(file: FileHandle): Promise<Result<Pick<Part, 'header' | 'dataStart'>>> {
  const { size } = await file.stat();
  const start = await readExactly(file, 0, Math.min(LENGTH_BYTES, size));
  const length = headerBytes(start, size);
  if (!length.ok) return length;
  const dataStart = LENGTH_BYTES + length.value;
  const header = parseHeader(await readExactly(file, LENGTH_BYTES, length.value), size - dataStart);
  return header.ok ? success({ header: header.value, dataStart }) : header;
}

async function tensorsOf(files: WeightFiles, parts: readonly Part[], model: Model): Promise<Result<FoundTensors>> {
  const found = tensorsNamed(files, parts, untiedOf(model), HUGGING_FACE);
  if (!found.ok) return found;
  return whole(files, found.value, model.tied ? await withoutTiedHead(found.value, model) : model);
}

/** That no tensor of the model is missing. */
export function whole({ path }: WeightFiles, tensors: FileTensors, model: Model): Result<FoundTensors> {
  const missing = model.blocks.flatMap((own) => own.tensors).find(({ name }) => !tensors.has(name));
  if (missing) return refusal(`${path} lacks the model's tensor ${missing.name} [${missing.shape.join(', ')}]`);
  return success({ model, tensors });
}

/** The same model with a head of its own. Whether its dropout matters was asked when the model was read. */
export function untiedOf(model: Model): Model {
  const untied = modelFromConfig({ ...model.config, tie_word_embeddings: false }, 'inference');
  invariant(untied.ok, 'every model can be untied');
  return untied.value;
}

/**
 * What the head of a tied model is, as transformers 5 takes it: where it stands alone (safetensors' `save_model` keeps one
 * name of a shared tensor) the token table, where it is equal to the table left unread, else a head of its own: then the
 * model is not tied.
 */
async function withoutTiedHead(found: Map<string, FileTensor>, model: Model): Promise<Model> {
  const spec = block(model, 'embedding').tensors[0];
  invariant(spec, 'the embedding block starts with the token table');
  const [table, head] = [found.get(spec.name), found.get(HEAD)];
  if (!head) return model;
  if (table && !(await areEqual(table, head, spec))) return untiedOf(model);
  found.delete(HEAD);
  if (!table) found.set(spec.name, { ...head, exportName: exportNameOf(spec.name, found) });
  return model;
}

/** With the prefix, or without it, as the other tensors have it. */
function exportNameOf(name: string, others: FileTensors): string {
  for (const [tensor, { fileName }] of others) {
    const prefix = tensor.slice(0, tensor.length - fileName.length);
    if (prefix !== '' && tensor.endsWith(fileName) && name.startsWith(prefix)) return name.slice(prefix.length);
  }
  return name;
}

async function areEqual(table: FileTensor, head: FileTensor, { elements }: TensorSpec): Promise<boolean> {
  for (let from = 0; from < elements; from += COMPARED_ELEMENTS) {
    const range: Range = [from, Math.min(elements, from + COMPARED_ELEMENTS)];
    const [a, b] = [await readElements(table, 0, range), await readElements(head, 0, range)];
    if (a.some((value, i) => value !== b[i])) return false;
  }
  return true;
}

/** The tensors of the files that are the model's. */
export function tensorsNamed(
  files: WeightFiles,
  parts: readonly Part[],
  model: Pick<Model, 'blocks'>,
  naming: Naming,
): Result<Map<string, FileTensor>> {
  const specs = new Map(model.blocks.flatMap(({ tensors }) => tensors.map((spec) => [spec.name, spec] as const)));
  const partOf = new Map<string, string>();
  const found = new Map<string, FileTensor>();
  for (const part of parts)
    for (const [fileName, entry] of part.header.tensors) {
      const other = partOf.get(fileName);
      if (other !== undefined) return refusal(`${files.path} has ${fileName} in two parts: ${other} and ${part.path}`);
      partOf.set(fileName, part.path);
      if (naming.isAside(fileName)) continue;
      const name = naming.candidates(fileName).find((candidate) => specs.has(candidate));
      const spec = specs.get(name ?? '');
      if (!spec || found.has(spec.name))
        return refusal(`${part.path} has a tensor that the model does not have: ${fileName}`);
      const { dtype, shape } = entry;
      if (shape.length !== spec.shape.length || shape.some((size, i) => size !== spec.shape[i]))
        return refusal(
          `${part.path} has ${fileName} in shape [${shape.join(', ')}]: the model needs [${spec.shape.join(', ')}]`,
        );
      if (!isWeightType(dtype))
        return refusal(`${part.path} has ${fileName} in ${dtype}: one of ${WEIGHT_TYPES} was expected`);
      found.set(spec.name, { part, fileName, exportName: fileName, dtype, position: part.dataStart + entry.from });
    }
  for (const [tensor, place] of files.places ?? [])
    if (partOf.get(tensor) !== place)
      return refusal(`${files.path} puts ${tensor} into ${place}, which does not have it`);
  return success(found);
}
