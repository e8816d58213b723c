/** Random valid plans in which everything that saves memory is here and there: of the grids in tabs and on Dawn. */
import { arrayOf, peerId, seededRandom } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { randomPlanFor } from './randomPlan.ts';

/** Of each golden model. */
export const GRID_PLANS = 20;

/** Of so many plans one gathers each block once a pass. */
const LAYERED_EVERY = 8;

/** What saves memory in a plan, or keeps a run from losing it: a plan can have all of it. */
export const WAYS = ['gathered', 'in main memory', 'state alone', 'replicas'] as const;

export const membersOf = ({ stages }: Plan): ReadonlySet<string> =>
  new Set(stages.flatMap(({ members }) => members.map(({ peer }) => peer)));

export function waysOf(plan: Plan): (typeof WAYS)[number][] {
  const shards = plan.state.flatMap((block) => block.shards);
  const has = {
    gathered: plan.stages.some(({ gathered }) => gathered),
    'in main memory': shards.some((shard) => shard.in === 'host'),
    'state alone': membersOf(plan).size < peers(plan).length,
    replicas: shards.some(({ replicas }) => replicas.length > 0),
  };
  return WAYS.filter((way) => has[way]);
}

/** Whether it gathers each block once for all micro-batches of a pass. */
export const isLayered = ({ stages }: Plan): boolean => stages.some(({ layered }) => layered);

/** Up to four peers: stages, owners, micro-batches, recomputed layers and shards as they fall. */
export function gridPlan(model: Pick<Model, 'layers' | 'blocks'>, samples: number, seed: number): Plan {
  const everyone = arrayOf(1 + (seed % 4), (index) => peerId(`peer-${index}`));
  const often = { recompute: 0.3, replicas: 0.2, gathered: 0.3, host: 0.3, apart: 0.3 };
  // The last of each eight, which has four peers and gpipe.
  const layered = seed % LAYERED_EVERY === LAYERED_EVERY - 1 ? 1 : 0;
  const plan = randomPlanFor(seededRandom(1000 + seed), model, samples, everyone, { ...often, layered });
  return { ...plan, schedule: Math.floor(seed / 4) % 2 === 0 ? '1f1b' : 'gpipe' };
}
