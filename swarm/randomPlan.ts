/**
 * Valid plans of every shape the rules allow, from a seeded generator: stages of uneven depth, micro-batches of uneven
 * size with ids in no order, each (stage, micro-batch) at any peer, shards anywhere. For tests and fuzzers.
 */
import { peerId, type Random, type Range } from './base.ts';
import { type Block, layerBlock, type Model } from './model.ts';
import type { BlockState, Plan, PlanStage } from './plan.ts';

/** A model without operations: enough for whatever reads blocks, tensors and sizes. */
export function outlineModel(layers: number, tied: boolean): Model {
  const block = (name: Block['name'], sizes: readonly number[]): Block => {
    const tensors = sizes.map((elements, index) => ({
      name: `${name}.${index}`,
      shape: [elements],
      elements,
      offset: sizes.slice(0, index).reduce((sum, size) => sum + size, 0),
      initial: 'normal' as const,
    }));
    return { name, tensors, elements: sizes.reduce((sum, size) => sum + size, 0) };
  };
  return {
    family: 'gpt2',
    config: {},
    layers,
    width: 4,
    heads: 2,
    headWidth: 2,
    innerWidth: 16,
    vocabulary: 10,
    positions: 5,
    initializerRange: 0.02,
    tied,
    blocks: [
      block('embedding', [40, 20]),
      ...Array.from({ length: layers }, (_, index) => block(layerBlock(index), [4, 48, 12])),
      block('head', tied ? [4, 4] : [4, 4, 40]),
    ],
    embedding: [],
    layer: () => [],
    head: [],
  };
}

export interface RandomCase {
  readonly model: Model;
  readonly samples: number;
  readonly plan: Plan;
}

export function randomPlan(random: Random): RandomCase {
  const below = (limit: number): number => Math.floor(random() * limit);
  const pick = <T>(list: readonly [T, ...T[]]): T => list[below(list.length)] ?? list[0];
  /** `[0, total)` cut into at most `most` parts of any sizes. */
  const cut = (total: number, most: number): Range[] => {
    const edges = new Set([0, total]);
    for (let i = 1; i < most; i++) edges.add(below(total));
    const sorted = [...edges].sort((a, b) => a - b);
    return sorted.slice(1).map((to, index) => [sorted[index] ?? 0, to] as const);
  };

  const model = outlineModel(1 + below(6), random() < 0.5);
  const samples = 1 + below(12);
  const ids = shuffled(random, 20);
  const microBatches = cut(samples, 6).map((range, index) => ({ id: ids[index] ?? index, samples: range }));
  const [first, ...others] = shuffled(random, 1 + below(5)).map((number) => peerId(`p${number}`));
  if (first === undefined) throw new Error('there is at least one peer');
  const everyone = [first, ...others] as const;

  const stages = cut(model.layers, 4).map((layers): PlanStage => {
    const owned = new Map(everyone.map((peer) => [peer, microBatches.filter(() => false)]));
    for (const microBatch of microBatches) owned.get(pick(everyone))?.push(microBatch);
    const members = [...owned].filter(([, list]) => list.length > 0);
    return {
      layers,
      members: members.map(([peer, list]) => ({
        peer,
        microBatches: list.map(({ id }) => id),
        samples: list.reduce((sum, { samples: [from, to] }) => sum + to - from, 0),
        recompute: random() < 0.3 ? [layers[0]] : [],
      })),
    };
  });
  const state = model.blocks.map(
    ({ name, elements }): BlockState => ({
      block: name,
      shards: cut(elements, 3).map((range) => {
        const peer = pick(everyone);
        return { peer, range, replicas: everyone.filter((other) => other !== peer && random() < 0.3) };
      }),
    }),
  );
  return { model, samples, plan: { stages, microBatches, state, schedule: 'gpipe' } };
}

/** The numbers below `count`, in random order. */
function shuffled(random: Random, count: number): number[] {
  const list = Array.from({ length: count }, (_, index) => index);
  for (let index = count - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [list[index], list[other]] = [list[other] ?? 0, list[index] ?? 0];
  }
  return list;
}
