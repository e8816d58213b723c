/**
 * What a server would tell a dashboard of a run of many unequal donors, made with the simulator: who is there, the plan,
 * the ways between them, a step with each message, and any step's timeline. No donor computes anything; a seed makes the
 * same feed again.
 */
import { arrayOf, invariant, type PeerId, peerId, type Random, seededRandom } from '../../swarm/base.ts';
import { NO_LIMITS } from '../../swarm/limits.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import type { Happened, StepTimeline, WatchedEvent, WatchedStep, WatchMessage } from '../../swarm/messages/watch.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { type Cluster, parseCluster } from '../../swarm/planner/cluster.ts';
import { clusterCosts } from '../../swarm/planner/clusterCosts.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { predictedStep } from '../../swarm/planner/forecast.ts';
import { rowsOf } from '../../swarm/timeline/rows.ts';
import { bubbleRatio, makespanSeconds, type Timeline } from '../../swarm/timeline/timeline.ts';
import { type StepTraffic, stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import { wallMs } from '../monitoring/clock.ts';
import { watchedPlan } from '../operator/source.ts';

const STAGES = 32;
const MICRO_BATCHES = 64;
const BATCH = { samples: 256, sequence: 128 };
const RUN_STEPS = 100_000;
/** Committed before the dashboard opens, and how many of them it is told at once. */
const DONE = 5_000;
const RECENT = 1_000;
const EVALUATE_EVERY = 25;
const CHECKPOINT_EVERY = 50;
const LEAVE_EVERY = 10;
/** As a server tells them: every two seconds, with four steps a second. */
const LINKS_EVERY = 8;
/** Every so often the donors change places. */
const PLAN_EVERY = 120;
/** No two steps take the same time; so many different ones are simulated of each plan. */
const VARIANTS = 4;
const TRACES_KEPT = 256;
const SPREAD = 0.15;
const REASON = 'donors change places';
/** Whatever a run or a donor calls itself is text. */
const HOSTILE = '<img src=x onerror="alert(1)">';

const CONFIG = {
  ...{ model_type: 'gpt2', n_layer: 64, n_head: 8, n_embd: 512, n_positions: BATCH.sequence, vocab_size: 8_192 },
  ...{ activation_function: 'gelu_new', resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0 },
  ...{ layer_norm_epsilon: 1e-5, initializer_range: 0.02, tie_word_embeddings: true },
};

interface Course {
  readonly epoch: number;
  readonly plan: Plan;
  readonly predicted: Timeline;
  readonly measured: readonly { readonly timeline: Timeline; readonly seconds: number }[];
  readonly traffic: StepTraffic;
}

export class DashboardFeed {
  readonly run = HOSTILE;
  readonly #random = seededRandom(7);
  readonly #peers: readonly PeerId[];
  readonly #cluster: Cluster;
  readonly #courses: readonly Course[];
  #committed = DONE;
  #event = 0;
  #newest: Snapshot | null = null;

  constructor(donors: number) {
    this.#peers = arrayOf(donors, () =>
      peerId(arrayOf(12, () => 'abcdefghijklmnopqrstuvwxyz0123456789'[this.#below(36)]).join('')),
    );
    this.#cluster = clusterFor(this.#peers, this.#random);
    this.#courses = [0, 1].map((place) => this.#course(place));
  }

  /** As it was last told. */
  get newest(): Snapshot {
    invariant(this.#newest, 'something was told');
    return this.#newest;
  }

  /** The next step stands committed. */
  next(): WatchMessage {
    const isFirst = this.#newest === null;
    this.#committed += 1;
    const course = this.#courseOf(this.#committed - 1);
    const isNewPlan = isFirst || this.#committed % PLAN_EVERY === 1;
    const from = isFirst ? this.#committed - RECENT : this.#committed - 1;
    const { plan, epoch } = course;
    this.#newest = this.#snapshot(course);
    const { links, ...others } = this.#newest;
    return {
      snapshot: isFirst || this.#committed % LINKS_EVERY === 0 ? this.#newest : others,
      recent: arrayOf(this.#committed - from, (index) => this.#step(from + index)),
      events: this.#events(isNewPlan),
      traces: [this.#committed - TRACES_KEPT, this.#committed - 1],
      ...(isFirst || this.#committed % EVALUATE_EVERY === 0 ? { evaluations: this.#evaluations() } : {}),
      ...(isNewPlan ? { peers: this.#facts(), plan: watchedPlan(epoch, plan, REASON) } : {}),
    };
  }

  /** Steps before those that the first message has. */
  older(until: number): WatchedStep[] {
    return arrayOf(until, (step) => this.#step(step));
  }

  timeline(step: number): StepTimeline {
    const { epoch, predicted } = this.#courseOf(step);
    const { timeline: measured } = this.#measuredAt(step);
    const bubble = bubbleRatio(measured, this.#peers);
    const spans = { measured: rowsOf(measured), predicted: rowsOf(predicted) };
    return { step, epoch, bubble, ...spans, plan: watchedPlan(epoch, this.#courseOf(step).plan, REASON) };
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  #course(place: number): Course {
    // Another plan: everyone a few seats further.
    const seats = [...this.#peers.slice(place * 3), ...this.#peers.slice(0, place * 3)];
    const model = modelFromConfig(CONFIG);
    invariant(model.ok, 'the model is one');
    const options = { stages: Math.min(STAGES, seats.length), microBatches: MICRO_BATCHES };
    const plan = equalSplit(model.value, BATCH.samples, seats, options);
    const timeline = (cluster: Cluster): Timeline =>
      predictedStep(clusterCosts({ model: model.value, batch: BATCH, cluster }), plan).timeline;
    const measured = arrayOf(VARIANTS, () => {
      const simulated = timeline(varied(this.#cluster, this.#random));
      return { timeline: simulated, seconds: makespanSeconds(simulated) };
    });
    const traffic = stepTraffic(model.value, plan, { ...BATCH, wire: 'f32' });
    return { epoch: 40 + place, plan, predicted: timeline(this.#cluster), measured, traffic };
  }

  #courseOf(step: number): Course {
    const course = this.#courses[Math.floor(step / PLAN_EVERY) % this.#courses.length];
    invariant(course, 'there is a course for every step');
    return course;
  }

  #measuredAt(step: number) {
    const measured = this.#courseOf(step).measured[step % VARIANTS];
    invariant(measured, 'every variant is simulated');
    return measured;
  }

  /** A pure function of the step, as a store would have it. */
  #step(step: number): WatchedStep {
    const random = seededRandom(step);
    return {
      ...{ step, loss: 3 + 6 * Math.exp(-step / 2_000) + 0.2 * random(), gradientNorm: 0.5 + random() },
      learningRate: 3e-4 * (1 - step / RUN_STEPS),
      tokens: BATCH.samples * BATCH.sequence,
      seconds: this.#measuredAt(step).seconds * (1 + 0.1 * random()),
      ...{ donors: this.#peers.length, stages: STAGES, microBatches: MICRO_BATCHES, plan: this.#courseOf(step).epoch },
      ...{ bytesDirect: Math.round(4e9 + 1e8 * random()), bytesRelayed: Math.round(1e8 * random()) },
      bubble: 0.3 + 0.1 * random(),
      traffic: this.#courseOf(step).traffic,
    };
  }

  #snapshot({ epoch, plan }: Course): Snapshot {
    const { loss, tokens, seconds } = this.#step(this.#committed - 1);
    const stagesOf = new Map(
      plan.stages.flatMap(({ layers, members }, stage) =>
        members.map(({ peer }): [PeerId, Snapshot['donors'][number]['stages']] => [peer, [{ stage, layers }]]),
      ),
    );
    return {
      run: this.run,
      ...{
        phase: 'training',
        sentence: `${this.#peers.length} donors are training step ${this.#committed} of ${RUN_STEPS}.`,
      },
      ...{ generation: 0, epoch, committedSteps: this.#committed, steps: RUN_STEPS, loss },
      ...{ evaluationLoss: loss + 0.1, tokensPerSecond: tokens / seconds },
      donors: this.#peers.map((peer, index) => ({
        peer,
        adapter: {
          ...{ vendor: 'none', architecture: 'simulated', software: false, browser: 'Chromium 156' },
          description: index === 0 ? HOSTILE : `Simulated GPU ${index % 7}`,
        },
        state: 'computing',
        stages: stagesOf.get(peer) ?? [],
        tokens: (this.#committed * tokens * (1 + (index % 5))) / this.#peers.length,
      })),
      links: linksOf(plan, seededRandom(this.#committed)),
    };
  }

  #evaluations(): [number, number][] {
    return arrayOf(Math.floor(this.#committed / EVALUATE_EVERY), (index) => {
      const step = index * EVALUATE_EVERY;
      return [step, 3.1 + 6 * Math.exp(-step / 2_000)];
    });
  }

  #events(isNewPlan: boolean): WatchedEvent[] {
    const step = this.#committed;
    const event = (happened: Happened): WatchedEvent => {
      this.#event += 1;
      return { id: this.#event, atMs: wallMs(), step, ...happened };
    };
    const { epoch } = this.#courseOf(step - 1);
    const plan = { epoch, donors: this.#peers.length, stages: STAGES, microBatches: MICRO_BATCHES };
    return [
      ...(isNewPlan ? [event({ kind: 'plan', ...plan, schedule: '1f1b', reason: 'donors change places' })] : []),
      ...(step % CHECKPOINT_EVERY === 0 ? [event({ kind: 'checkpoint' })] : []),
      ...(step % LEAVE_EVERY === 0
        ? [event({ kind: 'left', peer: this.#peers[this.#below(this.#peers.length)] ?? '' })]
        : []),
    ];
  }

  #facts(): NonNullable<WatchMessage['peers']> {
    return this.#cluster.peers.map(({ id, memoryBytes, flopsPerSecond = 1e12 }, index) => ({
      peer: id,
      name: index === 1 ? HOSTILE : null,
      limits: { ...NO_LIMITS, speed: 0.5 + (index % 5) / 10 },
      profile: {
        layers: [{ samples: 1, forwardSeconds: 1e9 / flopsPerSecond, backwardSeconds: 2e9 / flopsPerSecond }],
        ...{ memoryBytes, checkedKernels: 20 },
      },
      faults: index % 50 === 0 ? 1 : 0,
      ...{ compute: 'f32' as const, predictedBytes: 1e9, peakBytes: 9.5e8 },
    }));
  }
}

function clusterFor(peers: readonly PeerId[], random: Random): Cluster {
  const cluster = parseCluster(
    {
      peers: peers.map((id) => ({ id, memoryBytes: 8e9, flopsPerSecond: 2e10 * (1 + 4 * random()) })),
      links: { default: { latencySeconds: 0.01, bytesPerSecond: 1e8 } },
    },
    'the cluster',
  );
  invariant(cluster.ok, 'the cluster is one');
  return cluster.value;
}

const varied = (cluster: Cluster, random: Random): Cluster => ({
  ...cluster,
  peers: cluster.peers.map(({ flopsPerSecond = 1e12, ...peer }) => ({
    ...peer,
    flopsPerSecond: flopsPerSecond * (1 - SPREAD * random()),
  })),
});

/** Lane by lane from stage to stage, and everyone of a stage with everyone. */
function linksOf({ stages }: Plan, random: Random): NonNullable<Snapshot['links']> {
  const both = (a: PeerId | undefined, b: PeerId | undefined) =>
    a === undefined || b === undefined ? [] : [way(a, b), way(b, a)];
  const way = (from: PeerId, peer: PeerId) => {
    const draw = random();
    const route = from.charCodeAt(0) % 9 === 0 || peer.charCodeAt(0) % 9 === 0 ? 'relayed' : 'direct';
    const rates = { roundTripMs: 20 + 40 * draw, bytesPerSecond: 5e5 * 40 ** draw };
    return { from, peer, route, ...rates, ...(route === 'relayed' && { why: 'failed' as const }) } as const;
  };
  return stages.flatMap(({ members }, stage) =>
    members.flatMap(({ peer }, lane) => [
      ...both(peer, stages[stage + 1]?.members[lane]?.peer),
      ...members.slice(lane + 1).flatMap((other) => both(peer, other.peer)),
    ]),
  );
}
