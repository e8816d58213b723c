/**
 * What islands learn over home links in the same time: each way of training takes its rounds when the planner says that
 * donors at home would end them, and the steps of those rounds are really computed, and held-out losses compared.
 *
 * The clock is that of a run of 125 M parameters, planned for these donors and links. A model of 0.8 M parameters is trained in
 * its place: with the smaller one's own times a round trip would be as long as a hundred steps.
 */

import { at, type Result } from '../../../swarm/base.ts';
import type { MeetingSettings } from '../../../swarm/islands/outer.ts';
import { peers as peersOf } from '../../../swarm/plan/plan.ts';
import type { Cluster } from '../../../swarm/planner/cluster.ts';
import type { ClusterProblem } from '../../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, planCluster } from '../../../swarm/planner/clusterPlan.ts';
import { parsePlannedRun, planIslands } from '../../../swarm/planner/islandPlan.ts';
import { replicaWish } from '../../../swarm/planner/replicas.ts';
import { counted } from '../../../swarm/quantityText.ts';
import { Trainer } from '../../../swarm/reference/trainer.ts';
import { batchOf, modelOf } from '../../../swarm/run/runFile.ts';
import { failed, need } from '../../commands/failure.ts';
import { benchOptimizer } from '../page/optimizer.ts';
import { BlockedProducts } from './blockedProducts.ts';
import { type BatchSize, type Book, batches, heldOutLoss } from './book.ts';
import { firstValues, flatState } from './flatState.ts';
import { IslandTraining } from './islandTraining.ts';
import { bookModel, trainOf } from './runs.ts';

const MODEL = bookModel({ layers: 4, width: 128, heads: 4, positions: 32 });
const SIZE: BatchSize = { samples: 2, positions: 32 };
const SEED = 1;
/** Of a curve. */
const POINTS = 10;

/** Whose times are taken. */
const CLOCK = {
  name: 'clock',
  model: { model_type: 'gpt2', n_layer: 12, n_head: 12, n_embd: 768, n_positions: 1024, vocab_size: 50_257 },
  data: { files: ['text.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: {
    ...{ steps: 1000, globalBatchSize: 256, sequenceLength: 1024 },
    optimizer: benchOptimizer(1e-3),
  },
  precision: { wire: 'auto' },
};
const ROUND_SECONDS = 300;
const ISLANDS = 8;
const MEETINGS = [10, 30, 100] as const;

const DENSE = { exchange: 'f32', publish: 'f32' } as const;
const SPARSE = { exchange: { top: 64, chunk: 4096, feedback: 0.95 }, publish: 'int8' } as const;

export interface Curve {
  readonly name: string;
  readonly exchange: 'none' | 'f32' | 'sparse';
  readonly islands: number;
  /** From one meeting's end to the next one's; of one swarm, its step. */
  readonly roundSeconds: number;
  readonly meetingSeconds: number;
  readonly rounds: number;
  readonly steps: number;
  /** Held-out loss after so many seconds. */
  readonly points: readonly (readonly [seconds: number, loss: number])[];
}

/** A way of training, by the clock. */
interface Arm extends Pick<Curve, 'name' | 'exchange' | 'roundSeconds' | 'meetingSeconds'> {
  readonly settings: MeetingSettings | null;
  /** Seconds of a step of each island, and how many it does in a round. */
  readonly islands: readonly { readonly stepSeconds: number; readonly steps: number }[];
}

interface Asked {
  readonly seconds: number;
  /** At first; it falls to a tenth. */
  readonly learningRate: number;
}

/** `said`: each curve as it is known. */
export function learnHomes(
  book: Book,
  cluster: Cluster,
  asked: Asked,
  said: (words: string) => void,
): readonly Curve[] {
  const curves: Curve[] = [];
  for (const arm of armsOf(cluster)) {
    // One swarm that is the fastest donor alone learns what that one does.
    const same = curves.find((curve) => arm.settings === null && curve.roundSeconds === arm.roundSeconds);
    const curve = same ? { ...same, name: arm.name } : trained(arm, book, asked);
    curves.push(curve);
    said(JSON.stringify(curve));
  }
  return curves;
}

function armsOf(cluster: Cluster): readonly Arm[] {
  const rounds = [
    ...MEETINGS.map((innerSteps) => ({ count: ISLANDS, innerSteps })),
    { count: 'auto', roundSeconds: ROUND_SECONDS },
  ];
  const islands = rounds.flatMap((own) => [islandsArm(cluster, own, SPARSE), islandsArm(cluster, own, DENSE)]);
  return [...swarmArms(cluster), ...islands];
}

type Rounds = { readonly count: number | string; readonly innerSteps?: number; readonly roundSeconds?: number };

function islandsArm(cluster: Cluster, rounds: Rounds, settings: typeof DENSE | typeof SPARSE): Arm {
  const file = { ...CLOCK, train: { ...CLOCK.train, islands: { ...rounds, ...settings } } };
  const { problem, islands: asked } = plannedRun(file, cluster);
  if (!asked) throw failed('the clock has islands');
  const { islands, predicted } = need(planIslands(problem, asked), failed);
  return {
    name: rounds.innerSteps === undefined ? 'islands, auto' : `islands, ${rounds.innerSteps} steps`,
    exchange: settings.exchange === 'f32' ? 'f32' : 'sparse',
    roundSeconds: predicted.roundSeconds,
    meetingSeconds: predicted.meetingSeconds,
    settings: { outer: asked.outer, exchange: asked.exchange, publish: asked.publish },
    islands: islands.map(({ predicted: own }) => ({ stepSeconds: own.stepSeconds, steps: own.stepsPerRound })),
  };
}

/** The planner's best swarm that takes its steps together, and the fastest of its donors by itself. */
function swarmArms(cluster: Cluster): readonly Arm[] {
  const plan = (of: Cluster): Result<ClusterPlan> => {
    const { problem } = plannedRun(CLOCK, of);
    return planCluster(problem, ({ isQuick }) => isQuick);
  };
  const arm = (name: string, { predicted: { stepSeconds } }: ClusterPlan): Arm => ({
    ...{ name, exchange: 'none', roundSeconds: stepSeconds, meetingSeconds: 0, settings: null },
    islands: [{ stepSeconds, steps: 1 }],
  });
  const swarm = need(plan(cluster), failed);
  const donors = peersOf(swarm.plan).length;
  return [
    arm('the fastest donor alone', fastestAlone(cluster, plan)),
    arm(`one swarm, of ${counted(donors, 'donor')}`, swarm),
  ];
}

function fastestAlone(cluster: Cluster, plan: (of: Cluster) => Result<ClusterPlan>): ClusterPlan {
  const links = { default: {}, regions: [], pairs: [] };
  for (const peer of cluster.peers.toSorted((a, b) => (b.flopsPerSecond ?? 0) - (a.flopsPerSecond ?? 0))) {
    const found = plan({ peers: [peer], links });
    if (found.ok) return found.value;
  }
  throw failed('no donor has room for the model alone');
}

function plannedRun(file: unknown, cluster: Cluster) {
  const { run, islands } = need(parsePlannedRun(file, 'clock'), failed);
  const batch = batchOf(run);
  const problem: ClusterProblem = {
    model: modelOf(run),
    batch,
    replicas: replicaWish(0),
    cluster,
  };
  return { problem, islands };
}

function trained({ settings, islands, ...arm }: Arm, book: Book, { seconds, learningRate }: Asked): Curve {
  const rounds = Math.floor(seconds / arm.roundSeconds);
  const perRound = islands.reduce((sum, own) => sum + own.steps, 0);
  const train = trainOf({ steps: Math.max(1, rounds * perRound), learningRate, ...SIZE });
  const trainer = new Trainer(MODEL, train, new BlockedProducts());
  const [first, batch] = [firstValues(MODEL, SEED), batches(book, SIZE, SEED)];
  const state = flatState(MODEL, first);
  const training = settings && new IslandTraining(trainer, settings, islands.length, first, batch);
  const values = training ? training.planes.shared : state.values;
  const points: [number, number][] = [[0, heldOutLoss(trainer, first, book, SIZE)]];
  for (let round = 0; round < rounds; round++) {
    if (training) training.round(listsOf(islands, round * perRound));
    else trainer.step(state, batch(round), round);
    const isPoint = Math.floor(((round + 1) * POINTS) / rounds) > Math.floor((round * POINTS) / rounds);
    if (isPoint) points.push([(round + 1) * arm.roundSeconds, heldOutLoss(trainer, values, book, SIZE)]);
  }
  return { ...arm, islands: islands.length, rounds, steps: rounds * perRound, points };
}

/** Numbers of a round from `first` on: the lowest that is free goes to whoever begins a step next. */
export function listsOf(islands: Arm['islands'], first: number): number[][] {
  const lists = islands.map((): number[] => []);
  const steps = islands
    .flatMap(({ stepSeconds, steps: own }, island) =>
      Array.from({ length: own }, (_, step) => ({ island, begins: step * stepSeconds })),
    )
    .toSorted((a, b) => a.begins - b.begins || a.island - b.island);
  for (const [place, { island }] of steps.entries()) at(lists, island).push(first + place);
  return lists;
}
