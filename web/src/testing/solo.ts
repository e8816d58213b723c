/**
 * One peer that trains a whole model by itself and commits its own steps: the stage and the executor of the swarm, with
 * nobody else. The benchmark and the tests of the numerics run this.
 */
import { got, invariant, peerId, totalOf } from '../../../swarm/base.ts';
import type { ReportMessage } from '../../../swarm/messages/messages.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { peers } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import { afterCommit, afterOverflow, FIRST_LOSS_SCALE, type LossScale } from '../../../swarm/precision.ts';
import { NO_TARGET } from '../../../swarm/run/data.ts';
import { learningRate } from '../../../swarm/run/learningRate.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { stepSchedule } from '../../../swarm/schedule/lower.ts';
import { recomputing } from '../../../swarm/schedule/recompute.ts';
import { FULL_SPEED } from '../executor/dutyCycle.ts';
import type { MicroTokens } from '../executor/engine.ts';
import { StepRun } from '../executor/execute.ts';
import {
  beginLoad,
  buildRole,
  closeRole,
  type Engine,
  type ReadState,
  type Role,
  roleBytes,
} from '../executor/role.ts';

/** Why an attempt at a step ends before its update. */
const OVERFLOW = new Error('the scaled gradient overflowed');

interface SoloStep {
  readonly loss: number;
  readonly gradientNorm: number;
}

interface SoloOptions {
  readonly engine: Engine;
  readonly model: Model;
  readonly train: Train;
  readonly microBatches?: number;
  /** To begin with, where the run asks for f16. */
  readonly lossScale?: LossScale;
  /** Layers that the backward computes again. */
  readonly recompute?: readonly number[];
  readonly read: ReadState;
  /** Tokens of a step's samples `[from, to)`. */
  readonly tokens: (step: number, samples: readonly [number, number]) => MicroTokens;
}

export class Solo {
  readonly role: Role;
  readonly #options: SoloOptions;
  #lossScale: LossScale | null;

  private constructor(role: Role, options: SoloOptions) {
    this.role = role;
    this.#options = options;
    this.#lossScale = options.engine.asked === 'f16' ? (options.lossScale ?? FIRST_LOSS_SCALE) : null;
  }

  static async open(options: SoloOptions): Promise<Solo> {
    const { engine, model, train, microBatches, recompute = [] } = options;
    const equal = equalSplit(model, train.globalBatchSize, [peerId('solo')], { microBatches: microBatches ?? 1 });
    const plan = recomputing(equal, recompute);
    const [peer] = peers(plan);
    invariant(peer, 'a plan of one peer');
    const role = await buildRole(engine, model, train, plan, peer, 0);
    await beginLoad(role, options.read)(role);
    return new Solo(role, options);
  }

  get bytes(): number {
    return roleBytes(this.role);
  }

  /** What the next step's gradients are multiplied with. */
  get lossScale(): number {
    return this.#lossScale?.scale ?? 1;
  }

  /** One whole step; resolves when the loss is on the CPU and the update is in the GPU's queue. */
  async step(step: number): Promise<SoloStep> {
    for (;;) {
      const answer = await this.#attempt(step);
      if (answer === null) continue; // an overflow: again, at half the scale
      if (this.#lossScale) this.#lossScale = afterCommit(this.#lossScale);
      return answer;
    }
  }

  /** Null where the scaled gradient overflowed: nothing was updated. */
  async #attempt(step: number): Promise<SoloStep | null> {
    const { train, tokens } = this.#options;
    const { lossScale } = this;
    const counted = countedTargets(tokens(step, [0, train.globalBatchSize]));
    const { plan, peer } = this.role;
    let answer: SoloStep | null = null;
    let clipScale = 1;
    const overflow = new AbortController();
    const samplesOf = new Map(plan.microBatches.map(({ id, samples }) => [id, samples]));
    const run = new StepRun(
      this.role,
      {
        signal: overflow.signal,
        now: () => performance.now() / 1000,
        throttle: FULL_SPEED,
        links: [],
        lossScale,
        counted,
        send: () => Promise.reject(new Error('a solo peer sends nothing')),
        receive: () => Promise.reject(new Error('a solo peer receives nothing')),
        tokens: async (microBatch) => tokens(step, samplesOf.get(microBatch) ?? [0, 0]),
        report: (message) => {
          invariant(message.type === 'report', 'a step ends with a report');
          answer = totals(message, counted, lossScale);
          const { loss, gradientNorm: norm } = answer;
          const smaller = this.#lossScale && afterOverflow(this.#lossScale);
          if (smaller && Number.isFinite(loss) && !Number.isFinite(norm)) {
            this.#lossScale = smaller;
            overflow.abort(OVERFLOW);
          }
          const clip = train.gradientClipNorm === null ? 1 : Math.min(1, train.gradientClipNorm / (norm + 1e-6));
          clipScale = clip / lossScale;
        },
        committed: async () => {
          overflow.signal.throwIfAborted();
          return { learningRate: learningRate(train, step), clipScale, time: step + 1 };
        },
      },
      step,
    );
    try {
      await run.train(got(stepSchedule(plan), peer));
    } catch (error) {
      if (error === OVERFLOW) return null;
      throw error;
    }
    invariant(answer, 'the step reported nothing');
    return answer;
  }

  close(): void {
    closeRole(this.role);
  }
}

/** How many rows count. */
export const countedTargets = ({ targets }: MicroTokens): number =>
  totalOf(targets, (target) => (target === NO_TARGET ? 0 : 1));

function totals({ losses, shards }: ReportMessage, counted: number, scale: number): SoloStep {
  const lossSum = totalOf(losses, (part) => part.lossSum ?? Number.NaN);
  const squares = totalOf(shards, (shard) => Number(shard.sumSquares));
  return { loss: lossSum / counted, gradientNorm: Math.sqrt(squares) / scale };
}
