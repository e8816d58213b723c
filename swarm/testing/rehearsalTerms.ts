/** The runs that are rehearsed, as small as they come, and who comes to them. */
import type { MakePlan, PlanWishes } from '../autoplan/wishes.ts';
import { arrayOf, refusal, success } from '../base.ts';
import type { CoordinatorConfig } from '../coordinator/events.ts';
import type { DecisionConfig } from '../decisions/events.ts';
import { wholeRounds } from '../islands/rounds.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import type { Block, BlockName } from '../model/model.ts';
import { equalSplit, splitProblem } from '../planner/equalSplit.ts';
import type { Islands } from '../run/runFile.ts';

export const ADAPTER: AdapterProfile = {
  vendor: 'v',
  architecture: 'a',
  description: 'd',
  software: true,
  browser: 'b',
};

const ELEMENTS = 10;
/** Where a stage has lanes: enough that a block has a shard with each of them. */
const ELEMENTS_OF_LANES = 200;
/** No plan fits a donor that gives less. */
export const LEAST_BYTES = 4;
export const MICRO_BATCHES = 3;
export const SAMPLES = 6;

interface RehearsalPart extends Partial<CoordinatorConfig> {
  readonly islands?: Islands | undefined;
  readonly layers?: number;
  /** Donors a layer, at most. With more than micro-batches not all can compute. */
  readonly lanes?: number;
}

export interface RehearsalTerms {
  readonly config: CoordinatorConfig;
  readonly blocks: readonly Block[];
  readonly makePlan: MakePlan;
}

/** A run of this model of so many layers, as small as they come. */
export const decisionConfig = (run: CoordinatorConfig, wishes: PlanWishes): DecisionConfig => ({
  run,
  planning: {
    model: run.model,
    batch: run.batch,
    wishes: wishes.auto ? wishes : { microBatches: MICRO_BATCHES, ...wishes },
  },
});

/** Of a rehearsal; its plans are equal splits. */
export function rehearsalTerms({ layers = 4, lanes = 1, islands, ...rest }: RehearsalPart): RehearsalTerms {
  const names: BlockName[] = ['embedding', ...arrayOf(layers, (i) => `layer.${i}` as const), 'head'];
  const elements = lanes === 1 ? ELEMENTS : ELEMENTS_OF_LANES;
  const model = { layers, blocks: names.map((name): Block => ({ name, tensors: [], elements })) };
  const samples = SAMPLES;
  const options = { microBatches: MICRO_BATCHES };
  const { evaluation = null } = rest;
  const train: CoordinatorConfig['train'] = {
    steps: rest.steps ?? 6,
    optimizer: { type: 'adamw', learningRate: 0.1, betas: [0.9, 0.99], epsilon: 1e-8, weightDecay: 0 },
    schedule: { type: 'constant', warmupSteps: 0 },
    ...(islands ? { islands } : {}),
  };
  const config: CoordinatorConfig = {
    name: 'rehearsal',
    layers,
    model: { model_type: 'gpt2', n_layer: layers, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 8 },
    wire: 'f32',
    batch: { samples, sequence: 5 },
    steps: 6,
    train,
    gradientClipNorm: 1,
    capacity: layers * lanes,
    expectedDonors: null,
    ...rest,
    checkpointEverySteps: wholeRounds(train, rest.checkpointEverySteps ?? 20),
    evaluation: evaluation && { ...evaluation, everySteps: wholeRounds(train, evaluation.everySteps) },
  };
  const makePlan: MakePlan = (peers, caps) => {
    const small = peers.find((peer) => (caps.get(peer) ?? LEAST_BYTES) < LEAST_BYTES);
    const problem = small ? `${small} gives too little` : splitProblem(model, samples, peers.length, options);
    return problem === null ? success(equalSplit(model, samples, peers, options)) : refusal(problem);
  };
  return { config, blocks: model.blocks, makePlan };
}
