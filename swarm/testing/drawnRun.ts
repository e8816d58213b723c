/**
 * Small runs drawn by a seed: a model of odd dimensions, how it is trained, and a valid plan of up to four peers, with every
 * schedule that the rules allow them. One seed is one run for ever.
 */
import { at, below, invariant, type PeerId, type Random, type Range, seededRandom } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type BlockState, type Plan, problems, type ScheduleName, WARMED_UP } from '../plan/plan.ts';
import { shardCutUpTo } from '../plan/shardCuts.ts';
import { withStateSent } from '../plan/tokenRows.ts';
import { equalSplit, type SplitOptions, splitProblem } from '../planner/equalSplit.ts';
import { batchOf, type Islands, modelOf, parseRunFile, type RunFile, stateWireOf } from '../run/runFile.ts';
import { donors, randomPlanFor } from './randomPlan.ts';

export interface DrawnRun {
  readonly run: RunFile;
  readonly model: Model;
  readonly plan: Plan;
  /** A token a byte, all below the vocabulary. */
  readonly text: Uint8Array<ArrayBuffer>;
  /** How many steps: of a run with islands past its first meeting. */
  readonly steps: number;
}

const STEPS = 3;
/** Any owner of any micro-batch will do. */
const ANYONE: readonly ScheduleName[] = ['gpipe', '1f1b', 'eager', 'varuna'];
const OWN_TABLES: readonly ScheduleName[] = ['interleaved', 'breadth-first', 'chimera'];
const OFTEN = { recompute: 0.3, replicas: 0.2, gathered: 0.3, host: 0.2, apart: 0.2 };

export function drawnRun(seed: number): DrawnRun {
  const random = seededRandom(7000 + seed);
  const json = withMuon(drawnFile(random, seed), seed);
  const parsed = parseRunFile(json, `draw ${seed}`);
  invariant(parsed.ok, parsed.ok ? '' : parsed.reason);
  const run = parsed.value;
  const model = modelOf(run);
  const plan = drawnPlan(random, model, run);
  const [problem] = problems(model, batchOf(run), plan);
  invariant(!problem, `draw ${seed}: ${problem?.text}`);
  const { sequenceLength: T, globalBatchSize: B, islands, steps } = run.train;
  const text = Uint8Array.from({ length: (1 + below(random, 3 * B)) * T + 1 + below(random, T) }, () =>
    below(random, model.vocabulary),
  );
  return { run, model, plan, text, steps: islands ? steps : STEPS };
}

const one = <Value>(random: Random, values: readonly Value[]): Value => at(values, below(random, values.length));
const between = (random: Random, [from, to]: Range): number => from + below(random, to + 1 - from);

/** Every third draw, but for those whose reference rounds a coded state as AdamW makes it. */
function withMuon(file: ReturnType<typeof drawnFile>, seed: number): unknown {
  const { train, precision } = file;
  if (seed % 3 !== 2 || 'state' in precision) return file;
  return { ...file, train: { ...train, optimizer: { ...train.optimizer, type: 'muon', momentum: 0.9 } } };
}

function drawnFile(random: Random, seed: number) {
  const sequenceLength = between(random, [1, 11]);
  const isSparse = random() < 0.5;
  const exchange = isSparse ? { top: between(random, [1, 64]), chunk: 64 + below(random, 100) } : 'f32';
  const [count, innerSteps] = [between(random, [1, 3]), between(random, [1, 2])];
  const islands = random() < 0.35 ? { count, innerSteps, exchange } : null;
  const steps = islands ? count * innerSteps + STEPS : 6;
  const warmupSteps = below(random, 4);
  return {
    name: `draw-${seed}`,
    model: drawnModel(random, sequenceLength),
    data: { files: ['text'], tokenizer: 'bytes' },
    init: { seed },
    train: {
      ...{ steps, sequenceLength, globalBatchSize: between(random, [1, 9]) },
      optimizer: { type: 'adamw', learningRate: 0.003, betas: [0.9, 0.95], epsilon: 1e-6, weightDecay: 0.1 },
      schedule: { type: 'cosine', warmupSteps, decaySteps: warmupSteps + 1 + below(random, 5) },
      gradientClipNorm: one(random, [null, 0.5]),
      ...(islands && { islands }),
    },
    precision: random() < 0.2 ? { state: 'int8' } : {},
  };
}

function drawnModel(random: Random, sequence: number): Record<string, unknown> {
  const heads = between(random, [1, 3]);
  const layers = between(random, [1, 6]);
  const tied = random() < 0.6;
  const sizes = { vocab_size: between(random, [3, 40]), initializer_range: 0.1, tie_word_embeddings: tied };
  const positions = sequence + below(random, 3);
  const inner = between(random, [3, 40]);
  if (random() < 0.5)
    return {
      ...{ ...sizes, model_type: 'gpt2', n_layer: layers, n_head: heads, n_embd: heads * between(random, [3, 9]) },
      ...{ n_inner: inner, n_positions: positions, activation_function: 'gelu_new' },
    };
  const keys = one(random, [1, heads]);
  const llama = {
    ...{ ...sizes, model_type: 'llama', num_hidden_layers: layers, num_attention_heads: heads },
    ...{ num_key_value_heads: keys, head_dim: 2 * between(random, [1, 5]), hidden_size: between(random, [5, 30]) },
    ...{ intermediate_size: inner, max_position_embeddings: positions, rope_theta: 100, hidden_act: 'silu' },
  };
  return { ...llama, ...one(seededRandom(inner * 64 + positions), likeLlama(sequence)) };
}

/** What makes another family of a Llama. Drawn apart, so that all else of a seed is as it was. */
const likeLlama = (sequence: number): readonly Record<string, unknown>[] => [
  { rope_scaling: { rope_type: 'linear', factor: 3 } },
  { model_type: 'qwen2', use_sliding_window: true, sliding_window: 3, max_window_layers: 1 },
  { model_type: 'qwen3' },
  { model_type: 'smollm3', no_rope_layer_interval: 2 },
  {
    ...{ model_type: 'gemma3_text', query_pre_attn_scalar: 7, sliding_window_pattern: 2 },
    // What leaves a sublayer this small would else be made a hundred times as large, its rounding too.
    ...{ sliding_window: Math.ceil(sequence / 2), rms_norm_eps: 0.01 },
  },
];

function drawnPlan(random: Random, model: Model, run: RunFile): Plan {
  const { globalBatchSize: samples, islands } = run.train;
  const everyone = donors(between(random, [1, 4]));
  const layered = random() < 0.1 ? 1 : 0;
  const scattered = randomPlanFor(random, model, samples, everyone, { ...OFTEN, layered });
  const owned = random() < 0.4 ? ownedPlan(random, model, samples, everyone) : null;
  const schedule = layered === 1 ? 'gpipe' : one(random, ANYONE);
  const plan: Plan = owned ?? { ...scattered, schedule };
  // Of a plan with an owner table of its own anybody may keep anything, as none of its stages gathers.
  const kept = owned ? { ...owned, state: randomPlanFor(random, model, samples, everyone, STATE_ALONE).state } : plan;
  const warm = WARMED_UP.includes(kept.schedule) && random() < 0.5 ? ({ warmup: 'overlap' } as const) : {};
  const few = kept.schedule === 'varuna' && random() < 0.5 ? { maxInFlight: 1 + below(random, 3) } : {};
  return withStateSent(
    model,
    { ...kept, ...warm, ...few, state: cutForIslands(model, islands, kept.state) },
    { ...stateWireOf(run), sequence: run.train.sequenceLength },
  );
}

const STATE_ALONE = { ...OFTEN, gathered: 0 };

/** Null where these donors can have none of them. */
function ownedPlan(random: Random, model: Model, samples: number, everyone: readonly PeerId[]): Plan | null {
  const options: SplitOptions = { schedule: one(random, OWN_TABLES), chunks: between(random, [1, 3]) };
  if (splitProblem(model, samples, everyone.length, options) !== null) return null;
  return equalSplit(model, samples, everyone, options);
}

/** Shards that begin outside matrices that are updated whole, and where a meeting can pack them; those of which nothing is left are gone. */
const cutForIslands = (model: Model, islands: Islands | undefined, state: readonly BlockState[]): BlockState[] =>
  state.map(({ block, shards }) => {
    const known = model.blocks.find(({ name }) => name === block);
    invariant(known, 'a block of the model');
    const begins = shards.map(({ range: [from] }) => shardCutUpTo(known, islands, from));
    const moved = shards.flatMap((shard, index) => {
      const range: Range = [at(begins, index), begins[index + 1] ?? known.elements];
      return range[0] < range[1] ? [{ ...shard, range }] : [];
    });
    return { block, shards: moved };
  });
