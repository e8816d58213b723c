/** For tests: what a plan and a checkpoint have to cover. */
import type { StoredShard } from '../coordinator/events.ts';
import type { CoordinatorState } from '../coordinator/state.ts';
import type { Block } from '../model/model.ts';
import { type Plan, peers } from '../plan/plan.ts';

/** As long as none of them is gone; one that pauses is let go. */
export function usesExpected({ config, donors, gathering }: CoordinatorState, plan: Plan): boolean {
  if (gathering !== 'whole') return true;
  const members = peers(plan);
  return donors
    .slice(0, config.expectedDonors ?? 0)
    .every(({ peer, wish }) => wish !== 'compute' || members.includes(peer));
}

/** Shards that lie one behind the other, block by block. */
export function coversState(shards: readonly StoredShard[], layers: number, blocks: readonly Block[]): boolean {
  const names = new Set(shards.map(({ block }) => block));
  return (
    names.size === layers + 2 &&
    [...names].every((name) => {
      const ranges = shards.filter(({ block }) => block === name).map(({ range }) => range);
      const ordered = ranges.toSorted(([a], [b]) => a - b);
      return (
        ordered.every(([from], index) => from === (ordered[index - 1]?.[1] ?? 0)) &&
        ordered.at(-1)?.[1] === blocks.find((block) => block.name === name)?.elements
      );
    })
  );
}
