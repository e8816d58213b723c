/**
 * The WGSL that runs, in golden/ for a case of every kernel: for software adapters and for GPUs; of one kernel over halves,
 * and one in boxes with immediates. Of kernels that differ by a few lines one is shown; CPU references hold the others.
 * `npx vitest run --project swarm shaders/kernel/text.test.ts -u` writes the files anew.
 */
import { describe, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { addInto } from '../arrays/addInto.ts';
import { matmul } from '../family/matmul.ts';
import { kernels } from '../kernels.ts';
import type { DimsPlace } from './dims.ts';
import { inHalves } from './inHalves.ts';
import type { Dims, Kernel } from './kernel.ts';
import { textKey, textOf, type Variant } from './text.ts';

const SOFTWARE: Variant = { family: 'software', inBoxes: false };
const GPU: Variant = { family: 'gpu', inBoxes: false };
const sliced = matmul({ layout: 'TN', epilogue: { biasGradient: true }, slices: true });
const overHalves = kernels.map((kernel) => inHalves(kernel)).filter((kernel, index) => kernel !== kernels[index]);

/** Of the products one of each layout. */
const PRODUCTS = ['matmul.NN.bias.gelu', 'matmul.NT.geluBackward', 'matmul.TN.accumulate.biasGradient'];
/** Repeats another kernel's text but for a function or a constant. */
const REPEATS = /^(copy\.out|packInt4|adamw|sumSlices\..+|packInt8\..+)$/;
const isShown = ({ name }: Kernel): boolean =>
  name.startsWith('matmul.') ? PRODUCTS.includes(name) : !REPEATS.test(name);

/** Read by fours where there is such a case, as a model's usual widths are; a product's strips always are. */
function shown(kernel: Kernel): Dims {
  const isWide = (dims: Dims): boolean => /(?<!Strip): array<vec4/.test(textOf(kernel, dims, GPU));
  return kernel.cases.find(isWide) ?? at(kernel.cases, 0);
}

/** A text that both families share is one file. */
const files = new Map<string, string>();
function show(kernel: Kernel, variant: Variant, suffix: string, place?: DimsPlace): void {
  const dims = shown(kernel);
  const said = `// ${kernel.name}${suffix} for ${JSON.stringify(dims).replaceAll('"', '')}\n`;
  files.set(`${kernel.name}${suffix}.wgsl`, said + textOf(kernel, dims, variant, place));
}
for (const kernel of kernels.filter(isShown)) {
  const isShared = textOf(kernel, shown(kernel), SOFTWARE) === textOf(kernel, shown(kernel), GPU);
  show(kernel, GPU, isShared ? '' : '.gpu');
  if (!isShared) show(kernel, SOFTWARE, '.software');
}
show(sliced, GPU, '.gpu');
for (const kernel of overHalves) if (kernel.name === 'matmul.NN.halves') show(kernel, GPU, '');
show(addInto, { family: 'gpu', inBoxes: true }, '.inBoxes', 'immediate');

test.each([...files.keys()])('golden/%s', async (name) => {
  await expect(files.get(name)).toMatchFileSnapshot(`../golden/${name}`);
});

test('no text declares a function twice, as a kernel of the name of one that all texts have would', () => {
  const all = [...kernels, ...overHalves].map((kernel) => [kernel, GPU] as const);
  for (const [kernel, variant] of [...all, ...kernels.map((kernel) => [kernel, SOFTWARE] as const)]) {
    const names = [...textOf(kernel, shown(kernel), variant).matchAll(/\bfn (\w+)\(/g)].map(([, name]) => name);
    expect(names, kernel.name).toEqual([...new Set(names)]);
  }
});

test('golden/ has no other files', () => {
  const there = Object.keys(import.meta.glob('../golden/*')).map((path) => path.slice('../golden/'.length));
  expect(there.toSorted()).toEqual([...files.keys()].toSorted());
});

describe('keys', () => {
  test('equal keys have equal texts, and other texts other keys', () => {
    const texts = new Map<string, string>();
    const all = [...kernels, sliced, ...overHalves].flatMap((kernel) =>
      kernel.cases.flatMap((dims) =>
        [false, true].map((inBoxes) => [kernel, dims, { family: 'gpu', inBoxes }] as const),
      ),
    );
    for (const [kernel, dims, variant] of all) {
      const text = textOf(kernel, dims, variant);
      const key = textKey(kernel, dims, variant);
      expect(texts.get(key) ?? text, key).toBe(text);
      texts.set(key, text);
    }
    expect(new Set(texts.values()).size).toBe(texts.size);
  });
});
