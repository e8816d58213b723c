/** What of a run is kept: the effects that go to the store, and with them the metrics file and the counts. */
import type { Effect } from '../../swarm/coordinator/events.ts';
import type { BlobStore } from '../files/blobs.ts';
import { wallMs } from '../monitoring/clock.ts';
import type { RunCounts } from '../monitoring/metrics.ts';
import type { TrafficOf } from '../operator/traffic.ts';
import { saveCheckpoint } from '../store/keptBlobs.ts';
import type { Store } from '../store/store.ts';
import type { MetricsFile } from './metricsFile.ts';
import { addRollBack } from './rollBacks.ts';

interface Records {
  readonly store: Store;
  readonly blobs: BlobStore;
  readonly run: { readonly name: string; readonly counts: RunCounts; readonly trafficOf: TrafficOf };
  readonly metrics: MetricsFile | null;
}

/** Whether it was one to keep. `background`: takes what ends later. */
export function keep(
  { store, blobs, run, metrics }: Records,
  effect: Effect,
  background: (work: Promise<void>) => void,
): boolean {
  const { name, counts, trafficOf } = run;
  switch (effect.type) {
    case 'storeCommit':
      store.commitStep(name, effect.record, effect.ledger);
      counts.committed(effect.record, trafficOf(effect.record.plan));
      metrics?.append();
      return true;
    case 'storeEvaluation':
      store.saveEvaluation(name, effect.committedSteps, effect.loss);
      metrics?.append();
      return true;
    case 'storeCheckpoint':
      background(
        saveCheckpoint(store, blobs, name, {
          step: effect.step,
          shards: effect.shards.map((shard) => ({ ...shard, moments: true })),
          ...(effect.lossScale ? { lossScale: effect.lossScale } : {}),
        }),
      );
      counts.checkpointed();
      return true;
    case 'rollBack':
      store.rollBack(name, effect.toStep);
      addRollBack(store, name, effect, wallMs());
      counts.rolledBack();
      metrics?.rewrite();
      return true;
    case 'storeEpoch':
      store.saveEpoch(name, effect.epoch, effect.generation, JSON.stringify(effect.plan), effect.reason);
      return true;
    case 'storePaused':
      store.setOperatorPaused(name, effect.paused);
      return true;
    default:
      return false;
  }
}
