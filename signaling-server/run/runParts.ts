/** What follows a run beside its decisions, and in which order each is told. */

import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { windowCount } from '../../swarm/run/data.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';
import { type StepTraffic, stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import { DonorMemories } from '../donors/donorMemory.ts';
import { Network } from '../donors/network.ts';
import { Uploads } from '../donors/uploads.ts';
import { monotonicMs, wallMs } from '../monitoring/clock.ts';
import { RunCounts } from '../monitoring/metrics.ts';
import { isEvaluationDue } from '../store/runDocument.ts';
import type { Store } from '../store/store.ts';
import { DonorSessions } from './donorSessions.ts';
import { RunHistory } from './history.ts';
import { type MetricsFile, metricsFileOf } from './metricsFile.ts';
import { MovedBytes } from './movedBytes.ts';
import { RefusedDonors } from './refusedDonors.ts';
import type { Observed, RunObserver } from './runObserver.ts';
import type { RunOptions } from './runOptions.ts';
import { runRecords } from './runRecords.ts';

export interface RunParts {
  readonly memory: DonorMemories;
  readonly counts: RunCounts;
  readonly refused: RefusedDonors;
  readonly moved: MovedBytes;
  readonly network: Network;
  readonly history: RunHistory;
  readonly uploads: Uploads;
  readonly trafficOf: TrafficOf;
  readonly sessions: DonorSessions;
  readonly metrics: MetricsFile | null;
  readonly observers: readonly RunObserver[];
}

/** `steps`: how many will be done. */
export function runParts(options: RunOptions, run: Observed, steps: number): RunParts {
  const { store, blobs, name } = options;
  const { model, document } = run;
  const { file } = document;
  const memory = new DonorMemories(model, file);
  const counts = new RunCounts(store.lastEventMs(name, 'checkpoint'));
  const { train, precision } = file;
  const windows = document.evaluation === null ? 0 : windowCount(document.evaluation, train.sequenceLength);
  const { islands, sequenceLength: sequence } = train;
  const sizes = { model, sequence, wire: precision.wire, asked: precision.compute, islands };
  const network = new Network(options, { ...sizes, rounds: Math.ceil(windows / train.globalBatchSize) });
  const moved = new MovedBytes(sizes);
  const refused = new RefusedDonors();
  const history = new RunHistory(store, run, wallMs);
  const uploads = new Uploads({ store, blobs, name, train: file.train });
  const traffic = trafficOf(store, name, model, file);
  const metrics = metricsFileOf(options, train, (committed) =>
    isEvaluationDue(document, committed, steps, store.evaluations(name)),
  );
  const sessions = new DonorSessions(store, name, wallMs);
  const observers: RunObserver[] = [
    history, // before the records: what it still has of steps that are given up would be stored after they are forgotten
    ways(network), // before the plan is sent: its members may relay to each other at once
    memoryUse(memory, (epoch) => store.epoch(name, epoch)?.plan),
    runRecords(options, run, uploads), // before anything is sent: what was answered is then always stored
    counting(counts, traffic),
    refused,
    moved,
    ...(metrics === null ? [] : [metricLines(metrics, store)]), // after the records: it reads them
    uploading(uploads), // before the request is sent: its answer may come at once
    sessions,
  ];
  return {
    memory,
    counts,
    refused,
    moved,
    network,
    history,
    uploads,
    trafficOf: traffic,
    sessions,
    metrics,
    observers,
  };
}

const ways = (network: Network): RunObserver => ({
  event: (event) => {
    if (event.type === 'said' && event.message.type === 'report')
      network.reported(event.connection.peer, event.message.links ?? [], event.message.turnErrors);
  },
  effect: (effect) => {
    if (effect.type === 'send') network.told(effect.to, effect.message, monotonicMs());
  },
});

/** `planOf`: of an epoch, as JSON. */
const memoryUse = (memory: DonorMemories, planOf: (epoch: number) => string | undefined): RunObserver => ({
  event: (event) => {
    if (event.type === 'gone') return memory.gone(event.peer);
    if (event.type !== 'said' || event.message.type !== 'ready') return;
    const plan = planOf(event.message.epoch);
    if (plan === undefined) return;
    const { peer, adapter } = event.connection;
    memory.ready(peer, adapter, JSON.parse(plan) as Plan, event.message); // the store's own words
  },
});

const counting = (counts: RunCounts, traffic: TrafficOf): RunObserver => ({
  effect: (effect) => {
    if (effect.type === 'storeCommit') counts.committed(effect.record, traffic(effect.record.plan));
    if (effect.type === 'storeCheckpoint') counts.checkpointed();
    if (effect.type === 'rollBack') counts.rolledBack();
  },
});

function metricLines(metrics: MetricsFile, { whenKept }: Store): RunObserver {
  // With several groups of donors the meeting is no part of a commit.
  let isApart = false;
  return {
    effect: (effect) => {
      if (effect.type === 'storeEpoch') isApart = effect.plan.islands !== undefined;
      if (effect.type === 'storeCommit' && !isApart) whenKept(() => metrics.committed(effect.record.step));
      if (effect.type === 'storeEvaluation') whenKept(() => metrics.append());
      if (effect.type === 'storeMeeting') whenKept(() => metrics.met(effect.committedSteps));
      if (effect.type === 'rollBack') whenKept(() => metrics.rewrite());
    },
    close: () => metrics.append(true),
  };
}

const uploading = (uploads: Uploads): RunObserver => ({
  event: (event) => {
    if (event.type === 'gone') uploads.gone(event.peer);
  },
  effect: (effect) => {
    if (effect.type === 'rollBack') return uploads.rolledBack();
    if (effect.type !== 'send') return;
    const { to, message } = effect;
    if (message.type === 'committed' && message.checkpoint)
      return uploads.asked(to, { ...message, step: message.step + 1 });
    if (message.type === 'save') return uploads.asked(to, message);
  },
});

/** Which tensors a run's steps send, by the plan of each; null: that plan is not kept any more. */
type TrafficOf = (epoch: number) => StepTraffic | null;

/** A crowd that comes and goes makes plans without end. */
const MOST_KNOWN = 4_096;

/** Worked out once a plan, out of what the store keeps. */
function trafficOf(store: Store, name: string, model: Model, { train, precision }: RunFile): TrafficOf {
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
