/**
 * What a plan would take, before anything is done: of a draft or of the run that is active, on the donors at hand or on
 * a cluster that the operator describes, and with a what-if beside it. As this server would plan it: with --schedule auto by the
 * search of `shoal plan`, in slices, so that a run goes on meanwhile.
 */
import { clusterAtHand } from '../../swarm/autoplan/atHand.ts';
import { profileNow } from '../../swarm/autoplan/knownDonors.ts';
import { admittedProfile } from '../../swarm/autoplan/peerProfile.ts';
import { wishedPlan } from '../../swarm/autoplan/wishedPlan.ts';
import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { type Cluster, parseCluster } from '../../swarm/planner/cluster.ts';
import { type ClusterProblem, clusterCosts } from '../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, comparedPlans } from '../../swarm/planner/clusterPlan.ts';
import { predictedBeside, predictedStep } from '../../swarm/planner/forecast.ts';
import { type StepLimit, stepLimits } from '../../swarm/planner/limits.ts';
import { reasonText } from '../../swarm/planner/reason.ts';
import { replicaWish } from '../../swarm/planner/replicas.ts';
import { changedCluster } from '../../swarm/planner/whatIf.ts';
import { rangeText } from '../../swarm/quantityText.ts';
import { type DryRun, type DryRunQuestion, type Prediction, runFileOfDraft } from '../../swarm/run/runDraft.ts';
import { batchOf, modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { rowsOf, type SpanRow } from '../../swarm/timeline/rows.ts';
import { CLUSTER_FILE, otherKind } from '../files/fileKinds.ts';
import { searchInSlices } from '../planning/planThread.ts';
import type { ActiveRun } from '../run/run.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { draftSource, draftText } from './draftText.ts';

/** More peers take the search longer than an operator waits. */
const MOST_PEERS = 256;
const MOST_REASONS = 40;

/** The donors at hand, as what is known of them by now. */
export function clusterOf(run: ActiveRun): Cluster {
  const donors = run.donors().flatMap(({ peer, limits, profile }) => {
    if (profile === null) return [];
    const donor = run.replanner.donors.find((one) => one.peer === peer);
    const known = donor ? profileNow(run.replanner.config, donor) : admittedProfile(profile);
    // Another run may need more than this one, of which the replanner knows that it fits.
    return { peer, limits, profile: { ...known, memoryBytes: profile.memoryBytes } };
  });
  return clusterAtHand(donors, new Map(run.replanner.donors.map((donor) => [donor.peer, donor])));
}

/** All members of the plan are at hand. */
function isThere({ cluster }: ClusterProblem, plan: Plan): boolean {
  const known = new Set(cluster.peers.map(({ id }) => id));
  return plan.stages.every(({ members }) => members.every(({ peer }) => known.has(peer)));
}

/** What holds up a step of a plan on the donors at hand; null where one of its members is gone. */
export const limitOn = (problem: ClusterProblem, plan: Plan): StepLimit | null =>
  isThere(problem, plan) ? (stepLimits(problem, plan)[0] ?? null) : null;

/** Of a plan on the donors at hand; empty where one of its members is gone. */
export function predictedSpans(problem: ClusterProblem, plan: Plan): SpanRow[] {
  if (!isThere(problem, plan)) return [];
  const costs = clusterCosts(problem);
  const step = predictedStep(costs, plan);
  return rowsOf(step.timeline, predictedBeside(costs, plan, step));
}

/** What a question may be about. */
interface Known {
  readonly run: ActiveRun;
  readonly data: DataDirectory;
  /** The folder of models' folders; null: there is none. */
  readonly models: string | null;
}

export async function dryRun({ run, ...known }: Known, question: DryRunQuestion): Promise<Result<DryRun>> {
  const file = await fileOf({ run, ...known }, question);
  if (!file.ok) return file;
  const cluster = question.cluster === null ? success(clusterOf(run)) : clusterFrom(question.cluster);
  if (!cluster.ok) return cluster;
  if (cluster.value.peers.length === 0)
    return refusal('no donor is here yet: wait for one, or describe other donors in a cluster file');
  const edited = question.whatIf === null ? cluster : changedCluster(cluster.value, question.whatIf);
  if (!edited.ok) return edited;
  if (edited.value.peers.length > MOST_PEERS)
    return refusal(`the dashboard plans for at most ${MOST_PEERS} donors: use shoal plan for more`);
  const { wishes } = run;
  const given = problemOf(file.value, cluster.value, wishes);
  const changed = question.whatIf === null ? null : problemOf(file.value, edited.value, wishes);
  const { before, after } = await plansOf(given, changed, wishes);
  return after.ok ? success(documentOf(file.value, after.value, before?.ok ? before.value : null)) : after;
}

async function fileOf({ run, data, models }: Known, { draft }: DryRunQuestion): Promise<Result<RunFile>> {
  if (draft === null) return success(run.document.file);
  const source = await draftSource(data, models, draft);
  if (!source.ok) return source;
  const own = draft.text === null ? null : await draftText(data, draft.text, source.value);
  return own?.ok === false ? own : runFileOfDraft(draft, source.value.file, own?.value);
}

function clusterFrom(text: string): Result<Cluster> {
  const json = parseJson(text);
  if (!json.ok) return refusal(`the cluster file ${json.reason}`);
  const other = otherKind(json.value, CLUSTER_FILE);
  return other !== null ? refusal(`this ${other}`) : parseCluster(json.value, 'the cluster');
}

/** Where there is none, what would help. */
async function wishedOrWhy(problem: ClusterProblem, wishes: PlanWishes): Promise<Result<ClusterPlan>> {
  const wished = wishedPlan(problem, wishes);
  if (wished.ok) return wished;
  const searched = await searchInSlices(problem);
  const started = 'It would fit if this server were started with --schedule auto';
  return searched.ok ? refusal(`${wished.reason}. ${started}`) : searched;
}

/** As this server plans: by a search, or in the order that its command line names. */
async function plansOf(given: ClusterProblem, changed: ClusterProblem | null, wishes: PlanWishes) {
  const find = wishes.auto ? searchInSlices : (problem: ClusterProblem) => wishedOrWhy(problem, wishes);
  if (changed === null) return { before: null, after: await find(given) };
  if (wishes.auto) return comparedPlans(given, changed, searchInSlices);
  return { before: await find(given), after: await find(changed) };
}

const problemOf = (file: RunFile, cluster: Cluster, wishes: PlanWishes): ClusterProblem => ({
  model: modelOf(file),
  batch: batchOf(file),
  cluster,
  replicas: replicaWish(wishes.replicas ?? file.state?.replicas),
});

function predictionOf(file: RunFile, { plan, predicted }: ClusterPlan): Prediction {
  const { stepSeconds, tokensPerSecond } = predicted;
  return {
    ...{ stepSeconds, tokensPerSecond, totalSeconds: file.train.budget?.seconds ?? stepSeconds * file.train.steps },
    ...{ stages: plan.stages.length, microBatches: plan.microBatches.length, schedule: plan.schedule },
  };
}

function documentOf(file: RunFile, answer: ClusterPlan, before: ClusterPlan | null): DryRun {
  const { plan, predicted, idle, reasons } = answer;
  const parts = new Map<string, { layers: string[]; samples: number }>();
  for (const { layers, members } of plan.stages)
    for (const { peer, samples } of members) {
      const own = parts.get(peer) ?? { layers: [], samples: 0 };
      own.layers.push(rangeText(layers));
      own.samples = Math.max(own.samples, samples);
      parts.set(peer, own);
    }
  return {
    ...predictionOf(file, answer),
    before: before && predictionOf(file, before),
    parameters: modelOf(file).blocks.reduce((sum, { elements }) => sum + elements, 0),
    peers: predicted.peers.map((peer) => {
      const { layers = [], samples = 0 } = parts.get(peer.peer) ?? {};
      return { ...peer, layers: layers.join(', '), samples };
    }),
    idle: [...idle],
    reasons: reasons.slice(0, MOST_REASONS).map(reasonText),
  };
}
