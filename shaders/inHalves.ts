/**
 * A kernel whose activations and weights are stored as f16. The one idea: only loads and stores are other ones. The text
 * is rewritten so that whatever is loaded from such a tensor becomes a float at once, and whatever is stored becomes a
 * half last, so every sum and function is the f32 kernel's own, whatever the kernel is.
 *
 * The convention: a half tensor is declared as an array (of arrays) of Lane, vec4f or f32, and is used only as
 * `name[…]`, in an expression or at the left of `=`, `+=`, `-=`, `*=`; no pointer is taken to it, and no single component
 * of it is stored. Kernels for software adapters need not keep to it: SwiftShader has no shader-f16.
 *
 * A value past 65,504 has to become infinite, so that an overflow is seen in the gradient's norm. WGSL lets a device
 * choose what it becomes, so the stores say it themselves.
 */
import { invariant } from '../swarm/base.ts';
import { halfBits, halfValue, LARGEST_HALF } from './half.ts';
import type { Arrays, Dims, Kernel, TensorSlot, Variant } from './kernel.ts';

const made = new WeakMap<Kernel, Kernel>();

/** The same kernel over halves; itself where no tensor of it may be one. */
export function inHalves(kernel: Kernel): Kernel {
  const halves = kernel.tensors.filter(({ half }) => half);
  if (halves.length === 0) return kernel;
  const known = made.get(kernel) ?? makeInHalves(kernel, halves);
  made.set(kernel, known);
  return known;
}

function makeInHalves(kernel: Kernel, halves: readonly TensorSlot[]): Kernel {
  return {
    ...kernel,
    name: `${kernel.name}.halves`,
    tensors: kernel.tensors.map((slot) => (slot.half ? { ...slot, type: 'f16' } : slot)),
    variant: (family, dims) => {
      invariant(family === 'gpu', `${kernel.name} over halves is for GPUs`);
      return variantInHalves(kernel.variant(family, dims), halves);
    },
    fill: (arrays, dims, random) => {
      kernel.fill?.(arrays, dims, random);
      for (const { name } of halves) roundToHalves(arrays, name);
    },
    cost: (dims) => {
      const { flops, bytes } = kernel.cost(dims);
      return { flops, bytes: bytes * shareOfBytes(kernel, dims) };
    },
  };
}

function roundToHalves(arrays: Arrays, name: string): void {
  const values = arrays[name];
  for (let i = 0; i < values.length; i++) values[i] = halfValue(halfBits(values[i]));
}

/** What a kernel's tensors take with halves, as a share of what they take without. */
function shareOfBytes(kernel: Kernel, dims: Dims): number {
  const sizes = kernel.sizes(dims);
  let [whole, all] = [0, 0];
  for (const { name, half } of kernel.tensors) {
    whole += 4 * sizes[name];
    all += (half ? 2 : 4) * sizes[name];
  }
  // A table's length is no dim of a launch that reads it: then bytes are taken for what floats would be.
  return whole > 0 ? all / whole : 1;
}

function variantInHalves(variant: Variant, halves: readonly TensorSlot[]): Variant {
  const names = halves.map(({ name }) => name).join(' ');
  return { ...variant, key: `${variant.key} halves ${names}`, code: textInHalves(variant.code, halves) };
}

const PRELUDE = `
const LARGEST_HALF = ${LARGEST_HALF}.0;
fn half1(x: f32) -> f16 { return f16(select(x, x * 0x1p127, abs(x) > LARGEST_HALF)); }
fn half4(x: vec4f) -> vec4h { return vec4h(select(x, x * 0x1p127, abs(x) > vec4f(LARGEST_HALF))); }
`;

export function textInHalves(code: string, halves: readonly TensorSlot[]): string {
  let text = code.replaceAll(/\/\/.*$/gm, '');
  for (const { name } of halves) text = tensorInHalves(text, name);
  return `enable f16;\n${text}${PRELUDE}`;
}

const DECLARATION = (name: string): RegExp =>
  new RegExp(`(var<storage, (?:read|read_write)>\\s+${name}\\s*:\\s*)([^;]+);`);

function tensorInHalves(text: string, name: string): string {
  const found = DECLARATION(name).exec(text);
  const [whole, head, type] = found ?? ['', '', ''];
  const element = /\b(Lane|vec4f|f32)\b/.exec(type)?.[1];
  invariant(found && element, `${name} is not declared by the convention`);
  const isWide = element === 'vec4f' || (element === 'Lane' && /alias\s+Lane\s*=\s*vec4f/.test(text));
  const access: Access = {
    name,
    depth: type.split('array<').length - 1,
    load: isWide ? 'vec4f' : 'f32',
    store: isWide ? 'half4' : 'half1',
  };
  const from = found.index;
  const declaration = `${head}${type.replace(element, isWide ? 'vec4h' : 'f16')};`;
  return rewrite(text.slice(0, from), access) + declaration + rewrite(text.slice(from + whole.length), access);
}

/** How the text uses a tensor: so many indices, and what converts an element. */
interface Access {
  readonly name: string;
  readonly depth: number;
  readonly load: string;
  readonly store: string;
}

/** `name[i]` -> `f32(name[i])`, `name[i] += v;` -> `name[i] = half1(f32(name[i]) + (v));` */
function rewrite(text: string, access: Access): string {
  const { name, depth, load, store } = access;
  const use = new RegExp(`(?<![\\w.])${name}(?=\\[)`, 'g');
  let out = '';
  let at = 0;
  for (let match = use.exec(text); match; match = use.exec(text)) {
    let end = match.index + name.length;
    for (let i = 0; i < depth; i++) end = closing(text, end);
    invariant(text[match.index - 1] !== '&', `a pointer is taken to ${name}`);
    const place = name + rewrite(text.slice(match.index + name.length, end), access);
    const assigned = /^\s*([-+*]?)=(?!=)/.exec(text.slice(end));
    invariant(assigned || !/^[.[][^;=]*[^=<>!;]=(?!=)/.test(text.slice(end)), `a part of ${name}[…] is stored`);
    out += text.slice(at, match.index);
    if (assigned) {
      const stop = text.indexOf(';', end);
      const value = rewrite(text.slice(end + assigned[0].length, stop), access).trim();
      const [, operator] = assigned;
      out += `${place} = ${store}(${operator === '' ? value : `${load}(${place}) ${operator} (${value})`})`;
      at = stop;
    } else {
      out += `${load}(${place})`;
      at = end;
    }
    use.lastIndex = at;
  }
  return out + text.slice(at);
}

/** The position behind the bracket that closes the one at `open`. */
function closing(text: string, open: number): number {
  invariant(text[open] === '[', 'an index was expected');
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text[i] === '[') depth++;
    if (text[i] === ']') depth--;
    if (depth === 0) return i + 1;
  }
  throw new Error('invariant violated: an index is not closed');
}
