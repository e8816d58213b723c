/** Which tensors a run's steps send, by the plan of each: worked out once a plan, out of what the store keeps. */
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';
import { type StepTraffic, stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import type { Store } from '../store/store.ts';

/** Null: the plan is not kept any more. */
export type TrafficOf = (epoch: number) => StepTraffic | null;

/** A crowd that comes and goes makes plans without end. */
const MOST_KNOWN = 4_096;

export function trafficOf(store: Store, name: string, model: Model, { train, precision }: RunFile): TrafficOf {
  const known = new Map<number, StepTraffic>();
  return (epoch) => {
    const before = known.get(epoch);
    if (before !== undefined) return before;
    const stored = store.epoch(name, epoch);
    if (stored === null) return null;
    const plan = JSON.parse(stored.plan) as Plan; // the store's own words
    const traffic = stepTraffic(model, plan, { sequence: train.sequenceLength, wire: precision.wire });
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(epoch, traffic);
    return traffic;
  };
}
