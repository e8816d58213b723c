/**
 * One peer that trains a whole model by itself and commits its own steps: the stage and the executor of the swarm, with
 * nobody else. The benchmark and the tests of the numerics run this.
 */
import { invariant, peerId } from '../../../swarm/base.ts';
import { learningRate } from '../../../swarm/learningRate.ts';
import type { ReportMessage } from '../../../swarm/messages.ts';
import type { Model } from '../../../swarm/model.ts';
import { type PlanStage, peers } from '../../../swarm/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Train } from '../../../swarm/runFile.ts';
import { stepSchedule } from '../../../swarm/schedule/lower.ts';
import { FULL_SPEED } from './dutyCycle.ts';
import type { MicroTokens } from './engine.ts';
import { type Role, StepRun } from './execute.ts';
import { buildRole, closeRole, type Engine, loadRole, type ReadState, roleBytes } from './role.ts';

export interface SoloStep {
  readonly loss: number;
  readonly gradientNorm: number;
}

export interface SoloOptions {
  readonly engine: Engine;
  readonly model: Model;
  readonly train: Train;
  readonly microBatches?: number;
  /** Layers that the backward computes again. */
  readonly recompute?: readonly number[];
  readonly read: ReadState;
  /** Tokens of a step's samples `[from, to)`. */
  readonly tokens: (step: number, samples: readonly [number, number]) => MicroTokens;
}

const withRecompute = (stage: PlanStage, recompute: readonly number[]): PlanStage => ({
  ...stage,
  members: stage.members.map((member) => ({ ...member, recompute })),
});

export class Solo {
  readonly role: Role;
  readonly #options: SoloOptions;

  private constructor(role: Role, options: SoloOptions) {
    this.role = role;
    this.#options = options;
  }

  static async open(options: SoloOptions): Promise<Solo> {
    const { engine, model, train, microBatches, recompute = [] } = options;
    const equal = equalSplit(model, train.globalBatchSize, [peerId('solo')], { microBatches: microBatches ?? 1 });
    const plan = { ...equal, stages: equal.stages.map((stage) => withRecompute(stage, recompute)) };
    const [peer] = peers(plan);
    invariant(peer, 'a plan of one peer');
    const role = await buildRole(engine, model, train, plan, peer, 0);
    await loadRole(role, options.read);
    return new Solo(role, options);
  }

  get bytes(): number {
    return roleBytes(this.role);
  }

  /** One whole step; resolves when the loss is on the CPU and the update is in the GPU's queue. */
  async step(step: number): Promise<SoloStep> {
    const { train, tokens } = this.#options;
    const { plan, peer } = this.role;
    let answer: SoloStep | null = null;
    let clipScale = 1;
    const samplesOf = new Map(plan.microBatches.map(({ id, samples }) => [id, samples]));
    const run = new StepRun(
      this.role,
      {
        signal: new AbortController().signal,
        now: () => performance.now() / 1000,
        pace: FULL_SPEED,
        links: [],
        send: () => Promise.reject(new Error('a solo peer sends nothing')),
        receive: () => Promise.reject(new Error('a solo peer receives nothing')),
        tokens: async (microBatch) => tokens(step, samplesOf.get(microBatch) ?? [0, 0]),
        report: (message) => {
          invariant(message.type === 'report', 'a step ends with a report');
          answer = totals(message, train);
          const norm = answer.gradientNorm;
          clipScale = train.gradientClipNorm === null ? 1 : Math.min(1, train.gradientClipNorm / (norm + 1e-6));
        },
        committed: async () => ({ learningRate: learningRate(train, step), clipScale, time: step + 1 }),
      },
      step,
    );
    await run.train(stepSchedule(plan).get(peer) ?? []);
    invariant(answer, 'the step reported nothing');
    return answer;
  }

  close(): void {
    closeRole(this.role);
  }
}

function totals({ losses, shards }: ReportMessage, { globalBatchSize, sequenceLength }: Train): SoloStep {
  const lossSum = losses.reduce((sum, part) => sum + (part.lossSum ?? Number.NaN), 0);
  const squares = shards.reduce((sum, shard) => sum + Number(shard.sumSquares), 0);
  return { loss: lossSum / (globalBatchSize * sequenceLength), gradientNorm: Math.sqrt(squares) };
}
