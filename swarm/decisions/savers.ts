/**
 * Which group saves what comes of a meeting where rounds are recorded and any one can: the first. Who has it uploaded
 * soonest goes there, since until it is stored nothing newer is saved.
 */
import { at, totalOf } from '../base.ts';
import type { PlanInForce } from '../coordinator/state.ts';
import { peers as peersOf } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES, savedKinds } from '../plan/stateKinds.ts';
import { uploadsOf } from '../plan/uploader.ts';
import type { Deciding } from './deciding.ts';
import { pacesNow } from './paces.ts';
import { islandOf } from './recordedRounds.ts';

/** Others change places for less than that of the time. */
const CLEARLY_SOONER = 2 / 3;

/** Of each group, in their order. Who measured no line is not waited for. */
function uploadSeconds({ groups, apart }: Deciding, plans: readonly PlanInForce[]): number[] {
  const paces = pacesNow(
    groups,
    plans.flatMap(({ plan }) => peersOf(plan)),
  );
  const uploads = new Map<string, number>(paces.map(({ peer, upload }) => [peer, upload]));
  const bytes = FLOAT_BYTES * savedKinds(apart.run.train.islands).length;
  return plans.map(({ plan }) =>
    Math.max(
      ...peersOf(plan).map((peer) => {
        const elements = totalOf(uploadsOf(plan, peer, undefined), (shard) => sizeOf(shard));
        return (bytes * elements) / (uploads.get(peer) ?? Infinity);
      }),
    ),
  );
}

/** Before a meeting that is to be saved. `ending`: islands that end with it. True: the groups stand in another order. */
export function soonestFirst(deciding: Deciding, plans: readonly PlanInForce[], ending: readonly number[]): boolean {
  const { groups } = deciding;
  const seconds = uploadSeconds(deciding, plans);
  const staying = [...groups.keys()].filter((group) => !ending.includes(islandOf(at(groups, group).coordinator)));
  const [first] = staying;
  const [soonest] = staying.toSorted((a, b) => at(seconds, a) - at(seconds, b) || a - b);
  if (first === undefined || soonest === undefined) return false;
  if (at(seconds, soonest) >= CLEARLY_SOONER * at(seconds, first)) return false;
  deciding.groups = [at(groups, soonest), ...groups.filter((_, group) => group !== soonest)];
  return true;
}
