/**
 * Shards whose peers' GPUs have no room for them, moved to main memory as far as those give it (PatrickStar, ZeRO-Offload):
 * then of a parameter that is computed with the GPU keeps its value and its gradient, 8 bytes, and main memory 16. As much
 * stays on the GPU as fits there, since what lies in main memory comes and goes over the bus. Replicas are placed later.
 */
import { at, type PeerId, type Range } from '../base.ts';
import { HOST_FLOATS, hostBytes } from '../memory/memory.ts';
import type { Plan, Shard } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';

/** What an element in main memory takes, in seconds, as a donor's worker measured it. */
export interface MainMemorySpeed {
  /** Before the commit: its gradient is added to the sum, and that squared. */
  readonly sumSeconds: number;
  /** After it: AdamW. */
  readonly updateSeconds: number;
  /** AdamW of one on its GPU; absent: not measured. */
  readonly onGpuSeconds?: number;
}

/** Of whoever did not measure it: a core updates some seventy million elements a second. */
export const ASSUMED_SPEED: MainMemorySpeed = { sumSeconds: 10e-9, updateSeconds: 15e-9 };
/** Of an element: no core is faster, and none that trains anything is slower. */
const [LEAST_SECONDS, MOST_SECONDS] = [0.2e-9, 0.2e-6];
/** Of one on a GPU: none is faster, and a software adapter is no slower. */
const [LEAST_ON_GPU, MOST_ON_GPU] = [1e-12, 1e-5];
/** Shards begin at multiples of so many elements. */
const SHARD_ALIGNMENT = 64;

/** Less than the least is a clock that stood. */
const believed = (seconds: number, assumed: number): number =>
  seconds < LEAST_SECONDS ? assumed : Math.min(MOST_SECONDS, seconds);

/** As it is planned with: a donor's word, within bounds. */
export const believedSpeed = ({ sumSeconds, updateSeconds, onGpuSeconds = 0 }: MainMemorySpeed): MainMemorySpeed => ({
  sumSeconds: believed(sumSeconds, ASSUMED_SPEED.sumSeconds),
  updateSeconds: believed(updateSeconds, ASSUMED_SPEED.updateSeconds),
  ...(onGpuSeconds >= LEAST_ON_GPU && { onGpuSeconds: Math.min(MOST_ON_GPU, onGpuSeconds) }),
});

/** Bytes of main memory that each peer gives; one that is not in it gives none. */
export type HostMemory = ReadonlyMap<PeerId, number>;

/** Of an element in main memory. */
export const HOST_ELEMENT_BYTES = FLOAT_BYTES * HOST_FLOATS;

interface Room {
  /** Bytes that a peer lacks on its GPU under a plan; 0 or less: none. */
  readonly lacks: (plan: Plan, peer: PeerId) => number;
  readonly hosts: HostMemory;
  /** Whether a shard may be cut anywhere, where main memory holds no whole one more. */
  readonly mayCut: boolean;
}

/** Bytes of main memory that a peer has left beside its shards there; without bounds where it has none. */
export function hostRoom(plan: Plan, peer: PeerId, given = 0): number {
  const needs = hostBytes(plan, peer, undefined);
  return needs === 0 ? Infinity : given - needs;
}

/** The plan with as few shards in main memory as make its peers fit: the largest ones, and last the smallest that is enough. */
export function inMainMemory(plan: Plan, peers: readonly PeerId[], { lacks, hosts, mayCut }: Room): Plan {
  let relieved = plan;
  for (const peer of peers) {
    const given = hosts.get(peer) ?? 0;
    if (given < HOST_ELEMENT_BYTES) continue;
    const inHost = ({ block, range }: Located): Plan => withHost(relieved, block, range);
    while (lacks(relieved, peer) > 0) {
      const free = (given - hostBytes(relieved, peer, undefined)) / HOST_ELEMENT_BYTES;
      const all = onGpu(relieved, peer);
      const whole = all.filter((shard) => sizeOf(shard) <= free);
      const [largest] = whole;
      if (largest === undefined) {
        const elements = Math.floor(free / SHARD_ALIGNMENT) * SHARD_ALIGNMENT;
        const [cut] = all;
        if (cut && mayCut && elements > 0)
          relieved = inHost({ ...cut, range: [cut.range[0], cut.range[0] + elements] });
        break;
      }
      // The sizes fall: of those that are enough alone the last one.
      let [enough, most] = [-1, whole.length - 1];
      while (enough < most) {
        const middle = (enough + most + 1) >> 1;
        const isEnough = lacks(inHost(at(whole, middle)), peer) <= 0;
        if (isEnough) enough = middle;
        else most = middle - 1;
      }
      relieved = inHost(enough < 0 ? largest : at(whole, enough));
    }
  }
  return relieved;
}

/** The plan with so many elements more of a peer's state in main memory: its largest shards, and of the next one its beginning. */
export function moreInMainMemory(plan: Plan, peer: PeerId, elements: number, mayCut: boolean): Plan {
  let [moved, left] = [plan, elements];
  for (const { block, range } of onGpu(plan, peer)) {
    const size = sizeOf({ range });
    const part = size <= left ? size : mayCut ? Math.floor(left / SHARD_ALIGNMENT) * SHARD_ALIGNMENT : 0;
    if (part === 0) continue;
    moved = withHost(moved, block, [range[0], range[0] + part]);
    left -= part;
    if (part < size) break;
  }
  return moved;
}

type Located = { readonly block: string } & Pick<Shard, 'range'>;

function onGpu({ state }: Plan, peer: PeerId) {
  return state
    .flatMap(({ block, shards }) => shards.map((shard) => ({ block, ...shard })))
    .filter((shard) => shard.peer === peer && shard.in !== 'host')
    .toSorted((a, b) => sizeOf(b) - sizeOf(a));
}

/** With a shard, or its beginning, in main memory. */
function withHost(plan: Plan, block: string, [from, to]: Range): Plan {
  const moved = (shard: Shard): Shard[] => {
    if (shard.range[0] !== from) return [shard];
    const inHost: Shard = { ...shard, range: [from, to], in: 'host' };
    return to === shard.range[1] ? [inHost] : [inHost, { ...shard, range: [to, shard.range[1]] }];
  };
  const state = plan.state.map((one) => (one.block === block ? { ...one, shards: one.shards.flatMap(moved) } : one));
  return { ...plan, state };
}
