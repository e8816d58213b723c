/**
 * Valid plans of every shape the rules allow, from a seeded generator: stages of uneven depth, micro-batches of uneven
 * size with ids in no order, each (stage, micro-batch) at any peer, shards anywhere. For tests and fuzzers.
 */
import { arrayOf, below, invariant, type PeerId, peerId, type Random, type Range } from '../base.ts';
import { type Block, layerBlock, type Model } from '../model/model.ts';
import { type BlockState, type Gathered, gatheringHome, type Plan, type PlanStage, type Shard } from '../plan/plan.ts';

/** d0, d1 and so on. */
export const donors = (count: number): PeerId[] => arrayOf(count, (index) => peerId(`d${index}`));

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
      ...arrayOf(layers, (index) => block(layerBlock(index), [4, 48, 12])),
      block('head', tied ? [4, 4] : [4, 4, 40]),
    ],
    embedding: [],
    layer: () => [],
    head: [],
  };
}

interface RandomCase {
  readonly model: Model;
  readonly samples: number;
  readonly plan: Plan;
}

export function randomPlan(random: Random): RandomCase {
  const model = outlineModel(1 + below(random, 6), random() < 0.5);
  const samples = 1 + below(random, 12);
  const peers = shuffled(random, 1 + below(random, 5)).map((number) => peerId(`p${number}`));
  return { model, samples, plan: randomPlanFor(random, model, samples, peers, { recompute: 0.3, replicas: 0.3 }) };
}

interface Frequency {
  /** How often a member recomputes a layer, and a peer is a replica of a shard that it is not primary of. */
  readonly recompute: number;
  readonly replicas: number;
  /** A stage gathers its blocks, a shard lies in main memory, a peer computes nothing; absent: none. */
  readonly gathered?: number;
  readonly apart?: number;
  readonly host?: number;
  /** How often a plan is one stage that gathers each block once a pass. */
  readonly layered?: number;
}

/** A valid plan for this model, of some of these peers or all. */
export function randomPlanFor(
  random: Random,
  model: Pick<Model, 'layers' | 'blocks'>,
  samples: number,
  peers: readonly PeerId[],
  often: Frequency = { recompute: 0, replicas: 0 },
): Plan {
  const { gathered = 0, host = 0, apart = 0, layered = 0 } = often;
  const pick = (among: readonly PeerId[] = peers): PeerId => {
    const peer = among[below(random, among.length)];
    invariant(peer, 'a plan has a peer');
    return peer;
  };
  /** Nothing is drawn for what never is, so that a seed's plans stay what they were. */
  const isDrawn = (share: number): boolean => share > 0 && random() < share;
  const isLayered = isDrawn(layered);
  const workers = peers.filter((_, place) => place === 0 || !isDrawn(apart));
  const ids = shuffled(random, 20);
  const microBatches = cut(random, samples, 6).map((range, index) => ({ id: ids[index] ?? index, samples: range }));
  const stages = cut(random, model.layers, isLayered ? 1 : 4).map((layers): PlanStage => {
    const owned = new Map(peers.map((peer) => [peer, microBatches.filter(() => false)]));
    for (const microBatch of microBatches) owned.get(pick(workers))?.push(microBatch);
    const members = [...owned].filter(([, list]) => list.length > 0);
    const whole: { gathered?: Gathered } = isLayered || isDrawn(gathered) ? { gathered: random() < 0.5 ? 1 : 2 } : {};
    return {
      layers,
      ...whole,
      ...(isLayered && { layered: true }),
      members: members.map(([peer, list]) => ({
        peer,
        microBatches: list.map(({ id }) => id),
        samples: list.reduce((sum, { samples: [from, to] }) => sum + to - from, 0),
        recompute: random() < often.recompute ? [layers[0]] : [],
      })),
    };
  });
  const work: Plan = { stages, microBatches, state: [], schedule: 'gpipe' };
  const state = model.blocks.map(({ name, elements }): BlockState => {
    // What is gathered is kept by those who gather it.
    const keepers = gatheringHome(work, name)?.members.map((member) => member.peer) ?? peers;
    const shards = cut(random, elements, 3).map((range): Shard => {
      const peer = pick(keepers);
      const replicas = keepers.filter((other) => other !== peer && random() < often.replicas);
      return { peer, range, replicas, ...(isDrawn(host) && { in: 'host' }) };
    });
    return { block: name, shards };
  });
  return { ...work, state };
}

/** `[0, total)` cut into at most `most` parts of any sizes. */
function cut(random: Random, total: number, most: number): Range[] {
  const edges = new Set([0, total]);
  for (let i = 1; i < most; i++) edges.add(below(random, total));
  const sorted = [...edges].sort((a, b) => a - b);
  return sorted.slice(1).map((to, index) => [sorted[index] ?? 0, to] as const);
}

/** The numbers below `count`, in random order. */
function shuffled(random: Random, count: number): number[] {
  const list = arrayOf(count, (index) => index);
  for (let index = count - 1; index > 0; index--) {
    const other = below(random, index + 1);
    [list[index], list[other]] = [list[other] ?? 0, list[index] ?? 0];
  }
  return list;
}

/** Three stages of one peer each, which keeps what it computes with; of a model of three layers. */
export const lineOfThree = (model: Model, one: PeerId, two: PeerId, three: PeerId): Plan => {
  const keeper = [one, one, two, three, three];
  return {
    stages: [one, two, three].map((peer, layer) => ({
      layers: [layer, layer + 1],
      members: [{ peer, microBatches: [0], samples: 1, recompute: [] }],
    })),
    microBatches: [{ id: 0, samples: [0, 1] }],
    state: model.blocks.map(({ name, elements }, index) => ({
      block: name,
      shards: [{ peer: keeper[index] ?? one, range: [0, elements], replicas: [] }],
    })),
    schedule: 'gpipe',
  };
};
