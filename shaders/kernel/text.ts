/**
 * The WGSL that runs. A kernel's table says what is bound, so bindings, the dims and the functions that load and store
 * are written here, around the body that the kernel gives; and the entry point, which is where a launch in boxes learns
 * its place in the whole grid (grid.ts). golden/ holds such texts, to be read.
 *
 * A tensor of halves is read as floats and stored as halves, so every sum and function is the f32 kernel's own. A value
 * past 65,504 has to become infinite, so that an overflow is seen in the gradient's norm. WGSL lets a device choose what
 * it becomes, so the stores say it themselves.
 */
import { invariant } from '../../swarm/base.ts';
import { LARGEST_HALF } from '../../swarm/wire.ts';
import { type DimsPlace, dimSlots } from './dims.ts';
import type { AdapterFamily, DimSlot, Dims, Kernel, Source, TensorSlot, Width } from './kernel.ts';

/** Which of a kernel's texts a launch runs. */
export interface Variant {
  readonly family: AdapterFamily;
  /** Each dispatch is a box of the grid; else one dispatch is all of it. */
  readonly inBoxes: boolean;
}

/** Equal for launches that may share a pipeline. */
export function textKey(kernel: Kernel, dims: Dims, { family, inBoxes }: Variant): string {
  const named = (kind: TensorSlot['type']) => kernel.tensors.flatMap(({ name, type }) => (type === kind ? [name] : []));
  const [halves, packed, codes] = [named('f16'), named('packedF16'), named('packedInt8')];
  const { key } = kernel.source(family, dims);
  return [
    key,
    ...(halves.length > 0 ? ['halves', ...halves] : []),
    ...(packed.length > 0 ? ['packed', ...packed] : []),
    ...(codes.length > 0 ? ['codes', ...codes] : []),
    ...(inBoxes ? ['in boxes'] : []),
  ].join(' ');
}

export function textOf(kernel: Kernel, dims: Dims, { family, inBoxes }: Variant, place: DimsPlace = 'uniform'): string {
  const source = kernel.source(family, dims);
  const halves = kernel.tensors.some(({ type }) => type === 'f16');
  const directives = new Set([...(halves ? ['enable f16;'] : []), ...(source.directives ?? [])]);
  return [
    ...directives,
    ...dimsText(dimSlots(kernel, inBoxes), place),
    ...kernel.tensors.map((slot, binding) => tensorText(slot, binding, widthOf(source, slot))),
    ...(halves ? [STORED_AS_HALVES] : []),
    source.body(),
    entryText(source, inBoxes),
  ].join('\n');
}

const DECLARED: Readonly<Record<DimsPlace, string>> = {
  immediate: 'var<immediate> dims: Dims;',
  uniform: '@group(1) @binding(0) var<uniform> dims: Dims;',
};

function dimsText(slots: readonly DimSlot[], place: DimsPlace): string[] {
  const fields = slots.map(({ name, type }) => `${name}: ${type}`);
  return fields.length > 0 ? [`struct Dims { ${fields.join(', ')} }`, DECLARED[place]] : [];
}

function widthOf({ width }: Source, slot: TensorSlot): Width {
  if (slot.type === 'u32') return 1;
  const found = slot.width ?? (typeof width === 'number' ? width : width[slot.name]);
  invariant(found, `a source says how ${slot.name} is read`);
  return found;
}

const VECTOR_OF = { f32: 'f', f16: 'h', u32: 'u' } as const;

/** Two halves a word, the even element in its lower half. */
const HALVES: Readonly<Record<Width, readonly [type: string, loaded: (name: string) => string]>> = {
  1: ['u32', (name) => `return unpack2x16float(${name}[i / 2u])[i % 2u];`],
  2: ['u32', (name) => `return unpack2x16float(${name}[i]);`],
  4: ['vec2u', (name) => `return vec4f(unpack2x16float(${name}[i].x), unpack2x16float(${name}[i].y));`],
};

/** Blocks of 64 codes in 16 words, behind the word of their scale. */
function codesText(name: string, width: Width): string {
  const first = width === 1 ? 'i' : `${width}u * i`;
  const place = (j: number): string => (width === 4 ? `${8 * j}u` : `8u * (first % 4u + ${j}u)`);
  const codes = Array.from({ length: width }, (_, j) => `f32(extractBits(codes, ${place(j)}, 8u))`);
  const value = width === 1 ? codes.join() : `vec${width}f(${codes.join(', ')})`;
  return `let first = ${first}; let block = first / 64u * 17u; \
let codes = bitcast<i32>(${name}[block + 1u + first % 64u / 4u]); return bitcast<f32>(${name}[block]) * ${value};`;
}

function packedText({ name, access, type }: TensorSlot, binding: number, width: Width): string {
  invariant(access === 'read', `${name} is written, and no invocation has a word to itself`);
  const [word, loaded] = type === 'packedF16' ? HALVES[width] : (['u32', () => codesText(name, width)] as const);
  const value = width === 1 ? 'f32' : `vec${width}f`;
  return `@group(0) @binding(${binding}) var<storage, read> ${name}: array<${word}>;
fn load_${name}(i: u32) -> ${value} { ${loaded(name)} }`;
}

function tensorText(slot: TensorSlot, binding: number, width: Width): string {
  const { name, access, type } = slot;
  if (type === 'packedF16' || type === 'packedInt8') return packedText(slot, binding, width);
  const typeOf = (scalar: keyof typeof VECTOR_OF): string => (width === 1 ? scalar : `vec${width}${VECTOR_OF[scalar]}`);
  const value = typeOf(type === 'f16' ? 'f32' : type);
  const [loaded, stored] =
    type === 'f16' ? [`${value}(${name}[i])`, `as_half${width}(value)`] : [`${name}[i]`, 'value'];
  const mode = access === 'read' ? 'read' : 'read_write';
  const lines = [
    `@group(0) @binding(${binding}) var<storage, ${mode}> ${name}: array<${typeOf(type)}>;`,
    `fn load_${name}(i: u32) -> ${value} { return ${loaded}; }`,
    ...(access === 'read' ? [] : [`fn store_${name}(i: u32, value: ${value}) { ${name}[i] = ${stored}; }`]),
  ];
  return lines.join('\n');
}

const STORED_AS_HALVES = `const LARGEST_HALF = ${LARGEST_HALF}.0;
fn as_half1(x: f32) -> f16 { return f16(select(x, x * 0x1p127, abs(x) > LARGEST_HALF)); }
fn as_half4(x: vec4f) -> vec4h { return vec4h(select(x, x * 0x1p127, abs(x) > vec4f(LARGEST_HALF))); }`;

const IN_BOXES =
  'vec3u(dims.firstX, dims.firstY, dims.firstZ) + group, vec3u(dims.groupsX, dims.groupsY, dims.groupsZ)';

function entryText({ workgroupSize, takesSubgroup }: Source, inBoxes: boolean): string {
  const parameters = [
    '@builtin(workgroup_id) group: vec3u',
    ...(inBoxes ? [] : ['@builtin(num_workgroups) groups: vec3u']),
    '@builtin(local_invocation_index) local: u32',
    ...(takesSubgroup ? ['@builtin(subgroup_id) subgroup: u32'] : []),
  ];
  const place = inBoxes ? IN_BOXES : 'group, groups';
  return `@compute @workgroup_size(${workgroupSize})
fn main(${parameters.join(', ')}) {
  run(${place}, local${takesSubgroup ? ', subgroup' : ''});
}
`;
}
