/**
 * Plans whose state lies where no plain split has it: gathered by who computes with it, in main memory, with who computes
 * nothing, and all of that at once. For tests: of four peers each, with a replica of every shard, so that no loss gives up a step.
 */
import { at, evenRanges, type PeerId } from '../base.ts';
import type { Model } from '../model/model.ts';
import { homeStage, type Plan, type Shard } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';

/** `peers`: four. The last one keeps nothing in main memory: it may give none. */
export type StatePlan = (model: Pick<Model, 'layers' | 'blocks'>, samples: number, peers: readonly PeerId[]) => Plan;

const MICRO_BATCHES = 4;

const split = (model: Pick<Model, 'layers' | 'blocks'>, samples: number, peers: readonly PeerId[], stages: number) =>
  equalSplit(model, samples, peers, { stages, microBatches: Math.min(MICRO_BATCHES, samples), schedule: '1f1b' });

/** Who comes after it among these. */
const next = (among: readonly PeerId[], peer: PeerId): PeerId => at(among, (among.indexOf(peer) + 1) % among.length);

const copied = (shard: Shard, among: readonly PeerId[]): Shard => ({ ...shard, replicas: [next(among, shard.peer)] });

/** One stage whose four members gather its blocks, one at a time. */
export const gatheredPlan: StatePlan = (model, samples, peers) => {
  const whole = split(model, samples, peers, 1);
  return {
    ...whole,
    stages: whole.stages.map((stage) => ({ ...stage, gathered: 1 as const })),
    state: whole.state.map(({ block, shards }) => ({ block, shards: shards.map((shard) => copied(shard, peers)) })),
  };
};

/** The same, each block once for all micro-batches of a pass: each of the four has two, where there are so many samples. */
export const layeredPlan: StatePlan = (model, samples, peers) => {
  const split = equalSplit(model, samples, peers, { stages: 1, microBatches: Math.min(8, samples), schedule: 'gpipe' });
  return {
    ...split,
    stages: split.stages.map((stage) => ({ ...stage, gathered: 1 as const, layered: true as const })),
    state: split.state.map(({ block, shards }) => ({ block, shards: shards.map((shard) => copied(shard, peers)) })),
  };
};

/** Two stages of two; what is not the last peer's lies in main memory, with copies at those who are not the last. */
export const mainMemoryPlan: StatePlan = (model, samples, peers) => {
  const whole = split(model, samples, peers, 2);
  const [last, givers] = [peers.at(-1), peers.slice(0, -1)];
  const placed = (shard: Shard): Shard =>
    shard.peer === last ? copied(shard, peers) : { ...copied(shard, givers), in: 'host' };
  return { ...whole, state: whole.state.map(({ block, shards }) => ({ block, shards: shards.map(placed) })) };
};

/** Three compute, a stage each; the last keeps a half of every block, and they the other. */
export const keeperPlan: StatePlan = (model, samples, peers) => {
  const members = peers.slice(0, -1);
  const keeper = at(peers, members.length);
  const whole = split(model, samples, members, members.length);
  const state = model.blocks.map(({ name, elements }) => {
    const own = at(at(whole.stages, homeStage(whole, name)).members, 0).peer;
    return { block: name, shards: halves(elements, [own, [keeper]], [keeper, [next(members, own)]]) };
  });
  return { ...whole, state };
};

/**
 * The first computes a stage alone, the next two gather the last stage, the fourth computes nothing. Of the first stage's
 * blocks the first keeps a half in main memory, the fourth the other half; of the last stage's the second keeps its shards there.
 */
export const allAtOnce: StatePlan = (model, samples, peers) => {
  const [first, second, third, fourth] = [0, 1, 2, 3].map((place) => at(peers, place)) as [
    PeerId,
    PeerId,
    PeerId,
    PeerId,
  ];
  const whole = split(model, samples, [first, second, third], 2);
  const state = whole.state.map(({ block, shards }) => {
    if (homeStage(whole, block) === 0) {
      const elements = Math.max(...shards.map(({ range }) => range[1]));
      const [one, other] = halves(elements, [first, [second]], [fourth, [third]]);
      return { block, shards: [{ ...one, in: 'host' as const }, other] };
    }
    const gathered = shards.map((shard) => copied(shard, [second, third]));
    return {
      block,
      shards: gathered.map((shard) => (shard.peer === second ? { ...shard, in: 'host' as const } : shard)),
    };
  });
  return {
    ...whole,
    stages: whole.stages.map((stage, index) => (index === 1 ? { ...stage, gathered: 1 as const } : stage)),
    state,
  };
};

type Keepers = readonly [primary: PeerId, replicas: readonly PeerId[]];

function halves(elements: number, ...keepers: readonly [Keepers, Keepers]): [Shard, Shard] {
  const [one, other] = keepers.map(([peer, replicas], half): Shard => {
    return { peer, replicas, range: at(evenRanges(elements, keepers.length), half) };
  });
  return [one, other] as [Shard, Shard];
}
