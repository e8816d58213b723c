/**
 * What other donors than a plan was made for keep of it beside its order: stages that gather, and state in main memory. The
 * rest of theirs is an equal split.
 */
import { at, overlap, type PeerId, type Range } from '../base.ts';
import type { BlockName } from '../model/model.ts';
import { gathersAny, type Plan, type PlanStage, type Shard } from '../plan/plan.ts';
import { HOST_ELEMENT_BYTES, type HostMemory } from './mainMemory.ts';

/** Has a plan any of that? */
export const hasPlaces = ({ stages, state }: Plan): boolean =>
  gathersAny(stages) || state.some(({ shards }) => shards.some((shard) => shard.in === 'host'));

/**
 * A split whose stages of several members gather where those in the same place of `like` do, and whose shards lie in main
 * memory where its do, each as far as its keeper gives some. `mayCut`: also a part of a shard.
 */
export function likePlan(split: Plan, like: Plan, hosts: HostMemory, mayCut: boolean): Plan {
  const stages = split.stages.map((stage, index) => {
    const { gathered, layered } = stageAt(like, index / split.stages.length);
    if (gathered === undefined || stage.members.length < 2) return stage;
    const mayBeLayered = split.stages.length === 1 && split.schedule === 'gpipe';
    return { ...stage, gathered, ...(layered && mayBeLayered && { layered }) };
  });
  const free = new Map(hosts);
  const state = split.state.map(({ block, shards }) => {
    const inHost = hostRanges(like, block);
    return { block, shards: shards.flatMap((shard) => placed(shard, inHost, free, mayCut)) };
  });
  return { ...split, stages, state };
}

const stageAt = ({ stages }: Plan, part: number): PlanStage => at(stages, Math.floor(part * stages.length));

/** Ascending; neighbouring ones are one. */
function hostRanges({ state }: Plan, name: BlockName): Range[] {
  const found: Range[] = [];
  const shards = state.find(({ block }) => block === name)?.shards ?? [];
  for (const { range, in: place } of shards.toSorted((a, b) => a.range[0] - b.range[0])) {
    if (place !== 'host') continue;
    const last = found.at(-1);
    if (last?.[1] === range[0]) found[found.length - 1] = [last[0], range[1]];
    else found.push(range);
  }
  return found;
}

/** A shard, cut where what lies in main memory begins and ends. */
function placed(shard: Shard, inHost: readonly Range[], free: Map<PeerId, number>, mayCut: boolean): Shard[] {
  const [first, end] = shard.range;
  const within = inHost.flatMap((range) => {
    const part = overlap(range, shard.range);
    return part && (mayCut || part[1] - part[0] === end - first) ? [part] : [];
  });
  const found: Shard[] = [];
  let reached = first;
  for (const range of within) {
    if (reached < range[0]) found.push({ ...shard, range: [reached, range[0]] });
    found.push(moved({ ...shard, range }, free));
    reached = range[1];
  }
  return reached < end ? [...found, { ...shard, range: [reached, end] }] : found;
}

/** In main memory, where its keeper has so much left. */
function moved(shard: Shard, free: Map<PeerId, number>): Shard {
  const left = (free.get(shard.peer) ?? 0) - HOST_ELEMENT_BYTES * (shard.range[1] - shard.range[0]);
  if (left < 0) return shard;
  free.set(shard.peer, left);
  return { ...shard, in: 'host' };
}
