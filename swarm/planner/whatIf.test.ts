import { expect, it } from 'vitest';
import { invariant } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import { planCluster } from './clusterPlan.ts';
import { changedCluster } from './whatIf.ts';

function problemOf(memory: readonly number[], layers: number, sequence: number) {
  const sizes = { n_layer: layers, n_head: 4, n_embd: 128, n_positions: 256, vocab_size: 64 };
  const model = modelFromConfig({ model_type: 'gpt2', ...sizes });
  const peers = memory.map((memoryBytes, index) => ({ id: `p${index}`, memoryBytes, flopsPerSecond: 1e9 }));
  const cluster = parseCluster({ peers }, 'c.json');
  invariant(model.ok && cluster.ok, 'a problem');
  return { model: model.value, batch: { samples: 4, sequence }, cluster: cluster.value };
}

const isPlanned = (problem: ReturnType<typeof problemOf>): boolean => planCluster(problem, () => false).ok;

function refusalOf(problem: ReturnType<typeof problemOf>): string {
  const found = planCluster(problem, () => false);
  invariant(!found.ok, 'nothing fits');
  return found.reason;
}

/** As they are, with another cluster. */
const within = (memory: readonly number[], cluster: Cluster, layers: number, sequence: number) => ({
  ...problemOf(memory, layers, sequence),
  cluster,
});

it.each([
  ['one peer', [2e7], 12, 32],
  ['unequal peers', [1.6e7, 2.2e7, 9e6], 24, 64],
  ['a long sequence', [1.4e7, 1.2e7], 3, 256],
])('what is said to fit has a plan: %s', (_, memory, layers, sequence) => {
  const problem = problemOf(memory, layers, sequence);
  const words = refusalOf(problem);
  expect(words).toMatch(
    /^the model does not fit these donors: about [\d.]+ \w+ of memory is missing\. p\d has .*\. What would help: /,
  );
  const [, fewer] = /a model of (\d+) layers? instead of/.exec(words) ?? [];
  const [, shorter] = /samples of (\d+) tokens? instead of/.exec(words) ?? [];
  const [, more, like] = /(\d+) more donors? like (\w+)/.exec(words) ?? [];
  expect(
    [fewer, shorter, more].some((part) => part !== undefined),
    words,
  ).toBe(true);
  if (fewer !== undefined) {
    expect(isPlanned(problemOf(memory, Number(fewer), sequence))).toBe(true);
    expect(Number(fewer)).toBeLessThan(layers);
  }
  if (shorter !== undefined) expect(isPlanned(problemOf(memory, layers, Number(shorter)))).toBe(true);
  if (more === undefined) return;
  expect(like).toBe(`p${memory.indexOf(Math.max(...memory))}`);
  const cluster = changedCluster(problem.cluster, `add ${more} like ${like}`);
  invariant(cluster.ok, 'a cluster');
  expect(isPlanned(within(memory, cluster.value, layers, sequence))).toBe(true);
});

it('all three ways are said where there are three, and the largest of each', () => {
  const words = refusalOf(problemOf([1.38e7, 1.18e7], 3, 256));
  expect(words).toMatch(
    /a model of \d layers? instead of 3; or samples of \d+ tokens instead of 256; or \d+ more donors? like/,
  );
  const [, fewer] = /a model of (\d+) layer/.exec(words) ?? [];
  expect(isPlanned(problemOf([1.38e7, 1.18e7], Number(fewer) + 1, 256))).toBe(false);
});

it('where nothing of the kind helps, that is said', () => {
  expect(refusalOf(problemOf([1e5, 1e5], 12, 32))).toMatch(
    /Fewer layers, .* do not help: it takes donors with more memory, or GPUs with larger buffers$/,
  );
});

it('it is also said where a search begins with a plan that does not fit any more', () => {
  const roomy = planCluster(problemOf([1e9, 1e9], 12, 32), () => false);
  invariant(roomy.ok, 'a plan');
  const found = planCluster({ ...problemOf([2e7, 1e6], 12, 32), inForce: roomy.value.plan }, () => false);
  expect(found).toMatchObject({ ok: false, reason: expect.stringContaining('What would help: a model of ') });
});
