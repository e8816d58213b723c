/** What decisions begin with: the run's constants out of its document, and how far the store says it is. */

import { capacityOf, type PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { at, given, invariant } from '../../swarm/base.ts';
import type {
  Applied,
  CommitRecord,
  GroupStart,
  KeptPlan,
  Recorded,
  StartState,
} from '../../swarm/coordinator/events.ts';
import type { DecisionConfig } from '../../swarm/decisions/events.ts';
import { freeBut } from '../../swarm/islands/giving.ts';
import { isRecorded, roundLength, turnAt, wholeRounds } from '../../swarm/islands/rounds.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { auditOf, batchOf, keepsEnds, orderOf, type Train, trainedAs } from '../../swarm/run/runFile.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { type RunDocument, storedDocument, type WindowCounts, windowsOf } from '../store/runDocument.ts';
import { timeUsed } from '../store/runTime.ts';
import type { Store } from '../store/store.ts';

/** What a command decides about a run, beside what its file says. */
export interface RunTerms {
  readonly wishes: PlanWishes;
  /** No step before so many donors are admitted; null: the first one starts. */
  readonly expectedDonors: number | null;
  /** Until so many steps stand committed; the run file's number where absent. */
  readonly steps?: number;
  /** In place of the run file's `trust.audit`. */
  readonly audit?: number;
  /** Absent: of text alone. */
  readonly windowCounts?: WindowCounts;
}

export function configOf(document: RunDocument, model: Model, { wishes, ...terms }: RunTerms): DecisionConfig {
  const { name, train, checkpoint, precision } = document.file;
  const audit = auditOf(document.file, terms.audit);
  const run = {
    name,
    layers: model.layers,
    model: document.file.model,
    wire: precision.wire,
    batch: {
      ...{ samples: train.globalBatchSize, sequence: train.sequenceLength, ...trainedAs(train) },
      ...(keepsEnds(document.file) && { ends: 'own' as const }),
    },
    steps: Math.min(wholeRounds(train, terms.steps ?? train.steps), train.steps),
    train,
    gradientClipNorm: train.gradientClipNorm,
    compute: precision.compute,
    checkpointEverySteps: wholeRounds(train, checkpoint.everySteps),
    ...countedRows(document, terms.windowCounts),
    capacity: capacityOf(model, wishes),
    expectedDonors: terms.expectedDonors,
    ...(audit && { audit }),
  };
  const { state = {} } = document.file;
  return {
    run,
    planning: { model: document.file.model, batch: batchOf(document.file), wishes: { ...state, ...wishes } },
  };
}

/** What is evaluated, and of a run on examples which rows count; the held-out loss of pairs is a mean over them. */
function countedRows(
  document: RunDocument,
  counts: WindowCounts = { data: null, evaluation: null },
): Pick<DecisionConfig['run'], 'evaluation' | 'examples'> {
  const held = windowsOf(document);
  const isOfPairs = document.file.train.beta !== undefined;
  const counted = isOfPairs ? held?.windows : counts.evaluation?.reduce((sum, count) => sum + count, 0);
  return {
    evaluation: held && { ...held, ...(counted !== undefined && { counted }) },
    ...(counts.data && { examples: { counted: [...counts.data], order: orderOf(document.file) } }),
  };
}

/** Of the plans since the last commit; hand-overs without a commit between them are few. */
const PLANS_KEPT = 16;

type StoredPlans = ReturnType<Store['plansFrom']>;

/** The same plan again is one with it: nobody's state moved. */
function keptPlans(stored: StoredPlans): KeptPlan[] {
  const plans: { text: string; epochs: number[] }[] = [];
  for (const { epoch: one, plan: text } of stored) {
    const last = plans.at(-1);
    if (last?.text === text) last.epochs.push(one);
    else plans.push({ text, epochs: [one] });
  }
  return plans.slice(-PLANS_KEPT).map(({ text, epochs }) => ({ epochs, plan: planIn(text) }));
}

const planIn = (text: string): Plan => JSON.parse(text); // the store's own words

function lastCommitOf(
  store: Store,
  name: string,
  record: CommitRecord | undefined,
): Pick<StartState, 'lastCommit' | 'applied'> {
  const words = record === undefined ? null : store.applied(name, record.step);
  if (record === undefined || words === null) return { lastCommit: null, applied: null };
  const { plan: epoch, step, learningRate } = record;
  const applied = JSON.parse(words) as Applied; // the store's own words
  return { lastCommit: { epoch, step, clipScale: applied.clipScale, learningRate }, applied };
}

/** Where several groups had islands of their own when the server ended, those of each; null: one had all. */
function islandsApart(store: Store, name: string, train: Train, generation: number): number[][] | null {
  const count = train.islands?.count ?? 0;
  return count === 'auto' ? null : islandsStored(store.plansFrom(name, generation, 0), count);
}

/** Each of them. */
function groupsStored(
  store: Store,
  name: string,
  train: Train,
  islands: readonly number[][],
  { generation, met }: { readonly generation: number; readonly met: number },
): NonNullable<StartState['apart']> {
  const all = store.plansFrom(name, generation, 0);
  const records = store.steps(name, Math.max(0, met - roundLength(train)));
  const groups = islands.map((own): GroupStart => {
    const isOwn = ({ plan }: StoredPlans[number]): boolean => isSame(planIn(plan).islands, own);
    const plans = all.filter(isOwn);
    const record = records.findLast(({ step, plan }) => {
      const { island } = turnAt(train, step);
      return own.includes(island) && plans.some(({ epoch }) => epoch === plan);
    });
    const last = lastCommitOf(store, name, record);
    const from = last.lastCommit?.epoch ?? 0;
    const committedSteps = Math.max(met, (record?.step ?? -1) + 1);
    return { own, committedSteps, ...last, plans: keptPlans(plans.filter(({ epoch }) => epoch >= from)) };
  });
  return { met, groups };
}

/** Of each group, by the newest plans; who had none yet have the rest of them. */
function islandsStored(plans: StoredPlans, count: number): number[][] | null {
  const groups: number[][] = [];
  const taken = new Set<number>();
  for (const { plan } of plans.toReversed()) {
    const { islands: own } = planIn(plan);
    if (groups.some((one) => isSame(own, one))) continue;
    if (taken.size === count || own === undefined || own.some((island) => taken.has(island))) break;
    groups.push([...own]);
    for (const island of own) taken.add(island);
  }
  if (groups.length === 0) return null;
  const rest = Array.from({ length: count }, (_, island) => island).filter((island) => !taken.has(island));
  return [...groups, ...(rest.length > 0 ? [rest] : [])].toSorted((a, b) => at(a, 0) - at(b, 0));
}

const isSame = (one: readonly number[] | undefined, other: readonly number[]): boolean => one?.join() === other.join();

/** `isAway`: donors who did the newest steps may come back with what they have. */
export function startState(
  store: Store,
  { name, document }: { readonly name: string; readonly document: RunDocument },
  isAway: boolean,
): StartState {
  const { train } = document.file;
  const row = store.run(name);
  const newest = store.newestCheckpoint(name);
  invariant(row && newest, `run ${name} has no initial state`);
  const committedSteps = store.committedSteps(name);
  const record = store.steps(name, newest.committedSteps).at(-1) ?? store.steps(name, committedSteps - 1)[0];
  const last = lastCommitOf(store, name, record);
  const canReturn = isAway && !isRecorded(train);
  const isAhead = canReturn && record !== undefined && committedSteps > newest.committedSteps;
  // Groups part from a meeting, or from a checkpoint that one group of all islands made.
  const met = Math.max(row.metSteps, newest.committedSteps);
  const { generation } = row;
  const islands = isAhead && train.islands ? islandsApart(store, name, train, generation) : null;
  // What went on beside a meeting is not gone on with.
  const isGoneOnWith = islands !== null && !train.islands?.overlap;
  const apart = isGoneOnWith ? groupsStored(store, name, train, islands, { generation, met }) : null;
  const isKept = canReturn && record !== undefined && islands === null;
  const plans = isKept ? keptPlans(store.plansFrom(name, generation, record.plan)) : [];
  const evaluated = [...store.evaluations(name)].at(-1);
  return {
    generation,
    epoch: row.epoch,
    committedSteps,
    newestCheckpointStep: newest.committedSteps,
    savedLossScale: parseManifest(newest.manifest).lossScale ?? null,
    operatorPaused: row.operatorPaused,
    evaluatedSteps: evaluated?.[0] ?? null,
    evaluationLoss: evaluated?.[1] ?? null,
    loss: record?.loss ?? null,
    ...last,
    plans,
    ...(apart === null ? {} : { apart }),
    credit: plans.length > 0 || isAhead ? store.ledger(name) : [],
    unsaved: isAhead ? [{ step: newest.committedSteps, ledger: store.ledgerFrom(name, newest.committedSteps) }] : [],
    ...recordedAt(store, name, train, newest.committedSteps),
    ...given({ time: timeUsed(store, name, train, newest.committedSteps) }),
  };
}

/** What a checkpoint leaves to do, where rounds are recorded. */
function recordedAt(
  store: Store,
  name: string,
  train: Train,
  committedSteps: number,
): { readonly recorded?: Recorded } {
  if (!isRecorded(train)) return {};
  const all = store.steps(name);
  const done = all.slice(0, committedSteps);
  const numbers = done.flatMap(({ number }) => number ?? []);
  return {
    recorded: {
      free: freeBut(train.steps, numbers),
      round: (done.at(-1)?.round ?? -1) + 1,
      nextIsland: all.reduce((next, { island = -1 }) => Math.max(next, island + 1), 0),
    },
  };
}

/** What is to be known of a checkpoint to which the run goes back. */
export function backTo(store: Store, name: string, toStep: number) {
  const { train } = storedDocument(store, name).file;
  return {
    toStep,
    earned: [{ step: toStep, ledger: store.ledgerFrom(name, toStep) }],
    ...recordedAt(store, name, train, toStep),
    ...given({ time: timeUsed(store, name, train, toStep) }),
  };
}
