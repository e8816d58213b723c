/** For tests of islands: a GPU's state without a GPU, whose updates follow from the step and the element alone. */
import { got, overlap, type Range } from '../../../swarm/base.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { STATE_KINDS, type StateKind } from '../../../swarm/plan/stateKinds.ts';
import type { Shards } from '../executor/engine.ts';

/** A number between −1 and 1 of three others. */
function noise(...of: readonly number[]): number {
  let state = 0x9e3779b9;
  for (const one of of) state = Math.imul(state ^ (one + 0x7f4a7c15), 0x85ebca6b) ^ (state >>> 13);
  return (state >> 8) / 2 ** 23;
}

export const initialValue = (element: number): number => Math.fround(noise(0, 7, element));

/** What a step adds to an element of the n-th kind. */
export const changeOf = (step: number, place: number, element: number): number => noise(step + 1, place, element) / 16;

/** Of whoever keeps these shards. */
export class KeeperState {
  readonly of: ReadonlyMap<ShardWork, Readonly<Record<(typeof STATE_KINDS)[number], Float32Array>>>;
  readonly shards: Shards;

  constructor(kept: readonly ShardWork[]) {
    const zeros = ({ range }: ShardWork) => new Float32Array(range[1] - range[0]);
    this.of = new Map(
      kept.map((work) => [
        work,
        { value: zeros(work).map((_, i) => initialValue(work.range[0] + i)), m: zeros(work), v: zeros(work) },
      ]),
    );
    this.shards = {
      bytes: 0,
      readState: async (block: BlockName, range: Range, kinds: readonly StateKind[]) => {
        const [work] = kept.filter((one) => one.block === block && one.range[0] === range[0]);
        const planes = got(this.of, work as ShardWork);
        return Float32Array.from(kinds.flatMap((kind) => [...planes[kind as 'value']]));
      },
      writeState: (block: BlockName, range: Range, kind: StateKind, values: Float32Array) => {
        for (const [work, planes] of this.of) {
          const part = work.block === block ? overlap(work.range, range) : null;
          if (!part) continue;
          const inside = values.subarray(part[0] - range[0], part[1] - range[0]);
          planes[kind as 'value'].set(inside, part[0] - work.range[0]);
        }
      },
      close: () => undefined,
    } as unknown as Shards;
  }

  update(step: number): void {
    for (const [{ range }, planes] of this.of)
      for (const [place, kind] of STATE_KINDS.entries()) {
        const plane = planes[kind];
        for (const i of plane.keys()) plane[i] = (plane[i] ?? 0) + changeOf(step, place, range[0] + i);
      }
  }
}
