/**
 * The run file: what is to be trained, on what, and how. Parsing answers with plain data in the file's own shape, every
 * default filled in, so that a parsed run file is a run file again; or with one sentence that names the file, the field
 * and what was expected.
 */
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../base.ts';
import { type Adapter, adapterModel } from '../model/adapter.ts';
import { modelFromConfig } from '../model/families.ts';
import {
  countUpTo,
  expecting,
  fieldPath,
  fields,
  isTooDeep,
  natural,
  nonNegative,
  number,
  positive,
  sentence,
  TOO_DEEP,
  text,
} from '../model/inputFields.ts';
import { trainedModel } from '../model/matrices.ts';
import { type Model, overflowsHalves } from '../model/model.ts';
import { COMPUTE_PRECISIONS } from '../precision.ts';
import { RUN_WIRES, STATE_WIRES } from '../wire.ts';
import { type Order, SEQUENTIAL } from './data.ts';

export type RunFile = z.output<typeof RUN_FILE>;
/** A fixed number that meet every so many steps, or as many as there are groups of donors, which meet when the time is over. */
export type Islands = CountedIslands | AutoIslands;
interface IslandSettings {
  readonly outer: { readonly learningRate: number; readonly momentum: number };
  readonly exchange: 'f32' | { readonly top: number; readonly chunk: number; readonly feedback: number };
  readonly publish: 'f32' | 'int8';
  /** The next round begins while the meeting is under way, and takes in what comes of it when it is there. */
  readonly overlap: boolean;
}
export interface CountedIslands extends IslandSettings {
  readonly count: number;
  readonly innerSteps: number;
}
export interface AutoIslands extends IslandSettings {
  readonly count: 'auto';
  readonly roundSeconds: number;
}

/** A step is numbered in 32 bits, in frames and messages; a micro-batch in 16, and it has a sample at least. */
const MOST_STEPS = 0xffffffff;
/** Of a run that ends with its time: more than any has. */
export const OPEN_STEPS = MOST_STEPS;
const steps = countUpTo(MOST_STEPS);
const MOST_SAMPLES = 65_536;
/** Past every model that there is; an activation of one sample can still be allocated. */
const MOST_TOKENS = 2 ** 20;

/** Copies of each shard beside its primary. */
export const MOST_REPLICAS = 3;

/** Each is looked at before the first one is read. */
const MOST_FILES = 10_000;

/** Of a config.json, which is kept and sent with the run: real ones have some tens. */
const MOST_FIELDS = 1_000;

const ANSWERS_FILE = 'the path of a JSONL file of prompts and answers';
const INIT_FILE = 'the path of a .safetensors file, of a model.safetensors.index.json or of a folder with either';

/** The optimizer's numbers are float32 on the GPU: one that is 0, infinite or 1 there must not have passed as another. */
const FLOAT32 = 'a number that float32 can hold';
const FLOAT32_LEAST = 2 ** -126;
const isFinite32 = (value: number): boolean => Number.isFinite(Math.fround(value));
const nonNegative32 = nonNegative.refine(isFinite32, { error: expecting(FLOAT32) });
const positive32 = positive.refine((value) => value >= FLOAT32_LEAST && isFinite32(value), {
  error: expecting(FLOAT32),
});
const belowOne = number('a number from 0 to below 1', (value) => value >= 0 && value < 1).refine(
  (value) => Math.fround(value) < 1 || value >= 1,
  { error: expecting('below 1 in float32 too') },
);
const ratio = number('a number from 0 to 1', (value) => value >= 0 && value <= 1);
const files = z
  .array(text('a path'), { error: expecting('a list of paths') })
  .min(1, { error: expecting('a list of one path or more') })
  .max(MOST_FILES, { error: expecting(`a list of at most ${MOST_FILES} paths`) });

const replicas = number(
  `an integer from 0 to ${MOST_REPLICAS}`,
  (value) => Number.isInteger(value) && value >= 0 && value <= MOST_REPLICAS,
);

const tokenizer = text('"bytes" or the path of a tokenizer.json').regex(/^bytes$|\.json$/, {
  error: expecting('"bytes" or the path of a tokenizer.json'),
});

/** A string is `word`, anything else `object`: a plain union would answer with no sentence of either. */
function wordOr<Word, Fields>(word: z.ZodType<Word>, object: z.ZodType<Fields>, words: string) {
  return z.unknown().transform((value, context): Word | Fields => {
    const parsed = (typeof value === 'string' ? word : object).safeParse(value);
    if (parsed.success) return parsed.data;
    if (typeof value === 'string' || (typeof value === 'object' && value !== null))
      for (const issue of parsed.error.issues)
        context.addIssue({ code: 'custom', path: fieldPath(issue), message: issue.message });
    else context.addIssue({ code: 'custom', message: expecting(words)({ input: value }) });
    return z.NEVER;
  });
}

const init = wordOr(text(INIT_FILE), fields({ seed: natural }), `${INIT_FILE}, or {"seed": N}`);

/** Of a budget: how much of it the rate rises, and when its fall ends. */
const shares = { warmup: ratio.exactOptional(), decay: ratio.exactOptional() };
const constant = fields({ type: z.literal('constant'), warmupSteps: natural.default(0), warmup: shares.warmup });
const cosine = fields({
  type: z.literal('cosine'),
  warmupSteps: natural.default(0),
  ...shares,
  decaySteps: number(
    `an integer from 0 to ${MOST_STEPS}`,
    (value) => Number.isInteger(value) && value >= 0 && value <= MOST_STEPS,
  ).optional(),
  minRatio: ratio.default(0.1),
});

/** Each costs its keepers three planes of main memory, and their kinds are numbered in a byte. */
export const MOST_ISLANDS = 63;
/** A chunk of few elements costs as much to send and to meet about as one of many. */
const LEAST_CHUNK_ELEMENTS = 64;
const MOST_CHUNK_ELEMENTS = 65_536;
const isChunk = (value: number): boolean =>
  Number.isInteger(value) && value >= LEAST_CHUNK_ELEMENTS && value <= MOST_CHUNK_ELEMENTS;
const islandCount = `a positive integer up to ${MOST_ISLANDS}, or "auto"`;
const isIslandCount = (value: unknown): boolean =>
  value === 'auto' || (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MOST_ISLANDS);
const ROUND_SECONDS = 300;
/** A day: donors leave before. */
const MOST_ROUND_SECONDS = 86_400;
const roundSeconds = number(
  `a number above 0, at most ${MOST_ROUND_SECONDS}`,
  (value) => value > 0 && value <= MOST_ROUND_SECONDS,
);
const sparseExchange = fields({
  top: countUpTo(MOST_CHUNK_ELEMENTS).default(64),
  chunk: number(`an integer from ${LEAST_CHUNK_ELEMENTS} to ${MOST_CHUNK_ELEMENTS}`, isChunk).default(4096),
  feedback: ratio.default(0.95),
});
/** The outer step's defaults, by what is exchanged. */
const DENSE_OUTER = { learningRate: 0.7, momentum: 0.9 };
const SPARSE_OUTER = { learningRate: 1, momentum: 0.5 };
/** What comes of a meeting is a round late then: more momentum than this overshoots. */
const MOST_OVERLAPPED_MOMENTUM = 0.5;
const EXCHANGE = '"f32" or an object of top, chunk and feedback';
const islandsSchema = fields({
  count: z.custom<number | 'auto'>(isIslandCount, { error: expecting(islandCount) }),
  innerSteps: steps.exactOptional(),
  roundSeconds: roundSeconds.exactOptional(),
  outer: fields({ learningRate: nonNegative32.exactOptional(), momentum: belowOne.exactOptional() }).default({}),
  exchange: wordOr(z.literal('f32', { error: expecting(EXCHANGE) }), sparseExchange, EXCHANGE).default({
    top: 64,
    chunk: 4096,
    feedback: 0.95,
  }),
  publish: z.enum(['f32', 'int8'], { error: expecting('"f32" or "int8"') }).exactOptional(),
  overlap: z.boolean({ error: expecting('true or false') }).default(false),
}).transform(({ count, innerSteps, roundSeconds, outer, publish, ...rest }, context): Islands => {
  const refuse = (field: string, message: string): never => {
    context.addIssue({ code: 'custom', path: [field], message });
    return z.NEVER;
  };
  // Islands that come and go with their donors take a careful outer step, and publish what is small.
  const isAuto = count === 'auto';
  const settings = {
    ...rest,
    outer: { ...(rest.exchange === 'f32' && !isAuto ? DENSE_OUTER : SPARSE_OUTER), ...outer },
    publish: publish ?? (isAuto ? 'int8' : 'f32'),
  };
  if (settings.overlap && settings.outer.momentum > MOST_OVERLAPPED_MOMENTUM)
    return refuse(
      'outer.momentum',
      `must be at most ${MOST_OVERLAPPED_MOMENTUM} with overlap true, not ${settings.outer.momentum}`,
    );
  if (isAuto) {
    if (innerSteps !== undefined)
      return refuse('innerSteps', 'does not go with count "auto": roundSeconds says there how long a round is');
    return { count, roundSeconds: roundSeconds ?? ROUND_SECONDS, ...settings };
  }
  if (roundSeconds !== undefined)
    return refuse(
      'roundSeconds',
      'goes only with count "auto": with a number of islands innerSteps says how long a round is',
    );
  if (innerSteps === undefined) return refuse('innerSteps', expecting('a positive integer')({ input: undefined }));
  return { count, innerSteps, ...settings };
});

const DEFAULT_SHARES = { warmup: 0.02, decay: 1 };
/** A year. */
const MOST_SECONDS = 31_536_000;
const budget = fields({
  seconds: number(
    `a number of seconds above 0, at most ${MOST_SECONDS}`,
    (value) => value > 0 && value <= MOST_SECONDS,
  ),
});

const optimizerFields = {
  learningRate: nonNegative32,
  betas: z.tuple([belowOne, belowOne], { error: expecting('two numbers from 0 to below 1') }),
  epsilon: positive32,
  weightDecay: nonNegative32.default(0),
};
const adamw = fields({ type: z.literal('adamw'), ...optimizerFields });
/** Matrices by orthogonalised momentum, all else by AdamW. */
const muon = fields({ type: z.literal('muon'), momentum: belowOne.default(0.95), ...optimizerFields });

/** More than any published adapter has: past it the matrices that it changes are hardly larger. */
const MOST_RANK = 1_024;
const MOST_TARGETS = 100;
const TARGET = 'the last part of a linear module’s name, such as "q_proj"';
const ADAPTER_FILE = 'the path of a folder with adapter_model.safetensors, or of a .safetensors file';
const adapter = fields({
  type: z.literal('lora', { error: expecting('"lora"') }),
  rank: countUpTo(MOST_RANK),
  alpha: positive32,
  targets: z
    .array(text(TARGET).regex(/^[A-Za-z0-9_]+$/, { error: expecting(TARGET) }), {
      error: expecting('a list of module names'),
    })
    .min(1, { error: expecting('a list of one module name or more') })
    .max(MOST_TARGETS, { error: expecting(`a list of at most ${MOST_TARGETS} module names`) })
    .refine((names) => new Set(names).size === names.length, { error: 'names a module twice' }),
  rslora: z.boolean({ error: expecting('true or false') }).default(false),
  init: text(ADAPTER_FILE).exactOptional(),
  /** Of its first values, where no file has them. */
  seed: natural.default(1),
});
/** How donors hold the weights that an adapter leaves as they are. */
const BASE_ENCODINGS = ['f32', 'f16', 'int8'] as const;
export type BaseEncoding = (typeof BASE_ENCODINGS)[number];

/** What tells the alternatives of a field apart is its `type`. */
const byType = (words: string) => ({
  error: ({ code, input, discriminator }: z.core.$ZodRawIssue) =>
    code === 'invalid_union' && discriminator
      ? expecting(words)({ input: (input as { type?: unknown }).type })
      : expecting('an object')({ input }),
});

const trainFields = fields({
  steps: steps.exactOptional(),
  budget: budget.exactOptional(),
  globalBatchSize: countUpTo(MOST_SAMPLES),
  sequenceLength: countUpTo(MOST_TOKENS),
  optimizer: z.discriminatedUnion('type', [adamw, muon], byType('"adamw" or "muon"')),
  schedule: z
    .discriminatedUnion('type', [constant, cosine], byType('"constant" or "cosine"'))
    .default({ type: 'constant', warmupSteps: 0 }),
  gradientClipNorm: positive.nullable().default(null),
  islands: islandsSchema.exactOptional(),
  adapter: adapter.exactOptional(),
  base: z.enum(BASE_ENCODINGS, { error: expecting('"f32", "f16" or "int8"') }).exactOptional(),
  beta: positive32.exactOptional(),
});

type Cosine = Omit<z.output<typeof cosine>, 'decaySteps'> & { readonly decaySteps: number };
type Schedule = z.output<typeof constant> | Cosine;
export interface Train extends Omit<z.output<typeof trainFields>, 'steps' | 'schedule'> {
  /** `OPEN_STEPS` where a budget says when it ends. */
  readonly steps: number;
  readonly schedule: Schedule;
}

/** Also what a donor is told of its run. */
export const trainSchema = trainFields.transform(
  ({ schedule, steps: given, budget: time, base, ...others }, context): Train => {
    const refuse = (field: string, message: string): never => {
      context.addIssue({ code: 'custom', path: field.split('.'), message });
      return z.NEVER;
    };
    if (base !== undefined && others.adapter === undefined)
      return refuse('base', 'goes only with adapter: without one every weight is trained, in float32');
    const rest = others.adapter === undefined ? others : { ...others, base: base ?? 'f32' };
    if (time !== undefined) {
      if ((given ?? OPEN_STEPS) !== OPEN_STEPS)
        return refuse('steps', 'does not go with budget, which says when it ends');
      if (rest.islands) return refuse('budget', 'does not go with islands yet: their runs have a number of steps');
      if (schedule.warmupSteps > 0)
        return refuse('schedule.warmupSteps', 'does not go with budget: warmup is a share of it');
      if (schedule.type === 'cosine' && (schedule.decaySteps ?? OPEN_STEPS) !== OPEN_STEPS)
        return refuse('schedule.decaySteps', 'does not go with budget: decay is a share of it');
      return { ...rest, steps: OPEN_STEPS, budget: time, schedule: withShares(schedule) };
    }
    if (given === undefined)
      return refuse('steps', expecting(`a positive integer up to ${MOST_STEPS}`)({ input: given }));
    for (const field of ['warmup', 'decay'] as const)
      if (field in schedule) return refuse(`schedule.${field}`, 'goes only with budget, of which it is a share');
    return { ...rest, steps: given, schedule: withDecay(schedule, given) };
  },
);

type GivenSchedule = z.output<typeof constant> | z.output<typeof cosine>;

const withDecay = (schedule: GivenSchedule, steps: number): Schedule =>
  schedule.type === 'cosine' ? { ...schedule, decaySteps: schedule.decaySteps ?? steps } : schedule;

function withShares(schedule: GivenSchedule): Schedule {
  const { warmup, decay } = { ...DEFAULT_SHARES, ...schedule };
  return schedule.type === 'cosine' ? { ...schedule, decaySteps: OPEN_STEPS, warmup, decay } : { ...schedule, warmup };
}

/** What files have that operators bring along: texts, or in each line of them one example. */
export const TEXT_FORMATS = ['text', 'completion', 'chat'] as const;
const DATA_FORMATS = [...TEXT_FORMATS, 'preference'] as const;
/** Of preference pairs: DPO's β where the file does not say it. */
const USUAL_BETA = 0.1;

/** Who may have the first and last stage, which see what is trained on. */
const ENDS = ['any', 'own'] as const;

const RUN_FILE = fields({
  // It names rows and folders: no separators, and never a leading dot.
  name: text('a name').regex(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/, {
    error: expecting('at most 100 letters (a to z), digits, ".", "_" or "-", and begin with a letter, a digit or "_"'),
  }),
  model: z
    .record(z.string(), z.unknown(), { error: expecting('a Hugging Face config.json') })
    .refine((config) => Object.keys(config).length <= MOST_FIELDS, {
      error: `must have ${MOST_FIELDS} fields at most`,
    }),
  data: fields({
    files,
    tokenizer,
    format: z.enum(DATA_FORMATS, { error: expecting('"text", "completion", "chat" or "preference"') }).exactOptional(),
    packing: z.boolean({ error: expecting('true or false') }).exactOptional(),
    chatTemplate: text('the path of a chat template').exactOptional(),
    order: z.enum(['sequential', 'shuffled'], { error: expecting('"sequential" or "shuffled"') }).default('sequential'),
    seed: natural.default(0),
  }),
  init,
  train: trainSchema,
  checkpoint: fields({ everySteps: steps.default(20) }).default({ everySteps: 20 }),
  evaluation: fields({ files, everySteps: steps.default(50), answers: text(ANSWERS_FILE).exactOptional() })
    .nullable()
    .default(null),
  precision: fields({
    compute: z.enum(COMPUTE_PRECISIONS, { error: expecting('"f32" or "f16"') }).default('f32'),
    wire: z.enum(RUN_WIRES, { error: expecting('"f32", "f16", "int8", "int4" or "auto"') }).default('f32'),
    state: z.enum(STATE_WIRES, { error: expecting('"f32" or "int8"') }).exactOptional(),
  }).default({ compute: 'f32', wire: 'f32' }),
  state: fields({ replicas: replicas.exactOptional() }).exactOptional(),
  trust: fields({
    audit: ratio.exactOptional(),
    ends: z.enum(ENDS, { error: expecting('"any" or "own"') }).exactOptional(),
  }).exactOptional(),
});

/** `fileName` opens every sentence. */
export function parseRunFile(json: unknown, fileName: string): Result<RunFile> {
  if (isTooDeep(json)) return refusal(`${fileName}: the run file ${TOO_DEEP}`);
  const parsed = RUN_FILE.safeParse(json);
  if (!parsed.success) return refusal(`${fileName}: ${sentence(parsed.error.issues[0], 'the run file')}`);
  const model = modelFromConfig(parsed.data.model);
  if (!model.ok) return refusal(`${fileName}: model.${model.reason}`);
  const unpaired = pairsProblem(parsed.data);
  if (unpaired !== null) return refusal(`${fileName}: ${unpaired}`);
  const run = withBeta(overflowsHalves(model.value) ? inFloats(parsed.data) : parsed.data);
  const trained = modelToTrain(run);
  if (!trained.ok) return refusal(`${fileName}: train.adapter.${trained.reason}`);
  const unfit = dataProblem(run.data);
  if (unfit !== null) return refusal(`${fileName}: ${unfit}`);
  const { sequenceLength } = run.train;
  if (sequenceLength > model.value.positions)
    return refusal(
      `${fileName}: train.sequenceLength must be at most the model's ${model.value.positions} positions, not ${sequenceLength}`,
    );
  if (run.precision.compute === 'f16' && run.precision.state === 'int8')
    return refusal(
      `${fileName}: precision.state "int8" needs precision.compute "f32": its codes are added to float32 values, which "f16" does not keep`,
    );
  if (run.evaluation && run.train.islands?.publish === 'int8')
    return refusal(
      `${fileName}: evaluation must be null where train.islands.publish is "int8": a held-out loss of the shared values is not supported yet there`,
    );
  // Where examples begin stands in the same files as their tokens, and each stage reads it.
  if (keepsEnds(run) && (run.data.format ?? 'text') !== 'text')
    return refusal(
      `${fileName}: trust.ends must be "any" with data.format "${run.data.format}": every stage reads where examples begin, which is with their tokens; "own" is supported with "text"`,
    );
  return success(run);
}

/** The model as its optimizer trains it; with an adapter its own weights stand. */
export function modelToTrain({ model: config, train }: Pick<RunFile, 'model' | 'train'>): Result<Model> {
  const whole = modelFromConfig(config);
  const { adapter } = trainedAs(train);
  const model = whole.ok && adapter ? adapterModel(whole.value, adapter) : whole;
  return model.ok ? success(trainedModel(model.value, train.optimizer.type)) : model;
}

/** Fields that say nothing beside the others. */
function dataProblem({ format = 'text', packing, chatTemplate, tokenizer }: RunFile['data']): string | null {
  if (packing !== undefined && (format === 'text' || format === 'preference'))
    return `data.packing goes only with data.format "completion" or "chat": ${format === 'text' ? 'a text has no examples' : 'each pair has a window of its own'}`;
  if (chatTemplate !== undefined && format !== 'chat')
    return `data.chatTemplate goes only with data.format "chat", not "${format}"`;
  if (format === 'chat' && tokenizer === 'bytes' && chatTemplate === undefined)
    return 'data.chatTemplate is missing: with data.format "chat" and data.tokenizer "bytes" it must be the path of a chat template';
  return null;
}

/** What pairs need, and others do not have. */
function pairsProblem({ data, train: { adapter, beta, sequenceLength } }: RunFile): string | null {
  if (data.format !== 'preference')
    return beta === undefined ? null : 'train.beta goes only with data.format "preference"';
  if (adapter === undefined)
    return 'data.format "preference" needs train.adapter: what an answer is compared with is the model without it';
  return sequenceLength % 2 === 0
    ? null
    : `train.sequenceLength must be even with data.format "preference", not ${sequenceLength}: a window has each pair twice`;
}

const withBeta = (run: RunFile): RunFile =>
  run.data.format === 'preference' ? { ...run, train: { beta: USUAL_BETA, ...run.train } } : run;

const inFloats = (run: RunFile): RunFile => ({ ...run, precision: { ...run.precision, compute: 'f32' } });

/** The model of a parsed run file. */
export function modelOf(run: RunFile): Model {
  const model = modelToTrain(run);
  invariant(model.ok, 'a parsed run file has a valid model');
  return model.value;
}

/** The model that texts are written with: the family's own, with whatever an adapter changes added to its weights. */
export function wholeModelOf(run: RunFile): Model {
  const { adapter: _, base: __, ...train } = run.train;
  return modelOf({ ...run, train });
}

/** Only the operator's own donors have the first and the last stage. */
export const keepsEnds = ({ trust }: { readonly trust?: RunFile['trust'] }): boolean => trust?.ends === 'own';

/** What a planner needs to know of a run's steps. */
export const batchOf = ({ train, precision, ...run }: RunFile) => ({
  ...(keepsEnds(run) && { ends: 'own' as const }),
  ...(train.islands ? { islands: train.islands } : {}),
  ...trainedAs(train),
  samples: train.globalBatchSize,
  sequence: train.sequenceLength,
  wire: precision.wire,
  compute: precision.compute,
  ...stateWireOf({ precision }),
});

/** Of the work of a run of which nobody says it. */
const AUDITED_SHARE = 0.05;

/** Which share of donors' work is done again (`asked`: in place of the file's); bounded by what steps cost, unless somebody said it. Null: nothing is. */
export function auditOf(
  { trust }: Pick<RunFile, 'trust'>,
  asked: number | undefined,
): { readonly share: number; readonly isBounded: boolean } | null {
  const said = asked ?? trust?.audit;
  return said === 0 ? null : { share: said ?? AUDITED_SHARE, isBounded: said === undefined };
}

/** What is trained, and what updates it; nothing: every weight, by AdamW. */
export const trainedAs = ({
  optimizer,
  adapter: own,
  base = 'f32',
  beta,
}: Pick<Train, 'optimizer' | 'adapter' | 'base' | 'beta'>): {
  readonly optimizer?: 'muon';
  readonly adapter?: Adapter;
} => ({
  ...(optimizer.type === 'muon' && { optimizer: optimizer.type }),
  ...(own && {
    adapter: {
      ...{ rank: own.rank, alpha: own.alpha, targets: own.targets, rslora: own.rslora },
      ...(base !== 'f32' && { base }),
      ...(beta !== undefined && { beta }),
    },
  }),
});

/** How its gradient sums and values travel; nothing: as floats. */
export const stateWireOf = ({ precision: { state } }: Pick<RunFile, 'precision'>): { readonly stateWire?: 'int8' } =>
  state === 'int8' ? { stateWire: state } : {};

/** The order in which a run's windows are trained on. */
export const orderOf = ({ data: { order, seed } }: RunFile): Order =>
  order === 'sequential' ? SEQUENTIAL : { type: 'shuffled', seed };

/** The run with `seed` in place of its seeds: of the data's order, the weights, the adapter. What files have stays. */
export function withSeed(run: RunFile, seed: number): RunFile {
  const { adapter } = run.train;
  return {
    ...run,
    data: { ...run.data, seed },
    init: typeof run.init === 'string' ? run.init : { seed },
    train: adapter === undefined ? run.train : { ...run.train, adapter: { ...adapter, seed } },
  };
}
