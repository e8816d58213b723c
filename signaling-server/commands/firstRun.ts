/** Which run a site trains first: never one that trains beside it, whoever led before and whatever was asked for there. */
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Store } from '../store/store.ts';

/** `wanted`: by this process's file or its operator. Where it trains beside, the one that was the first goes on being it. */
export function firstRun(store: Pick<Store, 'activeRun' | 'besideRuns'>, wanted: string): Result<string> {
  const beside = store.besideRuns();
  if (!beside.includes(wanted)) return success(wanted);
  const active = store.activeRun();
  if (active !== null && !beside.includes(active.name)) return success(active.name);
  return refusal(`${wanted} trains beside another run already, and which one is the first is not known`);
}
