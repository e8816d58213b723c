/** A matrix unit's functions written out in plain WGSL, so that tests run a unit's products on any adapter. */
import type { Kernel, Variant } from '../kernel.ts';
import { onMatrixUnit } from '../matmul.ts';
import type { MatrixUnit } from './matrixUnit.ts';

/**
 * One invocation is a subgroup, and the first four multiply. An operand is where it lies in its strip, which no one
 * changes before it is multiplied; a result is a place in private memory, which begins as zeros.
 */
function writtenOut(code: string, { m, n, k }: MatrixUnit): string {
  let results = 0;
  const text = code
    .replaceAll(/^(enable|diagnostic|alias).*$/gm, '')
    .replace(/, @builtin\(subgroup_id\) subgroup: u32\) \{/, ') {\n  let subgroup = local;')
    .replaceAll('Result()', () => `${m * n * results++}u`)
    .replaceAll(/subgroupMatrixLoad<\w+, \w+>\(&\w+, /g, 'vec2u(')
    .replaceAll('subgroupMatrixStore<row_major>(&matrices, ', 'store(')
    .replaceAll('subgroupMatrixMultiplyAccumulate', 'multiplyAccumulate');
  return `${text}
var<private> results: array<f32, ${m * n * results}>;
// A lies by columns, B by rows: x is the first element, y the stride.
fn multiplyAccumulate(a: vec2u, b: vec2u, result: u32) -> u32 {
  for (var i = 0u; i < ${m * n}u; i++) {
    var v = 0.0;
    for (var k = 0u; k < ${k}u; k++) { v += aStrip[a.x + k * a.y + i / ${n}u] * bStrip[b.x + k * b.y + i % ${n}u]; }
    results[result + i] += v;
  }
  return result;
}
fn store(offset: u32, result: u32, stride: u32) {
  for (var i = 0u; i < ${m * n}u; i++) { matrices[offset + i / ${n}u * stride + i % ${n}u] = results[result + i]; }
}
`;
}

/** A product's text for this unit, without the unit. */
export function variantWrittenOut(variant: Variant, unit: MatrixUnit): Variant {
  return { ...variant, key: `${variant.key} written out`, code: writtenOut(variant.code, unit) };
}

export function onWrittenOutUnit(product: Kernel, unit: MatrixUnit): Kernel {
  const kernel = onMatrixUnit(product, unit);
  return { ...kernel, variant: (family, dims) => variantWrittenOut(kernel.variant(family, dims), unit) };
}
