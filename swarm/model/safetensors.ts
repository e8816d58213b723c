/**
 * The safetensors format: eight bytes of header length, a JSON header, then the tensors' bytes. Bytes from outside are
 * untrusted: a header is checked whole, with one sentence for each fault, before a single tensor is read.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';

/** Bytes an element takes, in the types whose tensors are checked for it. Others may stand beside them (mask buffers). */
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  U16: 2,
  I16: 2,
  F16: 2,
  BF16: 2,
  U32: 4,
  I32: 4,
  F32: 4,
  U64: 8,
  I64: 8,
  F64: 8,
};

/** Some hundred thousand tensors: far past every model that there is, and parsed in a second. */
const HEADER_LIMIT_BYTES = 16 * 2 ** 20;
export const LENGTH_BYTES = 8;

interface TensorEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes `[from, to)`, counted from the end of the header. */
  readonly from: number;
  readonly to: number;
}

export interface Header {
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  readonly metadata: Readonly<Record<string, string>>;
}

const natural = z.int().nonnegative();
const ENTRY = z.strictObject({ dtype: z.string(), shape: z.array(natural), data_offsets: z.tuple([natural, natural]) });
const METADATA = z.record(z.string(), z.string());

/** Length of the header, out of the file's first eight bytes. */
export function headerBytes(start: Uint8Array, fileBytes: number): Result<number> {
  if (start.length < LENGTH_BYTES || fileBytes < LENGTH_BYTES)
    return refusal('is too short for a safetensors file: eight bytes of header length were expected');
  const length = new DataView(start.buffer, start.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  if (length > HEADER_LIMIT_BYTES)
    return refusal(
      `is no safetensors file: its header would have ${length} bytes, at most ${HEADER_LIMIT_BYTES} were expected`,
    );
  if (Number(length) > fileBytes - LENGTH_BYTES)
    return refusal(`is truncated: its header has ${length} bytes, but only ${fileBytes - LENGTH_BYTES} follow`);
  return success(Number(length));
}

/** The header's JSON, checked against the bytes that follow it. Reasons go on from the file's name. */
export function parseHeader(bytes: Uint8Array, dataBytes: number): Result<Header> {
  const json = parseJson(bytes);
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    return refusal('is no safetensors file: its header is not a JSON object');
  const tensors = new Map<string, TensorEntry>();
  let metadata: Readonly<Record<string, string>> = {};
  for (const [name, value] of Object.entries(json)) {
    if (name === '__metadata__') {
      const parsed = METADATA.safeParse(value);
      if (!parsed.success) return refusal('has a __metadata__ that is not an object of strings');
      metadata = parsed.data;
      continue;
    }
    const entry = parseEntry(name, value);
    if (!entry.ok) return entry;
    tensors.set(name, entry.value);
  }
  const fault = layoutFault(tensors, dataBytes);
  return fault ? refusal(fault) : success({ tensors, metadata });
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined; // Not UTF-8 or not JSON: the caller's sentence says what was expected.
  }
}

function parseEntry(name: string, value: unknown): Result<TensorEntry> {
  const parsed = ENTRY.safeParse(value);
  if (!parsed.success)
    return refusal(`describes the tensor ${name} wrongly: dtype, shape and data_offsets were expected`);
  const { dtype, shape, data_offsets } = parsed.data;
  const [from, to] = data_offsets;
  const elementBytes = Object.hasOwn(ELEMENT_BYTES, dtype) ? ELEMENT_BYTES[dtype] : undefined;
  // Who reads the tensor says which types can be read.
  if (elementBytes === undefined && to >= from) return success({ dtype, shape, from, to });
  const bytes = shape.reduce((product, size) => product * size, elementBytes ?? 0);
  if (!Number.isSafeInteger(bytes) || to - from !== bytes)
    return refusal(`gives the tensor ${name} ${to - from} bytes: ${dtype} [${shape.join(', ')}] needs ${bytes}`);
  return success({ dtype, shape, from, to });
}

/** Tensors must cover the data without holes and without overlap. */
function layoutFault(tensors: ReadonlyMap<string, TensorEntry>, dataBytes: number): string | null {
  let end = 0;
  for (const [name, { from, to }] of [...tensors].sort(([, a], [, b]) => a.from - b.from || a.to - b.to)) {
    if (from < end) return `has tensors that overlap: ${name} starts at ${from}, the one before it ends at ${end}`;
    if (from > end) return `has a hole of ${from - end} bytes before the tensor ${name}`;
    end = to;
  }
  if (end > dataBytes) return `is truncated: its tensors need ${end} bytes, but only ${dataBytes} follow the header`;
  if (end < dataBytes) return `has ${dataBytes - end} bytes after its last tensor`;
  return null;
}

/** The start of a file (length and header, padded to 8 bytes) whose F32 tensors follow in this order. */
export function encodeHeader(
  tensors: readonly { readonly name: string; readonly shape: readonly number[] }[],
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array<ArrayBuffer> {
  // transformers refuses a file without this format.
  const header: Record<string, unknown> = { __metadata__: { format: 'pt', ...metadata } };
  let offset = 0;
  for (const { name, shape } of tensors) {
    const to = offset + shape.reduce((product, size) => product * size, 4);
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, to] };
    offset = to;
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const length = Math.ceil(json.length / 8) * 8;
  const out = new Uint8Array(LENGTH_BYTES + length).fill(0x20);
  new DataView(out.buffer).setBigUint64(0, BigInt(length), true);
  out.set(json, LENGTH_BYTES);
  return out;
}

/** Elements of a tensor as float32; `bytes` start on a boundary of their buffer. F16 waits for a library's conversion. */
export function decodeElements(dtype: 'F32' | 'BF16', bytes: Uint8Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  if (dtype === 'F32') return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  // A bfloat16 is the upper half of a float32.
  const halves = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
}
