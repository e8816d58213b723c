/**
 * Shards whose peers' GPUs have no room for them, moved to main memory as far as those give it (PatrickStar, ZeRO-Offload):
 * then of a parameter that is computed with the GPU keeps its value and its gradient, 8 bytes, and main memory 16. As much
 * stays on the GPU as fits there, since what lies in main memory comes and goes over the bus. Replicas are placed later.
 */
import type { PeerId, Range } from '../base.ts';
import { HOST_FLOATS, hostBytes } from '../memory/memory.ts';
import type { Plan, Shard } from '../plan/plan.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';

/** Bytes of main memory that each peer gives; one that is not in it gives none. */
export type HostMemory = ReadonlyMap<PeerId, number>;

/** Of an element in main memory. */
export const HOST_ELEMENT_BYTES = FLOAT_BYTES * HOST_FLOATS;

interface Room {
  /** Bytes that a peer lacks on its GPU under a plan; 0 or less: none. */
  readonly lacks: (plan: Plan, peer: PeerId) => number;
  readonly hosts: HostMemory;
}

/** Bytes of main memory that a peer has left beside its shards there; without bounds where it has none. */
export function hostRoom(plan: Plan, peer: PeerId, given = 0): number {
  const needs = hostBytes(plan, peer, undefined);
  return needs === 0 ? Number.POSITIVE_INFINITY : given - needs;
}

/** The plan with as few shards in main memory as make its peers fit, the largest ones first. */
export function inMainMemory(plan: Plan, peers: readonly PeerId[], { lacks, hosts }: Room): Plan {
  let relieved = plan;
  for (const peer of peers) {
    for (const { block, range } of onGpu(plan, peer)) {
      if (lacks(relieved, peer) <= 0) break;
      const moved = withHost(relieved, block, range);
      if (hostBytes(moved, peer, undefined) <= (hosts.get(peer) ?? 0)) relieved = moved;
    }
  }
  return relieved;
}

function onGpu({ state }: Plan, peer: PeerId) {
  return state
    .flatMap(({ block, shards }) => shards.map((shard) => ({ block, ...shard })))
    .filter((shard) => shard.peer === peer && shard.in !== 'host')
    .toSorted((a, b) => sizeOf(b) - sizeOf(a));
}

const sizeOf = ({ range: [from, to] }: Pick<Shard, 'range'>): number => to - from;

function withHost(plan: Plan, block: string, range: Range): Plan {
  const state = plan.state.map((one) =>
    one.block === block
      ? {
          ...one,
          shards: one.shards.map((shard) => (shard.range[0] === range[0] ? { ...shard, in: 'host' as const } : shard)),
        }
      : one,
  );
  return { ...plan, state };
}
