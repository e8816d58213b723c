/**
 * A run as an operator drafts it on the dashboard: another run's text or one that was brought along, a model of a list, that
 * run's own or that of a folder on the server, and the few numbers that people change. A draft is a recipe for a run file, so that everything about it is checked where run
 * files are.
 */
import { z } from 'zod';
import { type Result, refusal } from '../base.ts';
import { count } from '../fields.ts';
import { parseRunFile, type RunFile, TEXT_FORMATS } from './runFile.ts';

/** GPT-2's shape in sizes; the vocabulary is that of the text. */
export const MODEL_PRESETS = {
  tiny: { n_layer: 2, n_head: 2, n_embd: 32 },
  small: { n_layer: 4, n_head: 4, n_embd: 128 },
  medium: { n_layer: 8, n_head: 8, n_embd: 512 },
  'gpt2-small': { n_layer: 12, n_head: 12, n_embd: 768 },
} as const;
export type ModelPreset = keyof typeof MODEL_PRESETS;
const PRESET_NAMES = Object.keys(MODEL_PRESETS) as [ModelPreset, ...ModelPreset[]];

const whole = z.int().min(1).max(1e9);

/** A text that an operator brought along, or examples: its name, its files, and what they have. */
export const TEXT_NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,59}$/;
export type TextFormat = (typeof TEXT_FORMATS)[number];
export const textFile = (name: string, format: TextFormat): string => `${name}.${format === 'text' ? 'txt' : 'jsonl'}`;
export const heldOutOf = (name: string): string => `${name}.held-out`;

/** How a text that was brought along is read. Paths are beside it. */
export interface OwnText {
  readonly format: TextFormat;
  readonly tokenizer: string;
  /** Whose tokens it has: those of the draft's source, or bytes whatever the source has. */
  readonly tokens: 'source' | 'bytes';
  readonly chatTemplate?: string;
}
const BYTES_OF_TEXT: OwnText = { format: 'text', tokenizer: 'bytes', tokens: 'bytes' };
const BYTE_VOCABULARY = 256;

/** The model and the weights of a folder that the server was started with, by the folder's name. */
const FOLDER = 'folder:';
type FolderModel = `${typeof FOLDER}${string}`;
export const folderModel = (name: string): FolderModel => `${FOLDER}${name}`;
/** The folder's name; null: the model is none of a folder. */
export const folderOf = (model: RunDraft['model']): string | null =>
  model.startsWith(FOLDER) ? model.slice(FOLDER.length) : null;

/** What is trained in place of a folder's own weights. */
const draftAdapterSchema = z.object({
  rank: z.number(),
  alpha: z.number(),
  targets: z.array(z.string().max(100)).max(100),
});
export type DraftAdapter = z.infer<typeof draftAdapterSchema>;

export const runDraftSchema = z.object({
  name: z.string().max(200),
  /** The run whose text, tokenizer and held-out text it takes. */
  source: z.string().max(200),
  /** A text that was brought along, in place of the source's; null: the source's. */
  text: z.string().regex(TEXT_NAME).nullable(),
  /** Of examples that were brought along: several in a window. */
  packing: z.boolean(),
  /** The source's own model, one of the list, or that of a folder, which has a tokenizer of its own. */
  model: z.union([z.enum(['same', ...PRESET_NAMES]), z.templateLiteral([FOLDER, z.string().max(200)])]),
  /** Of a folder's model; null: all of its weights are trained. */
  adapter: draftAdapterSchema.nullable(),
  /** Weights of the source after so many steps, with a fresh optimizer; null: new ones, from the seed. */
  checkpoint: count.nullable(),
  /** Of a former checkpoint: whose steps it stands after. */
  generation: count.optional(),
  steps: whole,
  globalBatchSize: whole,
  sequenceLength: whole,
  learningRate: z.number(),
  schedule: z.enum(['constant', 'cosine']),
  warmupSteps: count,
  checkpointEvery: whole,
  seed: z.int().min(0),
});
export type RunDraft = z.infer<typeof runDraftSchema>;

export const INITIAL_DRAFT: Omit<RunDraft, 'source'> = {
  name: '',
  text: null,
  packing: true,
  model: 'same',
  adapter: null,
  checkpoint: null,
  steps: 300,
  globalBatchSize: 16,
  sequenceLength: 32,
  learningRate: 0.003,
  schedule: 'cosine',
  warmupSteps: 10,
  checkpointEvery: 20,
  seed: 1,
};

/** The draft as a run file, or why it is none. `source`: its run, or what its folder has; `own`: of its text, where it has one. */
export function runFileOfDraft(draft: RunDraft, source: RunFile, own: OwnText = BYTES_OF_TEXT): Result<RunFile> {
  const { name, steps, globalBatchSize, sequenceLength, warmupSteps, seed } = draft;
  if (draft.checkpoint !== null && draft.model !== 'same')
    return refusal(
      'weights of a checkpoint fit the model that they are of alone: choose the same model, or new weights',
    );
  const { text } = draft;
  const folder = folderOf(draft.model);
  if (folder !== null && text === null)
    return refusal(
      `the text of ${draft.source} is kept as tokens of its own, which ${folder} does not know: bring a text or examples along`,
    );
  const format = source.data.format ?? 'text';
  if (text === null && format !== 'text' && sequenceLength !== source.train.sequenceLength)
    return refusal(
      `the examples of ${source.name} lie in windows of ${source.train.sequenceLength} tokens: choose the same length`,
    );
  const hasItsTokens = text === null || own.tokens === 'source';
  const vocabulary = hasItsTokens ? source.model.vocab_size : BYTE_VOCABULARY;
  if (draft.checkpoint !== null && source.model.vocab_size !== vocabulary)
    return refusal(
      `a text of your own is read as bytes, and the weights of ${source.name} were trained on other tokens: choose new weights`,
    );
  const adapted = adaptedAs(draft, source);
  if (adapted !== null && source.model.vocab_size !== vocabulary)
    return refusal(
      `a text of your own is read as bytes, and the weights of ${source.name} that its adapter leaves as they are know other tokens: bring examples, or choose a model of the list`,
    );
  const model =
    draft.model in MODEL_PRESETS
      ? presetConfig(draft.model as ModelPreset, vocabulary, sequenceLength) // a key of the table
      : withVocabulary(source.model, vocabulary);
  const { optimizer } = source.train;
  const init = adapted === null && folder === null ? { seed } : source.init;
  const file = {
    ...{ name, model, init, precision: source.precision },
    data: { ...(text === null ? source.data : dataOf(text, own, draft.packing)), seed },
    evaluation: text === null ? source.evaluation : { files: [heldOutOf(text)], everySteps: draft.checkpointEvery },
    train: {
      ...{ steps, globalBatchSize, sequenceLength, gradientClipNorm: source.train.gradientClipNorm },
      optimizer: { ...optimizer, learningRate: draft.learningRate },
      schedule: { type: draft.schedule, warmupSteps },
      ...adapted,
      ...(text === null && source.train.beta !== undefined && { beta: source.train.beta }),
    },
    checkpoint: { everySteps: draft.checkpointEvery },
  };
  return parseRunFile(file, 'the draft');
}

/** The folder's adapter as it was drafted, or a new one like the source's on the same weights; null: every weight is trained. */
function adaptedAs({ model, adapter: drafted, seed }: RunDraft, { train: { adapter, base } }: RunFile): object | null {
  if (folderOf(model) !== null) return drafted && { adapter: { type: 'lora', ...drafted, seed } };
  if (model !== 'same' || adapter === undefined) return null;
  const { init: _, ...own } = adapter;
  return { adapter: { ...own, seed }, base };
}

function dataOf(name: string, { format, tokenizer, chatTemplate }: OwnText, packing: boolean): object {
  const data = { files: [textFile(name, format)], tokenizer, order: 'shuffled' };
  if (format === 'text') return data;
  return { ...data, format, packing, ...(chatTemplate === undefined ? {} : { chatTemplate }) };
}

/** The same shape for other tokens: ids of the old ones mean nothing any more. */
function withVocabulary(model: RunFile['model'], vocabulary: unknown): RunFile['model'] {
  if (model.vocab_size === vocabulary) return model;
  const { bos_token_id, eos_token_id, pad_token_id, ...shape } = model;
  return { ...shape, vocab_size: vocabulary };
}

function presetConfig(preset: ModelPreset, vocab_size: unknown, sequence: number): Record<string, unknown> {
  const shape = MODEL_PRESETS[preset];
  return {
    ...{ model_type: 'gpt2', ...shape, n_positions: Math.max(sequence, 32), vocab_size },
    ...{ activation_function: 'gelu_new', resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0 },
    ...{ layer_norm_epsilon: 1e-5, initializer_range: 0.02, tie_word_embeddings: true },
  };
}

/** What operators note of a run, for themselves: no control characters but line breaks. */
export const noteSchema = z
  .string()
  .max(2_000)
  .regex(/^(?:\n|[^\p{Cc}])*$/u);

/** A run of a data directory, as the list shows it. */
const listedRunSchema = z.object({
  name: z.string(),
  /** What operators noted of it; empty: nothing. */
  note: noteSchema,
  isActive: z.boolean(),
  /** It trains beside the active one, led by a process of its own. */
  isBeside: z.boolean(),
  isPaused: z.boolean(),
  createdAtMs: z.number(),
  committedSteps: z.int(),
  steps: z.int(),
  loss: z.number().nullable(),
  heldOutLoss: z.number().nullable(),
  /** `gpt2, 2 layers of 32, 41,000 parameters`. */
  model: z.object({
    ...{ family: z.string(), layers: z.int(), width: z.int() },
    /** That are trained, and that stand beside them where it is an adapter that is trained. */
    ...{ parameters: z.number(), standing: z.number() },
  }),
  globalBatchSize: z.int(),
  sequenceLength: z.int(),
  learningRate: z.number(),
  dataTokens: z.number(),
  /** `samplesAfter`, `evaluationsAfter`: what goes too where the run goes back to it. */
  checkpoints: z.array(
    z.object({ committedSteps: z.int(), kept: z.boolean(), samplesAfter: z.int(), evaluationsAfter: z.int() }),
  ),
  /** Kept ones of steps that a roll-back undid. */
  formerCheckpoints: z.array(z.object({ committedSteps: z.int(), generation: z.int() })),
});
export type ListedRun = z.infer<typeof listedRunSchema>;

/** `bytes`: to train on; what is held out of it is not counted. */
export const listedTextSchema = z.object({ name: z.string(), format: z.enum(TEXT_FORMATS), bytes: z.int() });
export type ListedText = z.infer<typeof listedTextSchema>;

/** A model's folder on the server's disk. */
const listedModelSchema = z.object({
  name: z.string(),
  /** Why it cannot be trained; null: it can. */
  problem: z.string().nullable(),
  /** Null: its config.json is of no model that is known here. */
  model: z
    .object({
      ...{ family: z.string(), layers: z.int(), width: z.int(), parameters: z.number(), positions: z.int() },
      /** Modules that an adapter may change. */
      targets: z.array(z.string()),
    })
    .nullable(),
});
export type ListedModel = z.infer<typeof listedModelSchema>;
export const modelListSchema = z.object({ models: z.array(listedModelSchema) });

const ATTENTION = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'c_attn', 'c_proj'];
/** Of attention's projections, all that the model has. */
export const initialAdapter = (targets: readonly string[]): DraftAdapter => ({
  ...{ rank: 16, alpha: 32 },
  targets: targets.filter((name) => ATTENTION.includes(name)),
});

export const runListSchema = z.object({
  runs: z.array(listedRunSchema),
  /** That operators brought along. */
  texts: z.array(listedTextSchema),
  /** Whether this server can change to another run. */
  canActivate: z.boolean(),
  /** Whether it can train others beside it. */
  canBeside: z.boolean(),
  /** Names of the runs that follow the active one by themselves, the next one first. */
  queue: z.array(z.string()),
  /** Where checkpoints may be pushed, and as which OAuth application; null: with an access token only. */
  hub: z.object({ url: z.url(), clientId: z.string().nullable() }),
});
export type RunList = z.infer<typeof runListSchema>;

const predictionSchema = z.object({
  stepSeconds: z.number(),
  tokensPerSecond: z.number(),
  totalSeconds: z.number(),
  stages: z.int(),
  microBatches: z.int(),
  schedule: z.string(),
});
export const dryRunSchema = z.object({
  ...predictionSchema.shape,
  /** Without the edit of a what-if. */
  before: predictionSchema.nullable(),
  parameters: z.number(),
  peers: z.array(
    z.object({
      peer: z.string(),
      layers: z.string(),
      samples: z.int(),
      busySeconds: z.number(),
      memoryBytes: z.number(),
      memoryLimitBytes: z.number(),
      sentBytes: z.number(),
    }),
  ),
  idle: z.array(z.object({ peer: z.string(), reason: z.string() })),
  reasons: z.array(z.string()),
});
export type DryRun = z.infer<typeof dryRunSchema>;
export type Prediction = z.infer<typeof predictionSchema>;

export const dryRunQuestionSchema = z.object({
  /** Null: the run that is active. */
  draft: runDraftSchema.nullable(),
  /** A cluster file's text; null: the donors at hand. */
  cluster: z.string().max(200_000).nullable(),
  whatIf: z.string().max(2_000).nullable(),
});
export type DryRunQuestion = z.infer<typeof dryRunQuestionSchema>;
