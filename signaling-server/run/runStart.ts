/** What decisions begin with: the run's constants out of its document, and how far the store says it is. */

import { capacityOf, type PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { invariant } from '../../swarm/base.ts';
import type { Applied, KeptPlan, StartState } from '../../swarm/coordinator/events.ts';
import { NORMS_COMPARED } from '../../swarm/coordinator/plausible.ts';
import type { DecisionConfig } from '../../swarm/decisions/events.ts';
import { wholeRounds } from '../../swarm/islands/rounds.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { batchOf } from '../../swarm/run/runFile.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { type RunDocument, windowsOf } from '../store/runDocument.ts';
import type { Store } from '../store/store.ts';

/** What a command decides about a run, beside what its file says. */
export interface RunTerms {
  readonly wishes: PlanWishes;
  /** No step before so many donors are admitted; null: the first one starts. */
  readonly expectedDonors: number | null;
  /** Until so many steps stand committed; the run file's number where absent. */
  readonly steps?: number;
}

export function configOf(document: RunDocument, model: Model, { wishes, ...terms }: RunTerms): DecisionConfig {
  const { name, train, checkpoint, precision } = document.file;
  const run = {
    name,
    layers: model.layers,
    model: document.file.model,
    wire: precision.wire,
    batch: { samples: train.globalBatchSize, sequence: train.sequenceLength },
    steps: Math.min(wholeRounds(train, terms.steps ?? train.steps), train.steps),
    train,
    gradientClipNorm: train.gradientClipNorm,
    compute: precision.compute,
    checkpointEverySteps: wholeRounds(train, checkpoint.everySteps),
    evaluation: windowsOf(document),
    capacity: capacityOf(model, wishes),
    expectedDonors: terms.expectedDonors,
  };
  const { state = {} } = document.file;
  return {
    run,
    planning: { model: document.file.model, batch: batchOf(document.file), wishes: { ...state, ...wishes } },
  };
}

/** Of the plans since the last commit; hand-overs without a commit between them are few. */
const PLANS_KEPT = 16;

/** The same plan again is one with it: nobody's state moved. */
function keptPlans(store: Store, name: string, generation: number, epoch: number): KeptPlan[] {
  const plans: { text: string; epochs: number[] }[] = [];
  for (const { epoch: one, plan: text } of store.plansFrom(name, generation, epoch)) {
    const last = plans.at(-1);
    if (last?.text === text) last.epochs.push(one);
    else plans.push({ text, epochs: [one] });
  }
  return plans.slice(-PLANS_KEPT).map(({ text, epochs }) => ({ epochs, plan: JSON.parse(text) as Plan })); // the store's own words
}

/** `isAway`: donors who did the newest steps may come back with what they have. */
export function startState(store: Store, name: string, isAway: boolean): StartState {
  const row = store.run(name);
  const newest = store.newestCheckpoint(name);
  invariant(row && newest, `run ${name} has no initial state`);
  const committedSteps = store.committedSteps(name);
  const record = store.steps(name, committedSteps - 1)[0];
  const words = store.lastApplied(name);
  const applied = words === null ? null : (JSON.parse(words) as Applied); // the store's own words
  const isAhead = isAway && record !== undefined && committedSteps > newest.committedSteps;
  // What several groups of donors have is not gone on with: it goes back to their last checkpoint.
  const kept = isAhead ? keptPlans(store, name, row.generation, record.plan) : [];
  const plans = kept.some(({ plan }) => plan.islands) ? [] : kept;
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
    loss: record?.loss ?? null,
    lastCommit:
      record && applied
        ? { epoch: record.plan, step: record.step, clipScale: applied.clipScale, learningRate: record.learningRate }
        : null,
    applied,
    plans,
    credit: plans.length > 0 ? store.ledger(name) : [],
    unsaved:
      plans.length > 0 ? [{ step: newest.committedSteps, ledger: store.ledgerFrom(name, newest.committedSteps) }] : [],
    norms: store
      .steps(name, Math.max(0, newest.committedSteps - NORMS_COMPARED))
      .map(({ step, gradientNorm }) => ({ step, gradientNorm })),
  };
}
