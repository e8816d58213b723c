/** What a coordinator begins with: the run's constants out of its document, and how far the store says it is. */
import { invariant } from '../../swarm/base.ts';
import type { CoordinatorConfig, Effect, PlanAnswer, StartState } from '../../swarm/coordinator/events.ts';
import type { Model } from '../../swarm/model/model.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { type RunDocument, windowsOf } from '../store/runDocument.ts';
import type { Store } from '../store/store.ts';

/** What a command decides about a run, beside what its file says. */
export interface RunTerms {
  /** Makes the plan that is wanted; null: it comes later, unasked. */
  readonly answer: (wanted: Extract<Effect, { type: 'planWanted' }>) => PlanAnswer | null;
  readonly capacity: number;
  /** No step before so many donors are admitted; null: the first one starts. */
  readonly expectedDonors: number | null;
  /** Until so many steps stand committed; the run file's number where absent. */
  readonly steps?: number;
}

export function configOf(document: RunDocument, model: Model, terms: RunTerms): CoordinatorConfig {
  const { name, train, checkpoint, precision } = document.file;
  return {
    name,
    layers: model.layers,
    batch: { samples: train.globalBatchSize, sequence: train.sequenceLength },
    steps: Math.min(terms.steps ?? train.steps, train.steps),
    train: { optimizer: train.optimizer, schedule: train.schedule },
    gradientClipNorm: train.gradientClipNorm,
    compute: precision.compute,
    checkpointEverySteps: checkpoint.everySteps,
    evaluation: windowsOf(document),
    capacity: terms.capacity,
    expectedDonors: terms.expectedDonors,
  };
}

export function startState(store: Store, name: string): StartState {
  const row = store.run(name);
  const newest = store.newestCheckpoint(name);
  invariant(row && newest, `run ${name} has no initial state`);
  const committedSteps = store.committedSteps(name);
  const evaluated = [...store.evaluations(name)].at(-1);
  return {
    generation: row.generation,
    epoch: row.epoch,
    committedSteps,
    newestCheckpointStep: newest.committedSteps,
    savedLossScale: parseManifest(newest.manifest).lossScale ?? null,
    operatorPaused: row.operatorPaused,
    evaluatedSteps: evaluated?.[0] ?? null,
    evaluationLoss: evaluated?.[1] ?? null,
    loss: store.steps(name, committedSteps - 1)[0]?.loss ?? null,
  };
}
