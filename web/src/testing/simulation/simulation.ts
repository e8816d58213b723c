/**
 * A whole swarm in one process and out of one seed: the product's decisions, sessions, inboxes and meshes over a simulated
 * network, disk and clock, training a model of whole numbers. Every update of every shard, every commit and every upload
 * is held against the sequential run, whatever the plans were and whatever went wrong.
 */

import type { PlanWishes } from '../../../../swarm/autoplan/wishes.ts';
import {
  addToKey,
  at,
  got,
  invariant,
  type PeerId,
  type Range,
  seededRandom,
  success,
} from '../../../../swarm/base.ts';
import type { DecisionConfig } from '../../../../swarm/decisions/events.ts';
import type { RunFacts } from '../../../../swarm/messages/runFacts.ts';
import { acceptedModel } from '../../../../swarm/model/acceptedModel.ts';
import type { BlockName } from '../../../../swarm/model/model.ts';
import type { Plan } from '../../../../swarm/plan/plan.ts';
import type { ClusterCosts } from '../../../../swarm/planner/clusterCosts.ts';
import type { Recording } from '../../../../swarm/recording/recording.ts';
import { SEQUENTIAL } from '../../../../swarm/run/data.ts';
import type { Train } from '../../../../swarm/run/runFile.ts';
import type { RehearsedEffect } from '../../../../swarm/testing/decider.ts';
import { Agenda } from './agenda.ts';
import { takeDigests } from './digestAtOnce.ts';
import { Disk } from './disk.ts';
import type { Flaw } from './flaws.ts';
import type { State } from './integers.ts';
import { LinkSwitch } from './links.ts';
import { Machine } from './machine.ts';
import { Network } from './network.ts';
import { clusterPace, type Pace } from './pace.ts';
import { type MakePlan, SEQUENCE } from './plans.ts';
import { sequentialRun } from './sequential.ts';
import { SimulatedServer } from './simulatedServer.ts';
import { Tab } from './tab.ts';

export const SAMPLES = 6;
const TEXT_BYTES = 500;
export const MODEL = { model_type: 'gpt2', n_layer: 3, n_head: 1, n_embd: 4, n_positions: 4, vocab_size: 32 };
/** A tab that is gone is opened again by somebody after so long. */
const REPLACED_MS = 4_000;

export interface Scenario {
  readonly seed: number;
  readonly donors: number;
  readonly steps: number;
  readonly makePlan: MakePlan;
  /** In place of `makePlan`: plans are made as a command line asks for them. */
  readonly wishes?: PlanWishes;
  /** Of the model; 3 where absent. */
  readonly layers?: number;
  /** 4 where absent. */
  readonly width?: number;
  readonly checkpointEverySteps?: number;
  readonly evaluation?: boolean;
  /** As in the coordinator's config: with 0 every copy is made beside the steps. */
  readonly lateBytes?: number;
  readonly recording?: Recording;
  /** What goes wrong: told of each thing that arrives anywhere, and of each effect. */
  readonly mischief?: (swarm: Simulation, point: string) => void;
  /** Told of each thing that the server does. */
  readonly onEffect?: (effect: RehearsedEffect, nowMs: number) => void;
  /** Told of what is given to a line that several share. */
  readonly onLine?: (line: string, message: ArrayBuffer) => void;
  /** A planted bug. */
  readonly flaw?: Flaw;
  /** Each sum depends on the order of its parts: then nothing is held against the sequential run. */
  readonly isOrdered?: boolean;
  /** Another network than the seed's own. */
  readonly networkSeed?: number;
  /** A plan of a cluster, and what the cluster's peers and links take: wishes for the plan. */
  readonly cluster?: { readonly costs: ClusterCosts; readonly plan: Plan };
  /** Each tab's worker hears later than its page, now and then much later. */
  readonly isBehind?: boolean;
  /** The run has to be finished so long after it began. */
  readonly limitMs: number;
}

export interface Ending {
  readonly problems: readonly string[];
  readonly events: number;
  readonly endMs: number;
  readonly epochs: number;
  /** Steps given up, by each roll-back. */
  readonly rollBacks: readonly number[];
  /** Between two commits, at most. */
  readonly longestPauseMs: number;
  /** From the last commit to the end. */
  readonly lastPauseMs: number;
  /** When each step was committed. */
  readonly commitsMs: readonly number[];
  /** Of what was saved at the end. */
  readonly fingerprint: number;
  /** How often what arrived, or was done by the server. */
  readonly points: ReadonlyMap<string, number>;
}

function configOf(scenario: Scenario) {
  const { donors, steps, layers, width, checkpointEverySteps = 4, evaluation = false, lateBytes } = scenario;
  const config = { ...MODEL, n_layer: layers ?? MODEL.n_layer, n_embd: width ?? MODEL.n_embd };
  const batch = { samples: SAMPLES, sequence: SEQUENCE };
  const train: Train = {
    ...{ steps, globalBatchSize: SAMPLES, sequenceLength: SEQUENCE, gradientClipNorm: 9_000 },
    optimizer: { type: 'adamw', learningRate: 0.1, betas: [0.9, 0.99], epsilon: 1e-8, weightDecay: 0 },
    schedule: { type: 'cosine', warmupSteps: 2, minRatio: 0.1, decaySteps: steps },
  };
  const list = { tokens: TEXT_BYTES, shardTokens: TEXT_BYTES, bytesPerToken: 1, shards: ['a'.repeat(64)] } as const;
  const facts: RunFacts = {
    ...{ name: 'simulated', model: config, train, data: list, order: SEQUENTIAL, wire: 'f32' },
    evaluation: evaluation ? list : null,
  };
  const decisions: DecisionConfig = {
    run: {
      ...{ name: facts.name, layers: config.n_layer, model: config, wire: facts.wire, batch, steps, train },
      ...{ gradientClipNorm: train.gradientClipNorm, checkpointEverySteps, capacity: 16, expectedDonors: donors },
      ...(lateBytes === undefined ? {} : { lateBytes }),
      evaluation: evaluation ? { everySteps: 3, windows: Math.floor((TEXT_BYTES - 1) / SEQUENCE) } : null,
    },
    // Replicas stand in the plans that a simulation makes for itself.
    planning: {
      model: config,
      batch,
      wishes: scenario.wishes ?? (scenario.cluster && { plan: scenario.cluster.plan }) ?? { auto: true, replicas: 0 },
    },
  };
  return { train, facts, decisions };
}

export class Simulation {
  readonly agenda = new Agenda();
  readonly network: Network;
  readonly links: LinkSwitch;
  readonly server: SimulatedServer;
  readonly tabs: Tab[] = [];
  readonly random: () => number;
  readonly #scenario: Scenario;
  readonly #reference: ReturnType<typeof sequentialRun>;
  readonly #problems: string[] = [];
  readonly #rollBacks: number[] = [];
  readonly #points = new Map<string, number>();
  #committedMs: number | null = null;
  readonly #commitsMs: number[] = [];
  readonly #pace: Pace | null;
  #plan: Plan | null = null;
  #longestPauseMs = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.random = seededRandom(scenario.seed);
    const { train, facts, decisions } = configOf(scenario);
    const model = acceptedModel(decisions.planning);
    const text = Uint8Array.from({ length: TEXT_BYTES }, () => Math.floor(this.random() * MODEL.vocab_size));
    this.#reference = sequentialRun(model, train, text);
    this.network = new Network(this.agenda, seededRandom(scenario.networkSeed ?? scenario.seed + 1));
    const { cluster } = scenario;
    this.#pace = cluster ? clusterPace(cluster.costs, cluster.plan, () => this.#plan) : null;
    this.network.pace = this.#pace;
    this.network.onArrival = (what) => this.#passed(what);
    this.network.onLine = scenario.onLine ?? this.network.onLine;
    this.links = new LinkSwitch(this.network);
    const disk = new Disk(model, at(this.#reference.states, 0), text);
    disk.onUpload = (block, range, step, state) => this.#compare('an upload', block, range, step, state);
    this.server = new SimulatedServer({
      ...{ network: this.network, config: decisions, facts, disk, recording: scenario.recording ?? null },
      flaw: scenario.flaw ?? {},
      search: ({ problem }) => {
        const peers = problem.cluster.peers.map(({ id }) => id as PeerId);
        return success({ plan: scenario.makePlan(model, SAMPLES, peers), reasons: [], idle: [] });
      },
      onEffect: (effect) => this.#performed(effect),
      onSaid: (peer, message) => {
        if (message.type === 'fault' && message.reason === 'internal')
          this.#problems.push(`${peer} says: ${message.detail}`);
      },
    });
    for (let index = 0; index < scenario.donors; index++) this.open();
  }

  /** A donor comes. */
  open(): void {
    const { network, links, server } = this;
    const { flaw = {}, isOrdered = false } = this.#scenario;
    const machine = new Machine(this.agenda);
    this.agenda.after(500 * this.random(), () => {
      const witness = {
        updated: (block: BlockName, range: Range, step: number, state: State) =>
          this.#compare(`${tab.peer}'s shard`, block, range, step, state),
      };
      const seed = Math.floor(this.random() * 2 ** 31);
      const tab = new Tab({
        network,
        links,
        server,
        machine,
        witness,
        seed,
        flaw: flaw.tab?.((step) => at(this.#reference.scalars, step)) ?? {},
        isOrdered,
        pace: this.#pace,
        isBehind: this.#scenario.isBehind ?? false,
      });
      this.tabs.push(tab);
    });
  }

  /** The tab ends, and after a while another one is opened in its place. */
  kill(tab: Tab, isSilent: boolean): void {
    tab.kill(isSilent);
    this.openLater();
  }

  openLater(): void {
    this.agenda.after(REPLACED_MS, () => this.open());
  }

  readonly tabOf = (peer: PeerId): Tab | null => this.tabs.find((tab) => tab.peer === peer && !tab.hasEnded) ?? null;

  async play(): Promise<Ending> {
    const { limitMs, steps } = this.#scenario;
    const { run, disk } = this.server;
    const isOver = (): boolean => run.ended !== null || this.#problems.length > 0 || this.agenda.nowMs > limitMs;
    try {
      await this.agenda.run(isOver);
    } catch (error) {
      this.#problems.push(String(error));
    }
    if (this.#problems.length === 0 && run.ended !== 'finished')
      this.#problems.push(
        `${Math.round(this.agenda.nowMs / 1000)} s after it began it stands in ${JSON.stringify(run.state.phase)}`,
      );
    if (this.#problems.length === 0) invariant(disk.checkpoints.has(steps), 'the end is saved');
    for (const tab of this.tabs) tab.kill(true);
    return {
      problems: this.#problems,
      events: this.agenda.events,
      endMs: this.agenda.nowMs,
      epochs: run.store.epoch,
      rollBacks: this.#rollBacks,
      points: this.#points,
      longestPauseMs: this.#longestPauseMs,
      lastPauseMs: this.agenda.nowMs - (this.#committedMs ?? 0),
      commitsMs: this.#commitsMs,
      fingerprint: disk.fingerprint(steps),
    };
  }

  #passed(point: string): void {
    addToKey(this.#points, point, 1);
    this.#scenario.mischief?.(this, point);
  }

  #performed(effect: RehearsedEffect): void {
    if (effect.type === 'storeEpoch') this.#plan = effect.plan;
    this.#scenario.onEffect?.(effect, this.agenda.nowMs);
    if (effect.type === 'rollBack') this.#rollBacks.push(effect.atStep - effect.toStep);
    if (effect.type === 'storeCommit') {
      const { step, loss, gradientNorm } = effect.record;
      const { losses, norms } = this.#reference;
      const { nowMs } = this.agenda;
      this.#longestPauseMs = Math.max(this.#longestPauseMs, nowMs - (this.#committedMs ?? nowMs));
      this.#committedMs = nowMs;
      this.#commitsMs.push(nowMs);
      const isCompared = this.#scenario.isOrdered !== true;
      if (isCompared && (loss !== losses[step] || gradientNorm !== norms[step]))
        this.#problems.push(
          `step ${step} is committed with a loss of ${loss} and a norm of ${gradientNorm}, not ${losses[step]} and ${norms[step]}`,
        );
    }
    this.#passed(`effect ${effect.type}`);
  }

  #compare(whose: string, block: BlockName, [from, to]: Range, step: number, state: State): void {
    if (this.#scenario.isOrdered) return;
    const expected = got(at(this.#reference.states, step), block);
    for (const kind of ['value', 'm', 'v'] as const)
      for (let index = from; index < to; index++)
        if (state[kind][index - from] !== expected[kind][index]) {
          this.#problems.push(
            `${whose} of ${block} [${from}, ${to}) after ${step} steps: ${kind} ${index} is ${state[kind][index - from]}, not ${expected[kind][index]}`,
          );
          return;
        }
  }
}

/** Plays a scenario to its end. One at a time. */
export async function simulate(scenario: Scenario): Promise<Ending> {
  const giveBack = takeDigests();
  try {
    return await new Simulation(scenario).play();
  } finally {
    giveBack();
  }
}
